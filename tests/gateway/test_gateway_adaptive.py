"""Adaptive slots and tokens in flight through the whole gateway, before engines that queue inside."""

import asyncio

import pytest
from gateway_talk import ask, chat, hold, posts, queued, station, wire

from gateway.lab.fake import Options

ADAPTIVE = {"kind": "adaptive", "max": 64, "min": 2}
QUICK = {"interval": "50ms"}  # between two looks at an engine


def before(**concurrency):
    return {
        "models": {0: {"concurrency": concurrency}},
        "health": QUICK,
        "cache": {"exact": {"enabled": False}},
        "queue": {"order": {"per_token": None}},
    }


def engines(**options):
    return {"s1": Options(**options), "l1": Options()}


class Crowd:
    """Clients that each ask again as soon as they are answered."""

    def __init__(self, stack, count, **fields):
        self.stack, self.count, self.fields = stack, count, {"stream": True, **fields}
        self.answers = []

    async def __aenter__(self):
        self.tasks = [asyncio.create_task(self.ask(number)) for number in range(self.count)]
        return self

    async def ask(self, number):
        while True:
            self.answers.append(
                (await ask(self.stack, chat(f"question {number} {len(self.answers)}", **self.fields))).status_code
            )

    async def __aexit__(self, *_):
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        assert set(self.answers) <= {200}


def replica(stack):
    return station(stack).pool.replicas[0]


async def test_slots_grow_under_load_and_stop_at_what_the_engine_has(start):
    """From `min` they double while all are used; an engine of six seats is given about six, and the others queue here."""
    stack = await start(before(**ADAPTIVE), fakes=engines(max_num_seqs=6, ttft=0.01, itl=0.01, tokens=10))
    assert (replica(stack).slots, station(stack).pool.capacity()) == (2, 2)
    engine, inside = stack.small.app.engine, []
    async with Crowd(stack, 40):
        await stack.until(lambda: replica(stack).governor.reason == "waiting")
        await stack.until(lambda: 4 <= replica(stack).slots <= 8)
        looks = len(stack.small.calls)
        while len(stack.small.calls) < looks + 150:
            await asyncio.sleep(0.005)
            inside.append(engine.waiting)
        assert replica(stack).slots <= 9
        assert queued(stack) > 20
    assert sum(inside) / len(inside) <= 3
    await stack.until(stack.idle)
    assert replica(stack).tokens == 0


async def test_without_metrics_first_bytes_do_it(start):
    """An engine whose page says nothing is judged by how long its streams take to begin."""
    stack = await start(before(**ADAPTIVE), fakes=engines(max_num_seqs=200, ttft=0.01, itl=0.001, tokens=5))
    stack.small.app.metrics.exposition = lambda engine: "llamacpp:requests_processing 1\n"
    await stack.until(lambda: replica(stack).governor.wants_first_byte(station(stack).pool.clock()))
    async with Crowd(stack, 30):
        await stack.until(lambda: replica(stack).slots > 8)
    assert replica(stack).governor.reason == "room"
    await stack.until(stack.idle)


async def test_the_kv_cache_bounds_the_tokens_in_flight(start):
    """An engine with seats for all and memory for a few: about as many tokens are sent as it has room for."""
    options = engines(max_num_seqs=200, kv_blocks=64, max_model_len=1024, ttft=0.01, itl=0.005, tokens=100)
    stack = await start(before(**ADAPTIVE), fakes=options)
    async with Crowd(stack, 30, max_tokens=100):
        await stack.until(lambda: replica(stack).slots >= 8)
        assert replica(stack).most_tokens <= 1.5 * 1024
        await stack.until(lambda: queued(stack) > 10)
        assert replica(stack).tokens <= 2 * 1024
    await stack.until(stack.idle)
    assert replica(stack).tokens == 0


async def test_a_fixed_pool_may_have_a_bound_of_tokens(start):
    """Slots are free, and still no more tokens run than are allowed; whoever is next is not overtaken, and all are served."""
    stack = await start(before(max=50, tokens=400))
    wake = hold(stack.small)
    async with wire(stack.gateway.port) as first, wire(stack.gateway.port) as large, wire(stack.gateway.port) as small:
        first.send(chat("first", max_tokens=500))
        await stack.until(lambda: posts(stack.small))
        large.send(chat("large", max_tokens=500))
        await stack.until(lambda: queued(stack) == 1)
        small.send(chat("small", max_tokens=1))
        await stack.until(lambda: queued(stack) == 2)
        assert (replica(stack).inflight, len(posts(stack.small))) == (1, 1)
        wake()
        assert [(await one.answer()).status_code for one in (first, large, small)] == [200, 200, 200]
    await stack.until(stack.idle)


@pytest.mark.parametrize("kind", ["fixed", "adaptive"])
async def test_a_request_that_is_larger_than_the_bound_is_served(start, kind):
    """An idle replica takes it, whatever its size."""
    stack = await start(before(kind=kind, tokens=10))
    assert (await ask(stack, chat("word " * 500))).status_code == 200
    await stack.until(stack.idle)


async def test_a_client_that_leaves_the_line_lets_those_behind_go(start):
    """The next in line needs tokens that are not there; when its client hangs up, the one behind it fits."""
    stack = await start(before(max=50, tokens=400))
    wake = hold(stack.small)
    async with wire(stack.gateway.port) as first, wire(stack.gateway.port) as small:
        first.send(chat("first", max_tokens=500))
        await stack.until(lambda: posts(stack.small))
        async with wire(stack.gateway.port) as large:
            large.send(chat("large", max_tokens=500))
            await stack.until(lambda: queued(stack) == 1)
            small.send(chat("small", max_tokens=1))
            await stack.until(lambda: queued(stack) == 2)
        await stack.until(lambda: replica(stack).inflight == 2)
        wake()
        assert [(await one.answer()).status_code for one in (first, small)] == [200, 200]
    await stack.until(stack.idle)


async def test_the_operator_sees_slots_and_why(start):
    """In the metrics, and in both lists of replicas of the admin API."""
    stack = await start(before(**ADAPTIVE, tokens=5000))
    admin = {"authorization": "Bearer tg-admin-key"}
    status = (await stack.client.get("/admin/status", headers=admin)).json()
    told = status["models"][0]["replicas"][0]
    assert (told["slots"], told["max_inflight"], told["slots_reason"], told["tokens"]) == (2, 64, "start", 0)
    assert told["max_tokens"] == 5000
    assert status["models"][1]["replicas"][0]["slots_reason"] == "fixed"
    (member,) = (await stack.client.get("/admin/models/small-model/replicas", headers=admin)).json()["replicas"]
    assert (member["slots"], member["slots_reason"]) == (2, "start")
    page = (await stack.client.get("/metrics")).text
    assert 'tiergate_replica_slots{model="small-model",replica="s1"} 2.0' in page
    assert 'tiergate_replica_tokens{model="small-model",replica="s1"} 0.0' in page
