"""Where requests go by what is cached: conversations, beginnings that many share, replicas that forget."""

import asyncio
import random
from collections import Counter

import pytest

from gateway.lab.fake import Options

ROOM = Options(kv_blocks=128, max_model_len=2048)
WORDS = ("alpha", "beta", "gamma", "delta", "kappa", "sigma", "omega", "theta")
BUSY = {"models": {0: {"context": None}}, "cache": {"secret": "s", "exact": {"enabled": False}}}


def fleet(count=3, **options):
    one = Options(**{"kv_blocks": 2048, "enable_prompt_tokens_details": True, **options})
    return {f"s{number}": one for number in range(1, count + 1)} | {"l1": Options()}


def words(seed, count):
    rng = random.Random(seed)
    return " ".join(rng.choices(WORDS, k=count))


def cached_of(told):
    """An engine that had nothing cached says nothing."""
    return (told["usage"]["prompt_tokens_details"] or {"cached_tokens": 0})["cached_tokens"]


class Talk:
    """A client that sends its whole conversation with each turn."""

    def __init__(self, stack, seed, system=""):
        self.stack = stack
        self.seed = seed
        self.messages = [{"role": "system", "content": system}] if system else []
        self.where = []
        self.cached = []

    async def turn(self, length=120, answer=60, **body):
        self.messages.append({"role": "user", "content": words(f"{self.seed}/{len(self.messages)}", length)})
        reply = await self.stack.chat(messages=self.messages, max_tokens=answer, ignore_eos=True, **body)
        assert reply.status_code == 200, reply.text
        told = reply.json()
        self.where.append(reply.headers["x-tiergate-replica"])
        self.cached.append((told["usage"]["prompt_tokens"], cached_of(told)))
        self.messages.append({"role": "assistant", "content": told["choices"][0]["message"]["content"]})


def placing_of(stack, model="small-model"):
    return stack.gateway.parts.lanes[model].placing


async def test_a_long_conversation_stays_where_its_history_is(start):
    """Of prompts that are worked on in steps, too: the next turn goes where the first one went, and another text elsewhere."""
    stack = await start(BUSY, fakes=fleet(kv_blocks=2**15, max_model_len=2**18))
    for seed in range(4):
        talk = Talk(stack, seed, system=words(f"long {seed}", 50_000))
        for _ in range(3):
            await talk.turn()
        assert len(set(talk.where)) == 1
        assert talk.cached[-1][1] > 0.9 * talk.cached[-1][0]
    await stack.at_rest()


async def blocks(stack):
    """The gauge of what is remembered."""
    page = (await stack.client.get("/metrics")).text
    return sum(float(line.split()[-1]) for line in page.splitlines() if line.startswith("tiergate_prefix_index_blocks{"))


async def test_a_conversation_stays_where_its_history_is(start):
    """Every turn goes to the replica of the first one, and finds its history there, the streamed answers included."""
    stack = await start(BUSY, fakes=fleet())
    talks = [Talk(stack, seed) for seed in range(6)]
    for _ in range(4):
        for talk in talks:
            await talk.turn()
    assert all(len(set(talk.where)) == 1 for talk in talks)
    assert len({talk.where[0] for talk in talks}) > 1
    for talk in talks:
        before = 0
        for turn, (prompt, cached) in enumerate(talk.cached):
            assert cached >= before - 32, turn
            before = prompt + 60
    told = placing_of(stack).told
    await stack.at_rest()
    assert 0.9 * told.delivered < told.expected < 1.1 * told.delivered


async def test_a_long_beginning_that_all_share_spreads(start):
    """Agents with thousands of tokens of system prompt: one replica has read them, and soon all have, before it has a pile."""
    stack = await start(BUSY, fakes=fleet(itl=0.05, ttft=0.02))
    system = {"role": "system", "content": words("long", 2000)}
    asks = [[system, {"role": "user", "content": words(seed, 5)}] for seed in range(60)]
    await stack.chat(messages=asks[0], max_tokens=1)
    replies = await asyncio.gather(*(stack.chat(messages=ask, stream=True, max_tokens=40, ignore_eos=True) for ask in asks))
    counts = Counter(reply.headers["x-tiergate-replica"] for reply in replies)
    assert len(counts) == 3
    assert max(counts.values()) <= 32, counts


