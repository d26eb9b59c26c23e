"""What `/admin/explain` tells of the caches is what they then do; and being told changes nothing."""

import random

import pytest
from gateway_talk import ADMIN_KEY, CHAT, KEY, OTHER_KEY, scrape, shift_cache
from semantic_talk import EGG, NEAR, PASSWORD, PLANTS, TRAPS, opened, scripted, semantic, settled

from caches.which import Which
from gateway.lab.fake import Options

pytestmark = pytest.mark.usefixtures("one_model")

KEYS = {"acme": KEY, "globex": OTHER_KEY, "initech": "tg-test-key-of-initech"}
OWNER = {"authorization": f"Bearer {ADMIN_KEY}"}
SHARED = {"tenants": {0: {"cache": {"scope": "help"}}, 1: {"cache": {"scope": "help", "keep": "all"}}}}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
QUESTIONS = [
    *PASSWORD, *EGG, *PLANTS, *NEAR, *(text for pair in TRAPS.values() for text in pair), "What is the weather today?",
    "Tell me another joke", "怎么重置密码", "Explain this one", "?", "Wie setze ich mein Passwort bitte wieder zurück",
]  # fmt: skip
FIELDS = [
    ("temperature", [0, 0, 0, 0.5, 1.9]), ("seed", [7]), ("tools", [[TOOL]]), ("n", [1, 2]), ("logprobs", [True]),
    ("stream", [True]), ("user", ["u"]), ("model", ["large-model", "auto", "nobody"]),
]  # fmt: skip
DIRECTIVES = [
    "no-cache", "no-store", "only-if-cached", "store", "max-age=0", "max-age=1000", "ttl=5", "tag=faq, tag=news", "store, ttl=99",
]  # fmt: skip


def request_of(rng):
    """A body, headers and a tenant; most of them greedy, and of few questions."""
    messages = [{"role": "user", "content": rng.choice(QUESTIONS)}]
    if rng.random() < 0.15:
        messages.insert(0, {"role": "system", "content": "Be brief."})
    if rng.random() < 0.08:
        messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}, *messages]
    body = {"model": "small-model", "temperature": 0, "messages": messages}
    body |= {name: rng.choice(values) for name, values in FIELDS if rng.random() < 0.08}
    headers = {"x-tiergate-cache": rng.choice(DIRECTIVES)} if rng.random() < 0.25 else {}
    return body, headers, rng.choice(["acme", "acme", "globex"])


async def explained(stack, body, headers=None, tenant="acme"):
    wanted = {"tenant": tenant, "body": body, "headers": headers or {}}
    answer = await stack.client.post("/admin/explain", json=wanted, headers=OWNER)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def send(stack, body, headers=None, tenant="acme"):
    answer = await stack.client.post(CHAT, json=body, headers={"authorization": f"Bearer {KEYS[tenant]}", **(headers or {})})
    await settled(stack)
    return answer, await stack.line()


def agree(stack, told, answer, line):
    """Every claim about the caches against what came of the request; what happened, in a word."""
    if told["cache"] is None:
        assert answer.status_code == told["refusal"]["status"]
        return "refused"
    exact, mine = told["cache"]["exact"], told["cache"]["semantic"]
    served = answer.headers.get("x-tiergate-cache", "").split(";")[0]
    held = exact["held"]["state"] if exact["held"] else None
    assert (held in ("fresh", "stale")) is (served == "exact") is (told["cache"]["verdict"] == "exact")
    if served == "exact":
        return "exact"
    if served == "semantic":
        assert mine["eligible"]
        assert mine["stage"] == ""
        return "semantic"
    if "x-tiergate-replica" in answer.headers and answer.status_code != 200:
        return "refused by the model"
    if answer.status_code != 200:
        assert (told["refusal"]["status"], told["refusal"]["code"]) == (answer.status_code, answer.json()["error"]["code"])
        return told["refusal"]["code"]
    assert told["refusal"] is None
    assert served == told["cache"]["verdict"]
    gate = stack.gateway.parts.semantic.gate
    if not mine["eligible"]:
        assert line.get("semantic", mine["reason"]) in (mine["reason"], "gate")
        assert not mine["partition"] or not gate.holds(mine["partition"]) or mine["reason"] == "script"
        return mine["reason"]
    if told["cache"]["lookup"]:
        assert (line.get("semantic") == mine["stage"]) if mine["stage"] else (line.get("semantic") not in ("gate", "script"))
    if told["cache"]["store"]:
        assert gate.holds(mine["partition"])
    return mine["stage"] or "embedded"


