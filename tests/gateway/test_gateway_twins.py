"""One answer in two caches: whichever id it is deleted by, and by whom, neither serves it again."""

import asyncio

import pytest
from gateway_talk import ADMIN_KEY, KEY, OTHER_KEY, cli, hold, posts
from semantic_talk import EGG, PASSWORD, PLANTS, ask, cache_of, fill, opened, scripted, semantic, settled

from caches.vectors.types import StoreAway
from gateway.lab.fake import Options

pytestmark = pytest.mark.usefixtures("one_model")
ADMIN = {"authorization": f"Bearer {ADMIN_KEY}"}
ONLY = {"x-tiergate-cache": "only-if-cached"}
PAN = ("How do I clean a rusty pan?", "How can I clean a rusty pan?")
CLOCK = ("Who invented the pendulum clock?", "Who was it that invented the pendulum clock?")
ALWAYS = {"share": 1.0, "per_minute": 1000}


async def kept(stack, content, **how):
    """Which cache has an answer to it; empty: none."""
    answer = await ask(stack, content, headers=ONLY, **how)
    return "" if answer.status_code == 504 else cache_of(answer)


async def shown(stack, content, **how):
    """The id of a hit, or of the answer that was just made."""
    answer = await ask(stack, content, headers=ONLY, **how)
    return answer.headers["x-tiergate-cache-id"]


async def explained(stack, content):
    """The id that the operator is told without sending anything."""
    body = {"model": "small-model", "messages": [{"role": "user", "content": content}], "temperature": 0}
    told = await stack.client.post("/admin/explain", json={"tenant": "acme", "endpoint": "chat", "body": body}, headers=ADMIN)
    return told.json()["cache"]["id"]


async def delete(stack, entry, who="owner", key=KEY):
    if who == "owner":
        return await stack.client.delete(f"/v1/cache/{entry}", headers={"authorization": f"Bearer {key}"})
    return await stack.client.delete(f"/admin/cache/{entry}", headers=ADMIN)


async def approving(start, folder):
    """A stack whose hits are all approved: the second question of a pair is an alias."""
    same = scripted(folder, {"password": "Click on forgot."})
    return await opened(await start(semantic(shadow=ALWAYS), fakes={"s1": same, "l1": Options()}))


@pytest.mark.parametrize("who", ["owner", "operator"])
async def test_an_exact_answer_that_was_deleted_is_gone_from_both(start, who):
    """Neither its own question nor others that mean the same are served it; a new answer is kept as ever."""
    stack = await opened(await start(semantic()))
    await fill(stack, PASSWORD[0])
    await fill(stack, EGG[0])
    entry = await shown(stack, PASSWORD[0])
    assert entry.startswith("ce-")
    assert (await delete(stack, entry, who)).json() == {"deleted": True}
    assert [await kept(stack, content) for content in PASSWORD] == ["", "", ""]
    assert [await kept(stack, content) for content in EGG] == ["exact", "semantic"]
    assert (await delete(stack, entry, who)).status_code == 404
    await fill(stack, PASSWORD[0])
    assert [await kept(stack, content) for content in PASSWORD] == ["exact", "semantic", "semantic"]


async def test_the_same_from_the_command_line(start):
    """`tiergate cache delete` takes both."""
    stack = await opened(await start(semantic()))
    await fill(stack, PASSWORD[0])
    code, _, err = await cli("cache", "delete", await shown(stack, PASSWORD[0]), "--url", stack.url, TIERGATE_ADMIN_KEY=ADMIN_KEY)
    assert (code, err) == (0, "")
    assert [await kept(stack, content) for content in PASSWORD[:2]] == ["", ""]


@pytest.mark.parametrize("who", ["owner", "operator"])
async def test_a_hit_that_was_deleted_is_gone_from_both(start, who):
    """The answer behind it is nobody's any more, under its own question either."""
    stack = await opened(await start(semantic()))
    await fill(stack, PASSWORD[0])
    entry = await shown(stack, PASSWORD[1])
    assert entry.startswith("cs-")
    assert (await delete(stack, entry, who)).json() == {"deleted": True}
    assert [await kept(stack, content) for content in PASSWORD] == ["", "", ""]


async def test_an_exact_answer_that_has_gone_by_itself_is_deleted_from_the_other_cache(start):
    """The id that a client was shown an hour ago still names what the semantic cache keeps."""
    stack = await opened(await start(semantic()))
    await fill(stack, PASSWORD[0])
    entry = await shown(stack, PASSWORD[0])
    await stack.gateway.parts.exact.delete(entry, None)
    assert await kept(stack, PASSWORD[0]) == "semantic"
    assert (await delete(stack, entry)).json() == {"deleted": True}
    assert [await kept(stack, content) for content in PASSWORD] == ["", "", ""]


async def test_another_tenants_id_deletes_nothing(start):
    """It is the same 404 as an id that nobody has, and both caches go on serving its owner."""
    stack = await opened(await start(semantic()))
    await fill(stack, PASSWORD[0])
    ids = [await shown(stack, PASSWORD[0]), await shown(stack, PASSWORD[1])]
    for mine, nobodys in zip(ids, ("ce-" + "0" * 24, "cs-" + "0" * 24), strict=True):
        answers = [await delete(stack, entry, key=OTHER_KEY) for entry in (mine, nobodys)]
        assert [answer.status_code for answer in answers] == [404, 404]
        assert answers[0].json() == answers[1].json()
    assert [await kept(stack, content) for content in PASSWORD[:2]] == ["exact", "semantic"]


ALIASES = {
    "by the id of the hit": lambda stack: shown(stack, PASSWORD[1]),
    "by the exact id of its request": lambda stack: explained(stack, PASSWORD[1]),
    "by the id of the answer that it came from": lambda stack: shown(stack, PASSWORD[0]),
    "by the id of another hit on it": lambda stack: shown(stack, PASSWORD[2]),
}