async def test_a_beginning_that_all_share_does_not_pile_up(start):
    """Requests that run at once are spread, however much of their prompt one replica has."""
    stack = await start(BUSY, fakes=fleet(itl=0.002, ttft=0.02))
    system = words("system", 100)
    await Talk(stack, 0, system).turn()
    talks = [Talk(stack, seed, system) for seed in range(1, 25)]
    async with asyncio.TaskGroup() as group:
        for talk in talks:
            group.create_task(talk.turn(length=30))
    counts = [sum(talk.where[0] == name for talk in talks) for name in ("s1", "s2", "s3")]
    assert min(counts) >= 4
    await stack.at_rest()


async def test_what_a_prompt_costs_counts_until_its_first_byte(start):
    """Uncached tokens wait before a replica from the dispatch to the first byte of the stream, and not to its end."""
    stack = await start(BUSY, fakes=fleet(1, ttft=0.3, itl=0.02) | {"s2": Options()})
    replicas = {r.name: r for r in stack.gateway.parts.lanes["small-model"].pool.replicas}
    body = {"model": "small-model", "messages": [{"role": "user", "content": words(1, 300)}], "stream": True, "max_tokens": 15}
    pool = stack.gateway.parts.lanes["small-model"].pool
    pool.drain(replicas["s2"])
    headers = {"authorization": "Bearer tg-test-key-of-acme"}
    async with stack.client.stream("POST", "/v1/chat/completions", json=body, headers=headers) as answer:
        pieces = answer.aiter_bytes()
        await anext(pieces)
        await stack.until(lambda: replicas["s1"].pending == 0)
        assert replicas["s1"].inflight == 1
    longer = [*body["messages"], {"role": "user", "content": words(2, 150)}]
    other = asyncio.ensure_future(stack.chat(messages=longer, max_tokens=1))
    await stack.until(lambda: replicas["s1"].pending > 0)
    assert 128 <= replicas["s1"].pending < 400
    await other
    await stack.at_rest()


@pytest.mark.parametrize("fault", [{"status": 503}, {"cut_after_tokens": 0}, {"close_before_headers": True}, {"status": 400}])
async def test_failed_attempts_leave_no_tokens_behind(start, fault):
    """Whatever becomes of an attempt, what it cost its replica is taken back."""
    stack = await start(BUSY, fakes=fleet(2))
    stack.fakes["s1"].faults.add(**fault)
    for seed in range(6):
        await stack.chat(words(seed, 200), stream=bool(seed % 2), max_tokens=2)
    await stack.at_rest()


@pytest.mark.parametrize("more", [{"prompt_logprobs": 0}, {"truncate_prompt_tokens": 20}])
async def test_a_prompt_that_is_read_otherwise_is_held_nowhere(start, more):
    """An engine that reads all of a prompt again, or another one, proves nothing of its cache."""
    stack = await start(BUSY, fakes=fleet(2))
    for _ in range(3):
        await stack.chat(words(1, 300), max_tokens=1, **more)
    await stack.at_rest()
    assert stack.gateway.parts.lanes["small-model"].placing.entries == 0


async def test_clients_that_leave_leave_no_tokens_behind(start):
    """Before the first byte and after it, waiting and served."""
    changes = BUSY | {"models": {0: {"context": None, "concurrency": {"max": 2}}}}
    stack = await start(changes, fakes=fleet(2, ttft=0.1, itl=0.01))
    tasks = [asyncio.ensure_future(stack.chat(words(seed, 200), stream=bool(seed % 2), max_tokens=20)) for seed in range(12)]
    for number, task in enumerate(tasks):
        await asyncio.sleep(0.02)
        if number % 3:
            task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await stack.until(stack.idle)


async def test_a_replica_that_was_started_anew_has_forgotten(start):
    """A start time that changed, or counters that fell, and nothing is thought to be cached there any more."""
    stack = await start(BUSY, fakes=fleet(2))
    talk = Talk(stack, 1)
    for _ in range(2):
        await talk.turn()
    placing, name = placing_of(stack), talk.where[0]
    await stack.until(lambda: name in placing._engines)
    assert placing.index.tokens(name) > 300
    stack.fakes[name].app.metrics.started += 60
    await stack.until(lambda: not placing.index.tokens(name))
    await talk.turn()
    stack.fakes[name].app.metrics.prompt_tokens = 0
    await stack.until(lambda: not any(placing.index.tokens(each) for each in [name] if each == talk.where[-1]))


