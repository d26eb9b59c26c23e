"""What replicas read ahead before they serve: listed prompts and learned ones, within a budget and a time."""

import asyncio
import json
import logging
import random
from dataclasses import replace

import pytest

from gateway.lab.fake import FakeVLLM, Options

WORDS = ("alpha", "beta", "gamma", "delta", "kappa", "sigma", "omega", "theta")
ENGINE = Options(kv_blocks=4096, enable_prompt_tokens_details=True, max_model_len=16384, lora_modules=("support",))
ADMIN = {"authorization": "Bearer tg-admin-key"}


def words(seed, count):
    rng = random.Random(seed)
    return " ".join(rng.choices(WORDS, k=count))


def config(warm, isolate="none", **model):
    return {
        "models": {
            0: {"context": None, "warm": {"timeout": "5s", **warm}, "adapters": [{"name": "helper", "served_name": "support"}]}
            | model
        },
        "cache": {"secret": "s", "exact": {"enabled": False}, "prefix": {"isolate": isolate}},
        "health": {"interval": "50ms", "fall": 1},
    }


def two(**options):
    one = replace(ENGINE, **options)
    return {"s1": one, "s2": one, "l1": Options()}


def cached_of(reply):
    assert reply.status_code == 200, reply.text
    return (reply.json()["usage"]["prompt_tokens_details"] or {"cached_tokens": 0})["cached_tokens"]


def replica(stack, name):
    return next(r for r in stack.gateway.parts.lanes["small-model"].pool.replicas if r.name == name)


def warmth(stack, name):
    return stack.gateway.parts.lanes["small-model"].pool.prewarm.warmth().get(name)


async def goes(stack, name):
    """It dies, and everything that it had cached with it."""
    stack.fakes[name].faults.add(unhealthy=True)
    await stack.until(lambda: not replica(stack, name).up)
    app = stack.fakes[name].app
    app.engine.cache.reset()
    app.metrics.started += 60
    app.metrics.prompt_tokens = 0


async def comes(stack, name):
    stack.fakes[name].faults.clear()
    await stack.until(lambda: replica(stack, name).up)


async def restart(stack, name):
    await goes(stack, name)
    await comes(stack, name)


def asked(stack, name):
    """Bodies of what a replica was asked to read ahead."""
    bodies = [json.loads(entry.raw) for entry in stack.fakes[name].app.log if entry.path.endswith("/chat/completions")]
    return [body for body in bodies if body.get("max_tokens") == 1 and body["messages"][-1]["content"] == "Hi"]


async def only(stack, name):
    pool = stack.gateway.parts.lanes["small-model"].pool
    for one in pool.replicas:
        (pool.undrain if one.name == name else pool.drain)(one)
    await asyncio.sleep(0.3)  # with workers: they hear of it


def system(text, user="What is it?"):
    return [{"role": "system", "content": text}, {"role": "user", "content": user}]


async def test_the_first_request_after_a_restart_finds_its_system_prompt(start, caplog):
    """A listed prompt is cached before the replica serves, and the index knows; one line says so, and shows no word of it."""
    caplog.set_level(logging.INFO, "tiergate.prewarm")
    text = words("system", 400)
    stack = await start(config({"prompts": [{"system": text}]}), fakes=two())
    assert not asked(stack, "s1")  # those that are there when the gateway starts are not made to read
    await restart(stack, "s1")
    assert warmth(stack, "s1").state == "warm"
    placing = stack.gateway.parts.lanes["small-model"].placing
    assert placing.index.tokens("s1") > 300
    reply = await stack.chat(messages=system(text), max_tokens=2)
    assert reply.headers["x-tiergate-replica"] == "s1"
    assert cached_of(reply) > 300
    lines = [record.getMessage() for record in caplog.records if record.name == "tiergate.prewarm"]
    assert len(lines) == 1
    assert "read 1 of 1 prompts" in lines[0]
    assert text[:10] not in lines[0]
    page = (await stack.client.get("/metrics")).text
    told = dict(line.rsplit(" ", 1) for line in page.splitlines() if line.startswith("tiergate_prewarm_tokens_total"))
    assert (
        float(told['tiergate_prewarm_tokens_total{model="small-model",result="computed"}']) == warmth(stack, "s1").computed > 300
    )
    status = (await stack.client.get("/admin/status", headers=ADMIN)).json()
    assert status["models"][0]["prewarm"]["s1"]["state"] == "warm"


