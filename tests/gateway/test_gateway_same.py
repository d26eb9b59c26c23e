"""One client, one request after the other: nobody can tell from the answers how many processes serve."""

import random
from contextlib import AsyncExitStack

import httpx
import pytest
from gateway_talk import KEY, OTHER_KEY, chat, freeze_limits, posts, samples, tenant, wire

from gateway.lab.fake import Options

KEYS = [KEY, OTHER_KEY]
TWO = {"s1": Options(seed=1), "s2": Options(seed=2), "l1": Options(seed=3)}
CONFIG = {
    "models": {0: {"balance": {"kind": "round_robin"}}},
    "tenants": [
        tenant("acme", KEY, rpm=30, tpm=9000, models=["*"]),
        tenant("globex", OTHER_KEY, rpm=200, tpm=60_000),
    ],
    "breaker": {"failures": 3, "open": "60s"},
}
SHOWN = ("x-tiergate-", "x-ratelimit-", "retry-after", "x-should-retry", "content-type")
COUNTED = (
    "tiergate_requests_total", "tiergate_tokens_total", "tiergate_cache_", "tiergate_rate_limited_total",
    "tiergate_route_decisions_total", "tiergate_retries_total", "tiergate_queue_depth", "tiergate_inflight_requests",
)  # fmt: skip
"""Counters, not times; and no gauge that follows the health checks."""


def trace(rng):
    """What a client sends: plain, cached, streamed, for `auto`, too long, too much, unknown."""
    for number in range(70):
        content = rng.choice(["a", "b", "c", f"new {number}", f"new {number}"])
        body = chat(content, max_tokens=rng.choice([5, 40, 800]), stream=rng.random() < 0.3, model=rng.choice(
            ["small-model", "small-model", "auto", "large-model", "no-such-model"]
        ), **rng.choice([{}, {"temperature": 0}]))  # fmt: skip
        fault = rng.choice([None] * 6 + [{"status": 500, "times": 1}, {"status": 429, "times": 1}, {"status": 400, "times": 1}])
        yield number, rng.choice(KEYS), body, rng.choice(["", "", "no-cache", "only-if-cached"]), fault


def nobody_is_held_off(stack):
    pools = [station.pool for station in stack.gateway.parts.lanes.values()]
    return all(replica.hold.until <= pool.clock() for pool in pools for replica in pool.replicas)


async def told(stack, seed):
    """What every request was told, what the replicas saw, and what was counted."""
    freeze_limits(stack)
    heard = []
    async with AsyncExitStack() as scope:
        clients = [
            await scope.enter_async_context(httpx.AsyncClient(base_url=stack.url, timeout=30, trust_env=False)) for _ in range(8)
        ]
        for number, key, body, cache, fault in trace(random.Random(seed)):
            if fault is not None:
                for fake in stack.fakes.values():
                    fake.faults.add(**fault)
            headers = {"authorization": f"Bearer {key}", **({"x-tiergate-cache": cache} if cache else {})}
            answer = await clients[number % 8].post("/v1/chat/completions", json=body, headers=headers)
            shown = {name: value for name, value in answer.headers.items() if name.startswith(SHOWN)}
            shown.pop("x-tiergate-queue-ms", None)
            error = answer.json()["error"] if answer.status_code != 200 else None
            heard.append({"number": number, "status": answer.status_code, "error": error, **shown})
            for fake in stack.fakes.values():
                fake.faults.rules.clear()
            await stack.at_rest()
            await stack.until(lambda: nobody_is_held_off(stack))  # how long that takes is no part of the comparison
        page = samples((await clients[0].get("/metrics")).text)
    counted = {name: value for name, value in page.items() if name[0].startswith(COUNTED) and value}
    seen = {name: [(call.path, call.body) for call in posts(fake)] for name, fake in stack.fakes.items()}
    return heard, seen, counted


@pytest.mark.parametrize("seed", [1, 2])
async def test_the_same_answers_from_one_process_and_from_several(start, seed):
    """Headers, errors, limits, what the replicas were sent and what was counted are the same, whoever serves.

    The limits' clock stands still: what refills between a grant and its answer is told by one process only.
    """
    alone, *others = [await told(await start(CONFIG, fakes=dict(TWO), workers=count), seed) for count in (0, 1, 2)]
    statuses = {answer["status"] for answer in alone[0]}
    assert statuses >= {200, 400, 404, 429, 504}, statuses
    for other in others:
        for mine, theirs in zip(alone[0], other[0], strict=True):
            assert theirs == mine
        assert other[1:] == alone[1:]


async def test_one_at_a_time_is_never_too_many(start):
    """A client that is allowed one request at once, and sends one after the other, whichever worker takes it."""
    stack = await start({"tenants": [tenant("acme", KEY, max_parallel=1)]}, workers=2)
    async with AsyncExitStack() as scope:
        wires = [await scope.enter_async_context(wire(stack.gateway.port)) for _ in range(8)]
        for number in range(200):
            wires[number % 8].send(chat(str(number), max_tokens=1))
            answer = await wires[number % 8].answer()
            assert answer.status_code == 200, (number, answer.text)
