"""What was deleted, flushed or complained of: it is gone, for that pair for ever, also behind a restart."""

import asyncio

import pytest
from gateway_talk import ADMIN_KEY, KEY, OTHER_KEY, cli, hold, posts, said
from semantic_talk import EGG, PASSWORD, Forwards, ask, asked, cache_of, fill, opened, scripted, semantic, settled, writer

from gateway.lab.fake import Options

pytestmark = pytest.mark.usefixtures("one_model")
ADMIN = {"authorization": f"Bearer {ADMIN_KEY}"}


@pytest.fixture
async def stack(start):
    return await opened(await start(semantic()))


async def delete(stack, entry, key=KEY):
    return await stack.client.delete(f"/v1/cache/{entry}", headers={"authorization": f"Bearer {key}"})


async def flush(stack, **conditions):
    answer = await stack.client.post("/admin/cache/flush", json=conditions, headers=ADMIN)
    assert answer.status_code == 200, answer.text
    return answer.json()["flushed"]


async def feedback(stack, answer, score, key=KEY):
    body = {"request_id": answer.headers["x-request-id"], "score": score}
    told = await stack.client.post("/v1/feedback", json=body, headers={"authorization": f"Bearer {key}"})
    assert told.status_code == 200, told.text
    return told.json()["applied"]


# -- one hit


@pytest.mark.parametrize("who", ["owner", "operator"])
async def test_a_deleted_hit_never_comes_back_for_that_pair(stack, who):
    """Not even when the kept question is asked and kept again; a question in other words is served it."""
    await fill(stack, PASSWORD[0])
    hit = await ask(stack, PASSWORD[1])
    entry = hit.headers["x-tiergate-cache-id"]
    if who == "owner":
        assert (await delete(stack, entry)).json() == {"deleted": True}
    else:
        gone = await stack.client.delete(f"/admin/cache/{entry}", headers=ADMIN)
        assert (gone.status_code, gone.json()) == (200, {"deleted": True})
    await fill(stack, PASSWORD[0], headers={"x-tiergate-cache": "no-cache"})
    assert cache_of(await ask(stack, PASSWORD[2])) == "semantic"
    assert cache_of(await ask(stack, PASSWORD[1], headers={"x-tiergate-cache": "no-store"})) == "miss"


@pytest.mark.parametrize("say", ["delete", "complain"])
async def test_what_is_not_the_same_is_so_both_ways(stack, say):
    """Who says of two questions that one answer does not serve both is not served the other one's answer either."""
    await fill(stack, PASSWORD[0])
    hit = await ask(stack, PASSWORD[1])
    assert cache_of(hit) == "semantic"
    if say == "delete":
        assert (await delete(stack, hit.headers["x-tiergate-cache-id"])).status_code == 200
    else:
        assert await feedback(stack, hit, 0)
        await flush(stack, all=True)
    await fill(stack, PASSWORD[1])
    assert cache_of(await ask(stack, PASSWORD[0])) == "miss"


async def test_nobody_deletes_what_another_tenant_was_served(stack):
    """An id is worth nothing to others, nor is one that was made up; the hit stays."""
    await fill(stack, PASSWORD[0])
    entry = (await ask(stack, PASSWORD[1])).headers["x-tiergate-cache-id"]
    for wrong in (entry, entry[:27], entry[:-1] + ("0" if entry[-1] != "0" else "1"), "cs-" + "0" * 24, "cs-", "cs-x-y-z-w"):
        refused = await delete(stack, wrong, OTHER_KEY)
        assert (refused.status_code, refused.json()["error"]["code"]) == (404, "entry_not_found")
    assert cache_of(await ask(stack, PASSWORD[1])) == "semantic"


async def test_the_operator_deletes_from_the_command_line(stack):
    """`tiergate cache delete` takes the id that the header showed; a second time there is nothing of it but the refused pair."""
    await fill(stack, PASSWORD[0])
    entry = (await ask(stack, PASSWORD[1])).headers["x-tiergate-cache-id"]
    code, out, err = await cli("cache", "delete", entry, "--url", stack.url, "--json", TIERGATE_ADMIN_KEY=ADMIN_KEY)
    assert (code, out.strip(), err) == (0, '{"deleted": true}', "")
    assert cache_of(await ask(stack, PASSWORD[1])) == "miss"
    code, _, err = await cli("cache", "delete", "cs-" + "0" * 24, "--url", stack.url, TIERGATE_ADMIN_KEY=ADMIN_KEY)
    assert code == 2
    assert "No cached answer has this id" in err


# -- flushes

CONDITIONS = [{"all": True}, {"tenant": "acme"}, {"model": "small-model"}, {"tag": "faq"}, {"older_than": 0}]