async def test_a_replica_that_sleeps_has_forgotten(start):
    """Asleep it says so in its metrics, and its cache is gone."""
    stack = await start(BUSY, fakes=fleet(2))
    talk = Talk(stack, 1)
    await talk.turn()
    placing, name = placing_of(stack), talk.where[0]
    assert placing.index.tokens(name)
    assert await blocks(stack) > 0
    stack.fakes[name].app.engine.sleep()
    await stack.until(lambda: not placing.index.tokens(name))
    assert await blocks(stack) == 0
    stack.fakes[name].app.engine.wake_up()


async def test_a_cache_that_was_reset_is_found_out(start):
    """Nothing tells of it; after two answers that had less cached than was thought, the replica starts from nothing."""
    stack = await start(BUSY, fakes=fleet(2))
    talks = [Talk(stack, seed) for seed in range(8)]
    for talk in talks:
        for _ in range(2):
            await talk.turn(length=250)
    placing, name = placing_of(stack), Counter(talk.where[-1] for talk in talks).most_common(1)[0][0]
    there = [talk for talk in talks if talk.where[-1] == name]
    held = placing.index.tokens(name)
    assert len(there) >= 3
    assert stack.fakes[name].app.engine.cache.reset()
    await there[0].turn()
    assert placing.index.tokens(name) >= held
    await there[1].turn()
    await stack.at_rest()
    assert placing.index.tokens(name) < held / 2


async def test_room_is_what_the_engine_has(start):
    """The index of a replica holds as many tokens as its KV cache, as its metrics tell."""
    stack = await start(BUSY, fakes={"s1": ROOM, "s2": ROOM, "l1": Options()})
    placing = placing_of(stack)
    await stack.until(lambda: len(placing._engines) == 2)
    for seed in range(20):
        await stack.chat(words(seed, 200), max_tokens=1)
    assert all(0 < placing.index.tokens(name) <= 2048 for name in ("s1", "s2"))


@pytest.mark.parametrize(("isolate", "shared"), [("tenant", False), ("none", True)])
async def test_tenants_share_what_engines_share(start, isolate, shared):
    """With a salt for each tenant the same words are another prompt to the index, as to the engine; without, they are not."""
    stack = await start(
        BUSY | {"cache": {"secret": "s", "exact": {"enabled": False}, "prefix": {"isolate": isolate}}}, fakes=fleet(4)
    )
    text = words("same", 400)
    first = await stack.chat(text, max_tokens=1)
    await stack.at_rest()
    told = placing_of(stack).told
    before = told.expected
    for _ in range(3):
        again = await stack.chat(text, max_tokens=1, key="tg-test-key-of-globex")
        if shared:
            assert again.headers["x-tiergate-replica"] == first.headers["x-tiergate-replica"]
        cached = cached_of(again.json())
        await stack.at_rest()
        assert bool(cached) == (told.expected > before)
        if not shared:
            break
    assert (told.expected > before) == shared


async def test_one_replica_alone_is_not_asked_for(start):
    """Where there is no choice nobody looks at prompts: nothing is remembered."""
    stack = await start(BUSY)
    await stack.chat(words(1, 400), max_tokens=1)
    assert not len(placing_of(stack).index)


@pytest.mark.parametrize("kind", ["prefix_hash", "sticky", "power_of_two", "least_requests"])
async def test_every_kind_serves(start, kind):
    """The kinds are the config's; a conversation is served by each, and kept together by those that look at prompts."""
    stack = await start(BUSY | {"models": {0: {"context": None, "balance": {"kind": kind}}}}, fakes=fleet())
    talk = Talk(stack, 1)
    for _ in range(3):
        await talk.turn(length=400)
    if kind in ("prefix_hash", "sticky"):
        assert len(set(talk.where)) == 1
    await stack.at_rest()


async def test_a_dispatcher_that_is_replaced_knows_nothing_of_caches(start):
    """What it knew is lost with it: the next turns are placed by load, found where they went from then on, and nothing leaks."""
    stack = await start(BUSY, fakes=fleet(ttft=0.02), workers=2)
    talks = [Talk(stack, seed) for seed in range(4)]
    for talk in talks:
        await talk.turn()
    running = [asyncio.ensure_future(talk.turn()) for talk in talks]
    await asyncio.sleep(0.01)
    await stack.gateway.replace_dispatcher()
    await asyncio.gather(*running)
    assert placing_of(stack).told.expected == 0
    for _ in range(2):
        for talk in talks:
            await talk.turn()
    assert all(talk.where[-1] == talk.where[-2] for talk in talks)
    await stack.at_rest()