@pytest.mark.parametrize("seed", range(2))
async def test_what_is_told_of_the_caches_is_what_they_do(start, seed):
    """Held or not, eligible or not and why, which stage turns it away, and the partition, over many mixed requests."""
    stack = await opened(await start({**semantic(), "tenants": {1: {"cache": {"keep": "all"}}}}))
    rng = random.Random(seed)
    seen, earlier = set(), []
    for _ in range(110):
        again = earlier and rng.random() < 0.2
        request = rng.choice(earlier) if again else request_of(rng)
        earlier.append(request)
        told = await explained(stack, *request)
        seen.add(agree(stack, told, *await send(stack, *request)))
    assert seen >= {"exact", "semantic", "gate", "numbers", "embedded", "not_cached", "refused", "not deterministic", "time"}


async def counted(stack):
    """What requests of tenants move."""
    return {
        (name, labels): value
        for (name, labels), value in (await scrape(stack)).items()
        if any(word in name for word in ("cache", "semantic", "token", "decisions", "limited"))
    }


async def test_being_told_changes_nothing(start):
    """No counter, no balance, no hit or miss of the store, no question of the embedder; nor does it say what else is kept."""
    stack = await opened(await start(semantic()))
    body = {"model": "small-model", "temperature": 0, "messages": [{"role": "user", "content": PASSWORD[0]}]}
    await send(stack, body)
    other = {**body, "messages": [{"role": "user", "content": PASSWORD[1]}]}
    before, kept = await counted(stack), await stack.gateway.parts.exact.stats()
    for wanted in (body, other, other, {**other, "model": "nobody"}):
        told = await explained(stack, wanted)
        assert PASSWORD[0] not in str(told) or wanted is body
    assert await counted(stack) == before
    assert await stack.gateway.parts.exact.stats() == kept
    assert len(stack.gateway.parts.semantic.gate) == 1


async def test_how_long_an_answer_would_be_kept_is_told(start):
    """By the tenant's policy and the client's wish; what is stale is told so, and only-if-cached then is served."""
    policy = {"exact": {"ttl": "100s", "stale": "50s"}}
    stack = await start({"cache": policy}, workers=0)  # one clock to set
    body = {"model": "small-model", "temperature": 0, "messages": [{"role": "user", "content": "hi"}]}
    wishes = {"x-tiergate-cache": "ttl=120, tag=faq, max-age=900"}
    exact = (await explained(stack, body, wishes))["cache"]["exact"]
    assert (exact["keep"], exact["ttl"], exact["stale"], exact["max_age"], exact["tags"]) == (
        "deterministic",
        100,
        20,
        900,
        ["faq"],
    )
    assert exact["held"] == {"state": "none", "age": None, "reason": ""}
    await stack.client.post(CHAT, json=body, headers={"authorization": f"Bearer {KEY}"})
    await stack.at_rest()
    only = {"x-tiergate-cache": "only-if-cached"}
    for later, state, refused in ((0, "fresh", False), (110, "stale", False), (160, "none", True)):
        shift_cache(stack, later)
        told = await explained(stack, body, only)
        assert told["cache"]["exact"]["held"]["state"] == state
        assert (told["refusal"] is not None) is refused
        if state == "stale":  # whoever says how old it may be does not want a stale one
            held = (await explained(stack, body, {"x-tiergate-cache": "max-age=900"}))["cache"]["exact"]["held"]
            assert (held["state"], held["reason"]) == ("none", "too old")