@pytest.mark.parametrize("conditions", CONDITIONS, ids=lambda found: next(iter(found)))
async def test_a_flush_takes_both_caches(stack, conditions):
    """By tenant, model, tag, age or all, it counts and takes exact answers and those for other words; a dry run takes none."""
    await fill(stack, PASSWORD[0], headers={"x-tiergate-cache": "tag=faq"})
    await fill(stack, EGG[0], key=OTHER_KEY, model="large-model")
    both = conditions.keys() & {"all", "older_than"}
    assert await flush(stack, **conditions, dry_run=True) == (4 if both else 2)
    assert cache_of(await ask(stack, PASSWORD[1])) == "semantic"
    assert await flush(stack, **conditions) == (4 if both else 2)
    only = {"headers": {"x-tiergate-cache": "only-if-cached"}}
    for content in PASSWORD[:2]:
        assert (await ask(stack, content, **only)).status_code == 504
    assert (await ask(stack, EGG[1], key=OTHER_KEY, model="large-model", **only)).status_code == (504 if both else 200)
    assert await flush(stack, all=True) == (0 if both else 2)


async def test_an_answer_under_way_during_a_flush_is_not_kept(stack):
    """What began before the flush is gone by it; its client has it all the same."""
    wake = hold(stack.small)
    task = asyncio.create_task(ask(stack, PASSWORD[0]))
    await stack.until(lambda: posts(stack.small))
    assert await flush(stack, tenant="acme") == 0
    wake()
    assert cache_of(await task) == "miss"
    await settled(stack)
    assert cache_of(await ask(stack, PASSWORD[1])) == "miss"


async def test_an_answer_that_is_being_embedded_during_a_flush_is_not_kept(stack):
    """Between an answer's end and its place in the store a flush takes it, too."""
    embedder, gate, reached = stack.gateway.parts.semantic.embedder, asyncio.Event(), asyncio.Event()
    embed = embedder.embed

    async def held(text, **how):
        reached.set()
        await gate.wait()
        return await embed(text, **how)

    embedder.embed = held
    await ask(stack, PASSWORD[0])
    await reached.wait()
    await flush(stack, tenant="acme")
    gate.set()
    await settled(stack)
    embedder.embed = embed
    assert stack.gateway.parts.semantic.standing().entries == 0
    assert cache_of(await ask(stack, PASSWORD[1])) == "miss"


async def test_flushes_at_once_take_each_entry_once(stack):
    """However many operators flush while answers come: every flush is done, and nothing is left."""
    for content in (*PASSWORD, *EGG):
        await fill(stack, content, headers={"x-tiergate-cache": "no-cache"})
    counts = await asyncio.gather(*(flush(stack, all=True) for _ in range(10)))
    assert sum(counts) == 10
    assert stack.gateway.parts.semantic.standing().entries == 0
    assert writer(stack).flushes.pending == []


# -- feedback


async def test_a_bad_score_refuses_the_pair(stack):
    """The question that was served wrongly is not served that answer again; others are. A good score changes nothing."""
    await fill(stack, PASSWORD[0])
    hit = await ask(stack, PASSWORD[1])
    assert await feedback(stack, hit, 1) is False
    assert cache_of(await ask(stack, PASSWORD[1])) == "semantic"
    assert await feedback(stack, hit, 0.2) is True
    assert cache_of(await ask(stack, PASSWORD[1], headers={"x-tiergate-cache": "no-store"})) == "miss"
    assert cache_of(await ask(stack, PASSWORD[2])) == "semantic"


async def test_feedback_comes_by_the_id_that_the_client_was_shown(stack):
    """A client's own request id is the one that it knows; another tenant may have the same, and speaks of its own answer."""
    mine = {"x-request-id": "mine"}
    for key in (KEY, OTHER_KEY):
        await fill(stack, PASSWORD[0], key=key)
        hit = await ask(stack, PASSWORD[1], key=key, headers=mine)
        assert (cache_of(hit), hit.headers["x-request-id"]) == ("semantic", "mine")
    assert await feedback(stack, hit, 0) is True
    assert cache_of(await ask(stack, PASSWORD[1], key=OTHER_KEY)) == "semantic"
    assert cache_of(await ask(stack, PASSWORD[1])) == "miss"


async def test_another_tenants_feedback_does_nothing(stack):
    """Nor does feedback on a request that nobody made."""
    await fill(stack, PASSWORD[0])
    hit = await ask(stack, PASSWORD[1])
    assert await feedback(stack, hit, 0, OTHER_KEY) is False
    assert cache_of(await ask(stack, PASSWORD[1])) == "semantic"


async def test_many_complaints_are_no_measure_of_the_error(stack):
    """They refuse their pairs, and retire the answer; whoever complains does not turn the cache off for others."""
    await fill(stack, PASSWORD[0])
    for content in PASSWORD[1:]:
        assert await feedback(stack, await ask(stack, content), 0) is True
    standing = stack.gateway.parts.semantic.standing()
    assert (standing.labels, standing.off, standing.entries) == (0, (), 0)


# -- approved answers