async def test_metrics_tell_what_was_predicted_and_what_was_there(start):
    """Tokens of prompts that were thought to be cached, beside those that were, and how much is remembered."""
    stack = await start(BUSY, fakes=fleet(2))
    talk = Talk(stack, 1)
    for _ in range(3):
        await talk.turn()
    await stack.at_rest()
    page = (await stack.client.get("/metrics")).text
    numbers = dict(line.rsplit(" ", 1) for line in page.splitlines() if line.startswith("tiergate_prefix"))
    predicted = float(numbers['tiergate_prefix_expected_tokens_total{model="small-model"}'])
    assert predicted == placing_of(stack).told.expected > 0
    assert float(numbers['tiergate_prefix_tokens_total{model="small-model",result="hit"}']) == sum(c for _, c in talk.cached)
    assert float(numbers['tiergate_prefix_index_blocks{model="small-model"}']) == placing_of(stack).entries > 0


async def test_explain_tells_what_a_request_would_cost_each_replica(start):
    """In a running gateway: what waits there, what of the prompt is not cached, what runs; and asking touches nothing."""
    stack = await start(BUSY, fakes=fleet())
    talk = Talk(stack, 1)
    await talk.turn(length=300)
    await stack.at_rest()
    body = {"model": "small-model", "messages": [*talk.messages, {"role": "user", "content": "why?"}]}
    entries = placing_of(stack).entries
    headers = {"authorization": "Bearer tg-admin-key"}
    for _ in range(2):
        told = (await stack.client.post("/admin/explain", json={"tenant": "acme", "body": body}, headers=headers)).json()
    attempt = told["attempts"][0]
    costs = {replica["name"]: replica["cost"] for replica in attempt["replicas"]}
    least = min(costs, key=lambda name: costs[name]["cost"])
    assert least == talk.where[0]
    for name, cost in costs.items():
        assert cost["cost"] == cost["waiting"] + 2 * cost["uncached"] + 105 * cost["inflight"]
        assert cost["uncached"] == attempt["prompt_tokens"] if name != least else cost["uncached"] < 60
    assert placing_of(stack).entries == entries
    assert not any(cost["home"] for cost in costs.values())
    reply = await stack.chat(messages=body["messages"])
    assert reply.headers["x-tiergate-replica"] == least


@pytest.mark.parametrize("kind", ["sticky", "prefix_hash", "round_robin"])
async def test_explain_tells_what_is_cached_for_every_kind_that_asks(start, kind):
    """Without a cost where the kind counts otherwise; of kinds that do not ask there is nothing to tell."""
    stack = await start({**BUSY, "models": {0: {"context": None, "balance": {"kind": kind}}}}, fakes=fleet())
    talk = Talk(stack, 1)
    await talk.turn(length=300)
    await stack.at_rest()
    found = await costs(stack, talk.messages)
    if kind == "round_robin":
        assert set(found.values()) == {None}
        return
    assert {cost["cost"] for cost in found.values()} == {None}
    assert min(found, key=lambda name: found[name]["uncached"]) == talk.where[0]


async def test_explain_tells_the_home_of_a_session(start):
    """One replica is, and half of the prompt counts there."""
    stack = await start(BUSY, fakes=fleet())
    found = await costs(stack, [{"role": "user", "content": words("x", 300)}], {"x-tiergate-session": "s"})
    (home,) = [cost for cost in found.values() if cost["home"]]
    others = [cost for cost in found.values() if not cost["home"]]
    assert len(others) == 2
    assert all(cost["cost"] == 2 * cost["uncached"] for cost in others)
    assert home["cost"] == pytest.approx(home["uncached"], abs=2)


async def costs(stack, messages, headers=None):
    """By replica, as explained."""
    asked = {"tenant": "acme", "body": {"model": "small-model", "messages": messages}, "headers": headers or {}}
    told = await stack.client.post("/admin/explain", json=asked, headers={"authorization": "Bearer tg-admin-key"})
    assert told.status_code == 200, told.text
    return {replica["name"]: replica["cost"] for replica in told.json()["attempts"][0]["replicas"]}