async def test_a_pool_with_one_replica_warms_it_too(start):
    """Also where there is nothing to choose."""
    text = words("system", 400)
    stack = await start(config({"prompts": [{"system": text}]}), fakes={"s1": ENGINE, "l1": Options()})
    await restart(stack, "s1")
    assert cached_of(await stack.chat(messages=system(text), max_tokens=2)) > 300


async def test_one_that_only_was_out_of_reach_costs_nothing(start):
    """What it still has is not computed anew, and does not count against the budget."""
    text = words("system", 400)
    stack = await start(config({"prompts": [{"system": text}], "max_tokens": 1000}), fakes=two())
    await restart(stack, "s1")
    for _ in range(2):
        stack.fakes["s1"].faults.add(unhealthy=True)
        await stack.until(lambda: not replica(stack, "s1").up)
        await comes(stack, "s1")
    assert warmth(stack, "s1").computed < 32
    assert warmth(stack, "s1").cached > 300


async def test_tools_adapters_and_tenants(start, tmp_path):
    """A prompt goes with its tools, under its adapter's served name, and once for each tenant with that tenant's salt."""
    text, tools = words("system", 300), [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]
    (tmp_path / "system.txt").write_text(text)
    (tmp_path / "tools.json").write_text(json.dumps(tools))
    prompts = [
        {"file": "./system.txt", "tools": "./tools.json", "tenants": ["acme", "globex"]},
        {"system": words("support", 300), "adapter": "helper", "tenants": ["acme"]},
    ]
    stack = await start(config({"prompts": prompts}, isolate="tenant"), fakes=two())
    await restart(stack, "s1")
    bodies = asked(stack, "s1")
    assert [body["model"] for body in bodies] == ["fake", "fake", "support"]
    assert bodies[0]["tools"] == tools
    assert len({body["cache_salt"] for body in bodies}) == 2
    await only(stack, "s1")
    for key, model, messages, extra in (
        ("tg-test-key-of-acme", "small-model", system(text), {"tools": tools}),
        ("tg-test-key-of-globex", "small-model", system(text), {"tools": tools}),
        ("tg-test-key-of-acme", "helper", system(words("support", 300)), {}),
    ):
        reply = await stack.chat(key=key, model=model, messages=messages, max_tokens=2, **extra)
        assert cached_of(reply) > 200, model
    other = await stack.chat(key="tg-test-key-of-globex", model="helper", messages=system(words("support", 300)), max_tokens=2)
    assert cached_of(other) == 0


async def test_the_budget_is_kept(start):
    """No more tokens are computed than it has; a prompt that does not fit is left out, and a shorter one behind it is not."""
    prompts = [{"system": words(1, 500)}, {"system": words(2, 2000)}, {"system": words(3, 300)}]
    stack = await start(config({"prompts": prompts, "max_tokens": 1500}), fakes=two())
    for _ in range(2):
        await restart(stack, "s1")
        told = warmth(stack, "s1")
        assert told.state == "partly"
        assert told.read == 2
        assert told.computed <= 1500
        assert told.skipped > 1500
    assert stack.fakes["s1"].app.metrics.prompt_tokens <= 1500


async def test_a_slow_replica_serves_when_its_time_is_up(start):
    """What it did not come to is left out; nobody waits for it longer than `timeout`."""
    prompts = [{"system": words(n, 300)} for n in range(5)]
    stack = await start(config({"prompts": prompts, "timeout": "600ms"}), fakes=two())
    await goes(stack, "s1")
    stack.fakes["s1"].faults.clear()
    stack.fakes["s1"].faults.add(hang_before_headers=True, path="/chat/completions")
    await stack.until(lambda: warmth(stack, "s1") is not None and warmth(stack, "s1").state == "reading")
    assert not replica(stack, "s1").up
    await stack.until(lambda: replica(stack, "s1").up)
    await stack.until(lambda: warmth(stack, "s1").state not in ("reading", "due"))
    assert warmth(stack, "s1").read == 0
    assert warmth(stack, "s1").skipped > 300


