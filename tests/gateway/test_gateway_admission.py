"""What holds of limits in every form of the gateway: one process, two workers, a store of its own or one that two share."""

import asyncio
from contextlib import AsyncExitStack

import pytest
from gateway_talk import KEY, chat, estimate_of, hold, posts, tenant, wire

FORMS = ["memory, one process", "memory, two workers", "redis, one process", "redis, two workers", "redis, two gateways"]


@pytest.fixture(params=FORMS)
async def gateways(request, start):
    """Of acme with these limits: every gateway that shares them."""

    async def make(**limits):
        changes = {"tenants": [tenant("acme", KEY, key=limits)], "cache": {"secret": "s", "exact": {"enabled": False}}}
        if request.param.startswith("redis"):
            redis = request.getfixturevalue("redis")
            changes |= {"limits": {"store": "redis", "timeout": "5s"}, "redis": {"url": redis.url}}
        workers = 2 if request.param.endswith("two workers") else 0
        return [await start(changes, workers=workers) for _ in range(2 if request.param.endswith("two gateways") else 1)]

    return make


async def at_once(stacks, bodies):
    """All of them at the same time, each on a connection of its own, at one gateway after the other; the fakes hold them until
    every one was admitted or refused.
    """
    wakes = [hold(stack.small) for stack in stacks]
    async with AsyncExitStack() as scope:
        lines = [await scope.enter_async_context(wire(stacks[i % len(stacks)].gateway.port)) for i in range(len(bodies))]
        for line, body in zip(lines, bodies, strict=True):
            line.send(body)
        tasks = [asyncio.create_task(line.answer()) for line in lines]
        async with asyncio.timeout(10):
            while sum(task.done() for task in tasks) + sum(len(posts(stack.small)) for stack in stacks) < len(bodies):
                await asyncio.sleep(0.005)
        for wake in wakes:
            wake()
        return await asyncio.gather(*tasks)


@pytest.mark.parametrize("limits", [{"tpm": 100}, {"tpm": 1000, "burst": "6s"}], ids=["a minute's worth", "a burst of 6 s"])
async def test_five_at_once_on_a_hundred_tokens(gateways, limits):
    """As many pass as the reservations of their prompts and maxima fit, and what they use is within the hundred."""
    stacks = await gateways(**limits)
    body = chat("hello", max_tokens=8)
    need = estimate_of(body) + 8
    answers = await at_once(stacks, [body] * 5)
    statuses = [answer.status_code for answer in answers]
    refilled = 1  # a burst of six seconds refills a hundred tokens in as many
    assert 100 // need <= statuses.count(200) <= 100 // need + (refilled if "burst" in limits else 0)
    assert statuses.count(200) + statuses.count(429) == 5
    used = sum(call.prompt_tokens + call.tokens for stack in stacks for call in posts(stack.small))
    assert used <= 100


async def test_parallel_requests_are_counted_over_all(gateways):
    """Of five at once on two slots two pass, wherever they were asked."""
    stacks = await gateways(max_parallel=2)
    answers = await at_once(stacks, [chat()] * 5)
    assert sorted(answer.status_code for answer in answers) == [200, 200, 429, 429, 429]
    refused = next(answer for answer in answers if answer.status_code == 429)
    assert refused.json()["error"]["code"] == "concurrency_limit_exceeded"


async def test_requests_are_counted_over_all(gateways):
    """Of five at once on three a minute three pass, wherever they were asked."""
    stacks = await gateways(rpm=3)
    answers = await at_once(stacks, [chat()] * 5)
    assert sorted(answer.status_code for answer in answers) == [200, 200, 200, 429, 429]