async def test_an_alias_goes_with_the_hit_that_it_comes_from(start, tmp_path):
    """An approved pair is served by the exact cache, under the hit's id; deleting that refuses the pair in both."""
    same = scripted(tmp_path, {"password": "Click on forgot."})
    stack = await opened(await start(semantic(shadow={"share": 1.0, "per_minute": 1000}), fakes={"s1": same, "l1": Options()}))
    await fill(stack, PASSWORD[0])
    hit = await fill(stack, PASSWORD[1])
    alias = await ask(stack, PASSWORD[1])
    assert (cache_of(hit), cache_of(alias)) == ("semantic", "exact")
    assert alias.headers["x-tiergate-cache-id"] == hit.headers["x-tiergate-cache-id"]
    assert said(alias) == said(hit)
    assert (await delete(stack, alias.headers["x-tiergate-cache-id"], OTHER_KEY)).status_code == 404
    assert (await delete(stack, alias.headers["x-tiergate-cache-id"])).status_code == 200
    assert cache_of(await ask(stack, PASSWORD[1], headers={"x-tiergate-cache": "no-store"})) == "miss"


async def test_a_complaint_takes_the_alias_too(start, tmp_path):
    """Feedback on the hit that was approved is heard by the exact cache."""
    same = scripted(tmp_path, {"password": "Click on forgot."})
    stack = await opened(await start(semantic(shadow={"share": 1.0, "per_minute": 1000}), fakes={"s1": same, "l1": Options()}))
    await fill(stack, PASSWORD[0])
    hit = await fill(stack, PASSWORD[1])
    assert await feedback(stack, hit, 0) is True
    assert cache_of(await ask(stack, PASSWORD[1], headers={"x-tiergate-cache": "no-store"})) == "miss"


async def test_an_alias_is_not_made_of_what_was_flushed_meanwhile(start, tmp_path):
    """The answer is served, then flushed while it is being verified: approved or not, it does not come back."""
    same = scripted(tmp_path, {"password": "Click on forgot."})
    stack = await opened(await start(semantic(shadow={"share": 1.0, "per_minute": 1000}), fakes={"s1": same, "l1": Options()}))
    await fill(stack, PASSWORD[0])
    wake = hold(stack.small)
    assert cache_of(await ask(stack, PASSWORD[1])) == "semantic"
    await stack.until(lambda: len(posts(stack.small)) == 2)
    await flush(stack, all=True)
    wake()
    await settled(stack)
    assert (await ask(stack, PASSWORD[1], headers={"x-tiergate-cache": "only-if-cached"})).status_code == 504


async def test_no_store_makes_no_alias(start, tmp_path):
    """Who wants nothing kept is served, and verified, and leaves nothing in the exact cache."""
    same = scripted(tmp_path, {"password": "Click on forgot."})
    stack = await opened(await start(semantic(shadow={"share": 1.0, "per_minute": 1000}), fakes={"s1": same, "l1": Options()}))
    await fill(stack, PASSWORD[0])
    for _ in range(2):
        assert cache_of(await fill(stack, PASSWORD[1], headers={"x-tiergate-cache": "no-store"})) == "semantic"
    assert asked(stack) == 3


# -- the next process


async def test_a_restart_keeps_answers_and_refusals(start):
    """Over the same directory what was kept is served, what was refused is not, and what was learned is known."""
    first = await opened(await start(semantic()))
    await fill(first, PASSWORD[0])
    hit = await ask(first, PASSWORD[1])
    await delete(first, hit.headers["x-tiergate-cache-id"])
    await fill(first, PASSWORD[0], headers={"x-tiergate-cache": "no-cache"})
    owner = first.gateway.parts.semantic
    for number in range(40):
        owner.evidence.learn("t:acme", 0.9, right=number % 4 > 0)
    await first.gateway.stop()
    second = await opened(await start(semantic()))
    forwards = Forwards(second)
    assert cache_of(await ask(second, PASSWORD[2])) == "semantic"
    assert cache_of(await ask(second, PASSWORD[1])) == "miss"
    assert asked(second) == 1
    standing = second.gateway.parts.semantic.standing()
    assert (standing.labels, standing.wrong) == (40, 10)
    assert len(forwards.texts) >= 1


async def test_a_refusal_is_on_disk_before_the_process_could_die(start, tmp_path):
    """A moment after a hit was deleted the next process would know, however this one ends."""
    stack = await opened(await start(semantic()))
    await fill(stack, PASSWORD[0])
    entry = (await ask(stack, PASSWORD[1])).headers["x-tiergate-cache-id"]
    await delete(stack, entry)
    await stack.until(lambda: not stack.gateway.parts.semantic.refused.changed)
    await stack.until(lambda: [path for path in (tmp_path / "data" / "qdrant").rglob("refused") if path.stat().st_size == 8])


async def test_without_a_secret_in_the_config_one_is_kept_beside_the_answers(start, tmp_path):
    """A file that only its owner reads makes the next process find what this one kept."""
    first = await opened(await start(semantic({"secret": ""})))
    await fill(first, PASSWORD[0])
    await first.gateway.stop()
    secret = tmp_path / "data" / "qdrant" / "secret"
    assert (secret.stat().st_mode & 0o777, len(secret.read_bytes())) == (0o600, 32)
    second = await opened(await start(semantic({"secret": ""})))
    assert cache_of(await ask(second, PASSWORD[1])) == "semantic"