@pytest.mark.parametrize("find", ALIASES.values(), ids=ALIASES)
async def test_an_alias_is_gone_with_its_answer(start, tmp_path, find):
    """An approved pair has the answer once more, in the exact cache: that goes too, whichever of its ids was deleted."""
    stack = await approving(start, tmp_path)
    await fill(stack, PASSWORD[0])
    await fill(stack, PASSWORD[1])
    assert await kept(stack, PASSWORD[1]) == "exact"
    assert (await delete(stack, await find(stack))).json() == {"deleted": True}
    assert await kept(stack, PASSWORD[1]) == ""


async def test_an_alias_of_a_deleted_answer_stays_gone_when_its_source_is_asked_anew(start, tmp_path):
    """The new answer to the first question is another one: it is not what was approved."""
    stack = await approving(start, tmp_path)
    old = await fill(stack, PASSWORD[0])
    await fill(stack, PASSWORD[1])
    await delete(stack, await shown(stack, PASSWORD[0]))
    new = await fill(stack, PASSWORD[0])
    again = await ask(stack, PASSWORD[1])
    assert (cache_of(again), again.json()["id"]) == ("semantic", new.json()["id"])
    assert old.json()["id"] != new.json()["id"]


async def test_a_complaint_of_an_alias_is_heard(start, tmp_path):
    """Feedback on what the exact cache served under a hit's id refuses the pair in both."""
    stack = await approving(start, tmp_path)
    for content in PASSWORD[:2]:
        await fill(stack, content)
    alias = await ask(stack, PASSWORD[1])
    assert cache_of(alias) == "exact"
    assert await complain(stack, alias) is True
    assert [await kept(stack, content) for content in PASSWORD[:2]] == ["exact", ""]


async def test_an_answer_that_is_renewed_during_its_deletion_is_kept_by_neither(start):
    """Who asked for a fresh answer has it; what began before the delete is not kept."""
    stack = await opened(await start(semantic()))
    await fill(stack, PASSWORD[0])
    entry = await shown(stack, PASSWORD[0])
    wake = hold(stack.small)
    task = asyncio.create_task(ask(stack, PASSWORD[0], headers={"x-tiergate-cache": "no-cache"}))
    await stack.until(lambda: len(posts(stack.small)) == 2)
    await delete(stack, entry)
    wake()
    assert cache_of(await task) == "bypass"
    await settled(stack)
    assert [await kept(stack, content) for content in PASSWORD[:2]] == ["", ""]


async def complain(stack, hit):
    body = {"request_id": hit.headers["x-request-id"], "score": 0}
    told = await stack.client.post("/v1/feedback", json=body, headers={"authorization": f"Bearer {KEY}"})
    return told.json()["applied"]


async def test_what_was_said_of_an_answer_holds_behind_a_restart(start):
    """Deleted by either id, complained of, or flushed: the next process does not serve it; what was not meant it does."""
    stack = await opened(await start(semantic()))
    for question in (PASSWORD, EGG, PLANTS, PAN, CLOCK):
        await fill(stack, question[0], headers={"x-tiergate-cache": "tag=flushed"} if question is PAN else {})
    await delete(stack, await shown(stack, PASSWORD[0]))
    await delete(stack, await shown(stack, EGG[1]))
    assert await complain(stack, await ask(stack, PLANTS[1])) is True
    flushed = await stack.client.post("/admin/cache/flush", json={"tag": "flushed"}, headers=ADMIN)
    assert flushed.json() == {"flushed": 2}
    await stack.gateway.stop()
    stack = await opened(await start(semantic()))
    found = {
        question[0]: [await kept(stack, content) for content in question[:2]] for question in (PASSWORD, EGG, PLANTS, PAN, CLOCK)
    }
    assert found == {
        PASSWORD[0]: ["", ""], EGG[0]: ["", ""], PLANTS[0]: ["semantic", ""], PAN[0]: ["", ""], CLOCK[0]: ["semantic", "semantic"]
    }  # fmt: skip
    for question in (EGG, PLANTS, PAN):
        await fill(stack, question[0])
    assert [await kept(stack, question[1]) for question in (EGG, PLANTS, PAN)] == ["", "", "semantic"]


async def test_a_store_that_is_away_is_told_of(start):
    """The exact answer is gone; that the other one may come back is a 503, and the same id deletes it later."""
    stack = await opened(await start(semantic()))
    await fill(stack, PASSWORD[0])
    entry, store = await shown(stack, PASSWORD[0]), stack.gateway.parts.semantic.store
    flush = store.flush

    async def away(*_, **__):
        raise StoreAway("timeout")

    store.flush = away
    for who in ("owner", "operator"):
        refused = await delete(stack, entry, who)
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "cache_store_away")
    store.flush = flush
    assert await kept(stack, PASSWORD[0]) == ""
    assert await kept(stack, PASSWORD[1]) == "semantic"
    assert (await delete(stack, entry)).status_code == 200
    assert await kept(stack, PASSWORD[1]) == ""


@pytest.mark.parametrize("tag", ["cs-1", "ce-" + "0" * 24, "cs-" + "0" * 24])
async def test_a_tag_that_looks_like_an_id_is_refused(start, tag):
    """What a client is shown as the id of its hit is never somebody's tag."""
    stack = await start()
    refused = await ask(stack, "hello", headers={"x-tiergate-cache": f"tag={tag}"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "invalid_header")
    for fine in ("ces-1", "csv", "x.cs-1"):
        assert (await ask(stack, "hello", headers={"x-tiergate-cache": f"tag={fine}"})).status_code == 200
    assert (await shown(stack, "hello")).startswith("ce-")