async def test_a_scope_and_its_tenants_are_told(start):
    """Who shares is told by the scope's name; a tenant alone by its own; and both have the same partition where they share."""
    stack = await start({**semantic(), **SHARED})
    body = {"model": "small-model", "temperature": 0, "messages": [{"role": "user", "content": PASSWORD[0]}]}
    told = [(await explained(stack, body, tenant=name))["cache"] for name in ("acme", "globex")]
    assert [one["exact"]["scope"] for one in told] == [{"name": "help", "shared": True}] * 2
    assert told[0]["semantic"]["partition"] == told[1]["semantic"]["partition"] != ""
    assert told[0]["semantic"]["embedder"] == "bab1e4f22557"
    assert (told[0]["semantic"]["preset"], told[0]["semantic"]["cut"]) == ("strict", 0.5)


async def test_what_is_off_is_told_as_off(start):
    """No semantic cache: not eligible, and nothing else is said of it."""
    stack = await start(fakes={"s1": Options(), "l1": Options()})
    body = {"model": "small-model", "temperature": 0, "messages": [{"role": "user", "content": "hi"}]}
    mine = (await explained(stack, body))["cache"]["semantic"]
    assert (mine["eligible"], mine["reason"], mine["partition"], mine["stage"]) == (False, "off", "", None)


async def test_a_store_that_does_not_answer_is_told(start, free_port):
    """Whether the answer is kept cannot be said, and why; the rest is explained all the same."""
    pytest.importorskip("redis", reason="redis is not installed (the extra `redis`)")
    changes = {"cache": {"exact": {"store": "redis"}}, "redis": {"url": f"redis://127.0.0.1:{free_port}/0"}}
    stack = await start(changes)
    body = {"model": "small-model", "temperature": 0, "messages": [{"role": "user", "content": "hi"}]}
    told = await explained(stack, body)
    assert told["cache"]["exact"]["held"]["state"] == "away"
    assert told["cache"]["exact"]["held"]["reason"]
    assert (told["cache"]["verdict"], told["route"]["model"]) == ("miss", "small-model")


async def test_an_alias_is_told_as_long_as_what_it_stands_for_is_there(start, tmp_path):
    """A right pair has become an exact entry: it is held until the answer that it came from is gone."""
    fakes = {"s1": scripted(tmp_path, {"password": "Click on forgot."}), "l1": Options()}
    stack = await opened(await start(semantic(shadow={"share": 1, "per_minute": 1000}), fakes=fakes))
    first = {"model": "small-model", "temperature": 0, "messages": [{"role": "user", "content": PASSWORD[0]}]}
    other = {**first, "messages": [{"role": "user", "content": PASSWORD[1]}]}
    await send(stack, first)
    served, _ = await send(stack, other)
    assert served.headers["x-tiergate-cache"] == "semantic"
    before = list(stack.gateway.parts.semantic._verdicts._recent._served)
    assert (await explained(stack, other))["cache"]["exact"]["held"]["state"] == "fresh"
    assert list(stack.gateway.parts.semantic._verdicts._recent._served) == before
    assert (await send(stack, other))[0].headers["x-tiergate-cache"] == "exact"
    assert await stack.gateway.parts.semantic.flush(Which(everything=True)) == 1
    held = (await explained(stack, other))["cache"]["exact"]["held"]
    assert (held["state"], held["reason"]) == ("none", "the answer that it stands for is gone")
    assert not (await send(stack, other))[0].headers["x-tiergate-cache"].startswith("exact")


async def test_a_scope_that_is_off_is_told(start):
    """Its answers were wrong too often for the bound: no score is enough, and nothing is served."""
    stack = await opened(await start(semantic(max_error=0.02)))
    body = {"model": "small-model", "temperature": 0, "messages": [{"role": "user", "content": PASSWORD[0]}]}
    assert (await explained(stack, body))["cache"]["semantic"]["cut"] == 0.5
    for _ in range(400):
        stack.gateway.parts.semantic.evidence.learn("t:acme", 0.9, right=False)
    told = (await explained(stack, body))["cache"]["semantic"]
    assert (told["eligible"], told["cut"]) == (True, None)
    await send(stack, body)
    other, _ = await send(stack, {**body, "messages": [{"role": "user", "content": PASSWORD[1]}]})
    assert other.headers["x-tiergate-cache"].startswith("miss")