@pytest.mark.parametrize(
    "fault",
    [{"status": 500}, {"status": 404}, {"status": 200, "body": "no JSON"},
     {"status": 200, "body": {"usage": {"prompt_tokens": -5}}},
     {"status": 200, "body": {"usage": {"prompt_tokens": 10**18, "prompt_tokens_details": {"cached_tokens": 10**19}}}},
     {"close_before_headers": True}],
)  # fmt: skip
async def test_failures_keep_nobody_out(start, fault):
    """Whatever an engine answers, it serves afterwards, and no breaker has heard of it."""
    prompts = [{"system": words(n, 300)} for n in range(5)]
    stack = await start(config({"prompts": prompts}), fakes=two())
    await goes(stack, "s1")
    stack.fakes["s1"].faults.clear()
    stack.fakes["s1"].faults.add(**fault, path="/chat/completions")
    await stack.until(lambda: replica(stack, "s1").up)
    await stack.until(lambda: warmth(stack, "s1").state not in ("reading", "due"))
    told = warmth(stack, "s1")
    assert 0 <= told.computed < 50_000
    assert told.cached >= 0
    if fault.get("status") != 200:
        assert told.state == "failed"
        assert len(asked(stack, "s1")) in (3, 4)
    assert not replica(stack, "s1").breaker.tripped
    await restart(stack, "s1")
    await stack.until(lambda: warmth(stack, "s1").state == "warm")
    await stack.at_rest()


async def test_one_that_dies_while_it_reads_begins_anew(start):
    """The next time that it comes it is due again."""
    prompts = [{"system": words(n, 300)} for n in range(3)]
    stack = await start(config({"prompts": prompts}), fakes=two())
    await goes(stack, "s1")
    stack.fakes["s1"].faults.clear()
    stack.fakes["s1"].faults.add(hang_before_headers=True, path="/chat/completions")
    await stack.until(lambda: len(asked(stack, "s1")) == 1)
    await goes(stack, "s1")
    await stack.until(lambda: warmth(stack, "s1").state == "due")
    stack.fakes["s1"].faults.clear()
    await stack.until(lambda: replica(stack, "s1").up and warmth(stack, "s1").state == "warm")


async def test_a_replica_that_sleeps_is_down_and_reads_when_it_wakes(start):
    """No request hangs in an engine that says it sleeps; awake it reads before it serves."""
    text = words("system", 400)
    stack = await start(config({"prompts": [{"system": text}]}), fakes=two())
    stack.fakes["s1"].app.engine.sleep()
    await stack.until(lambda: not replica(stack, "s1").up)
    assert (await stack.chat(messages=system(text), max_tokens=2)).headers["x-tiergate-replica"] == "s2"
    assert not asked(stack, "s1")
    stack.fakes["s1"].app.engine.wake_up()
    await stack.until(lambda: replica(stack, "s1").up)
    assert len(asked(stack, "s1")) == 1
    assert warmth(stack, "s1").state == "warm"


async def test_a_replica_that_sleeps_is_down_where_its_metrics_are_read(start):
    """Also without anything to read ahead; awake it is up again."""
    changes = {key: value for key, value in config({}).items() if key != "models"}
    stack = await start(changes | {"models": {0: {"context": None}}}, fakes=two())
    stack.fakes["s1"].app.engine.sleep()
    await stack.until(lambda: not replica(stack, "s1").up)
    for number in range(4):
        assert (await stack.chat(f"{number}", max_tokens=2)).headers["x-tiergate-replica"] == "s2"
    assert not asked(stack, "s1")
    stack.fakes["s1"].app.engine.wake_up()
    await stack.until(lambda: replica(stack, "s1").up)


async def test_a_restart_that_nobody_noticed_is_made_up_for_beside_the_traffic(start):
    """A start time that changed while it was up: it reads as soon as it is not busy, and is not taken out for that."""
    text = words("system", 400)
    stack = await start(config({"prompts": [{"system": text}]}), fakes=two())
    await asyncio.sleep(0.2)
    app = stack.fakes["s1"].app
    replica(stack, "s1").pending += 1000
    app.engine.cache.reset()
    app.metrics.started += 60
    await stack.until(lambda: warmth(stack, "s1") is not None and warmth(stack, "s1").state == "reading")
    await asyncio.sleep(0.2)
    assert replica(stack, "s1").up
    assert not asked(stack, "s1")
    replica(stack, "s1").pending -= 1000
    await stack.until(lambda: warmth(stack, "s1").state == "warm")
    assert replica(stack, "s1").up
    assert len(asked(stack, "s1")) == 1


async def test_what_requests_share_is_learned(start):
    """The beginnings that come most are read ahead after a restart, the hottest first, and what came once is not."""
    stack = await start(config({"learn": 2}), fakes=two())
    hot, warm, rare = words("hot", 300), words("warm", 300), words("rare", 300)
    prewarm = stack.gateway.parts.lanes["small-model"].pool.prewarm

    async def ask(text):
        assert (await stack.chat(messages=system(text), max_tokens=2)).status_code == 200
        await asyncio.sleep(0.025)  # one in 20 ms is looked at

    await ask(rare)
    for _ in range(3):
        for text in (hot, hot, warm):
            await ask(text)
        await ask(hot)
    async with asyncio.timeout(10):
        while len(prewarm._prompts()) < 2:
            for text in (hot, hot, warm):
                await ask(text)
    await restart(stack, "s1")
    assert [body["messages"][0]["content"] for body in asked(stack, "s1")] == [hot, warm]
    await only(stack, "s1")
    assert cached_of(await stack.chat(messages=system(hot, "And now?"), max_tokens=2)) > 200


async def test_learned_prompts_keep_to_their_tenants(start):
    """Where tenants share no cache a learned prompt is replayed with the salt that it came with, and no other."""
    stack = await start(config({"learn": 4}, isolate="tenant"), fakes=two())
    text = words("hot", 300)
    prewarm = stack.gateway.parts.lanes["small-model"].pool.prewarm
    async with asyncio.timeout(15):
        while not prewarm._prompts():
            await stack.chat(messages=system(text), max_tokens=2)
            await asyncio.sleep(0.025)
    salts = {json.loads(e.raw).get("cache_salt") for n in ("s1", "s2") for e in stack.fakes[n].app.log if e.raw}
    await restart(stack, "s1")
    (body,) = asked(stack, "s1")
    assert body["cache_salt"] in salts - {None}


async def test_one_that_joins_reads_before_it_serves(start):
    """Added by hand while the gateway runs."""
    text = words("system", 400)
    stack = await start(config({"prompts": [{"system": text}]}), fakes={"s1": ENGINE, "l1": Options()})
    async with FakeVLLM(ENGINE) as new:
        body = {"name": "s2", "url": new.url}
        assert (await stack.client.post("/admin/models/small-model/replicas", json=body, headers=ADMIN)).status_code == 201
        stack.fakes["s2"] = new
        await stack.until(lambda: replica(stack, "s2").up)
        assert warmth(stack, "s2").state == "warm"
        assert warmth(stack, "s2").computed > 300
        assert not asked(stack, "s1")
        stack.gateway.parts.fleet.remove("small-model", "s2")
        await stack.gateway.parts.fleet.idle()


async def test_explain_tells_how_far_the_index_is_right(start):
    """What was expected of all answers so far, and what was there."""
    text = words("system", 400)
    stack = await start(config({}), fakes=two())
    for user in ("One?", "Two?", "Three?"):
        await stack.chat(messages=system(text, user), max_tokens=2)
    await stack.at_rest()
    body = {"model": "small-model", "messages": system(text)}
    told = (await stack.client.post("/admin/explain", json={"tenant": "acme", "body": body}, headers=ADMIN)).json()
    foretold = told["attempts"][0]["foretold"]
    assert foretold["delivered"] > 600
    assert 0.8 * foretold["delivered"] < foretold["expected"] < 1.2 * foretold["delivered"]
