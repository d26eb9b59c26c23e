"""Who shares an answer has it, whatever its work still needs once the one who began it has left: another model, another slot."""

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from gateway_talk import GREEDY, chat, hold, lines, posts, queued, scrape, station, tokens_told, wire

from gateway.lab.fake import Options

BOTH = pytest.mark.parametrize("workers", [0, 1], ids=["one process", "dispatcher apart"])
LIMITS = {"plans": {"pro": {"priority": "realtime", "tpm": 1_000_000, "max_parallel": 9}}}
PINNED = {**LIMITS, "models": {0: {"fallback": ["large-model"]}, 1: {"concurrency": {"max": 1}}}}
AUTO = {
    **LIMITS,
    "models": {1: {"concurrency": {"max": 1}}},
    "routing": {"routes": {"auto": {"cascade": {}}}, "fallback": {"small": "large"}},
}
WAYS = {
    "a pinned model falls back": (PINNED, {}),
    "a stream falls back": (PINNED, {"stream": True}),
    "a cascade goes up": (AUTO, {"model": "auto"}),
}


@asynccontextmanager
async def left_behind(start, way, followers=2, *, second=False, **how):
    """(The stack, the connections of those who follow, what lets the model go on): the leader has left amid its work.

    `second`: amid that of the next model.
    """
    changes, wish = WAYS[way]
    stack = await start(changes, fakes={"s1": Options(), "l1": Options()}, **how)
    wake = hold(stack.small)
    if way != "a cascade goes up":
        stack.small.faults.add(cut_after_tokens=0, times=1)
    body = chat("How many legs have three cats?", **{**GREEDY, **wish})
    async with AsyncExitStack() as scope:
        leader = await scope.enter_async_context(wire(stack.gateway.port))
        leader.send(body)
        await stack.until(lambda: posts(stack.small))
        rest = [await scope.enter_async_context(wire(stack.gateway.port)) for _ in range(followers)]
        for one in rest:
            one.send(body)
        await stack.until(lambda: running(stack) == 1 + followers)
        if second:
            large = hold(stack.large)
            wake()
            wake = large
            await stack.until(lambda: posts(stack.large))
        leader.leave()
        await stack.until(lambda: running(stack) == followers)
        yield stack, rest, wake


def running(stack):
    workers = getattr(stack.gateway, "workers", None)
    return sum(worker.parts.edge.running for worker in workers) if workers else stack.gateway.parts.edge.running


async def settled(stack, calls):
    """Every token that a model made was charged, once, to the tenant whose limit it is; nothing is held."""
    used = sum(call.prompt_tokens + call.tokens for call in calls)
    log = await lines(stack, 3)
    assert sorted(line["outcome"] for line in log) == ["client_gone", "ok", "ok"]
    assert sum(line["charged_tokens"] for line in log) == used
    counted, told = tokens_told(await scrape(stack), log)
    assert counted == told == [sum(call.prompt_tokens for call in calls), sum(call.tokens for call in calls)]
    await stack.at_rest()
    accounts = stack.gateway.parts.limiter.ledger._accounts.values()
    assert {account.parallel for account in accounts} == {0}
    (spent,) = [account.tokens / account.token_unit for account in accounts if account.scope.tpm]
    assert 0 <= used - spent <= 1_000_000 / 60 * 10  # what refilled since


@BOTH
@pytest.mark.parametrize("way", WAYS)
async def test_what_comes_after_the_leader_has_left(start, way, workers):
    """Its next model is asked, the others share the answer, and it is charged to the account that the first one was."""
    async with left_behind(start, way, workers=workers) as (stack, rest, wake):
        wake()
        answers = [await one.answer() for one in rest]
        assert {(answer.status_code, answer.headers["x-tiergate-cache"]) for answer in answers} == {(200, "shared")}
        assert len(posts(stack.large)) == 1
    if way == "a cascade goes up":
        await settled(stack, [*posts(stack.small), *posts(stack.large)])


@BOTH
@pytest.mark.parametrize("way", WAYS)
async def test_the_tokens_of_a_work_whose_leader_left_amid_its_second_model(start, way, workers):
    """What the first model has cost, if only nothing, is not what the work costs: that is on the line of who ends after it."""
    async with left_behind(start, way, second=True, workers=workers) as (stack, rest, wake):
        wake()
        assert {(await one.answer()).status_code for one in rest} == {200}
    await settled(stack, [*(posts(stack.small) if way == "a cascade goes up" else ()), *posts(stack.large)])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("moment", ["in the first work", "waiting for the second", "in the second work"])
async def test_another_dispatcher_after_the_leader_has_left(start, way, moment):
    """Replaced at any moment of such work the dispatcher hears what it still needs, and nobody waits in vain."""
    async with left_behind(start, way, workers=1) as (stack, rest, wake):
        large = hold(stack.large)
        if moment == "in the first work":
            await stack.gateway.replace_dispatcher()
        async with wire(stack.gateway.port) as other:
            if moment == "waiting for the second":
                other.send(chat("another", model="large-model"))
                await stack.until(lambda: len(posts(stack.large)) == 1)
            wake()
            if moment == "waiting for the second":
                await stack.until(lambda: queued(stack, "large-model") == 1)
                await stack.gateway.replace_dispatcher()
                await stack.until(lambda: station(stack, "large-model").scheduler.inflight == 1)
            elif moment == "in the second work":
                await stack.until(lambda: posts(stack.large))
                await stack.gateway.replace_dispatcher()
            large()
            answers = await asyncio.gather(*(one.answer() for one in rest))
            if moment == "waiting for the second":
                await other.answer()
        assert {(answer.status_code, answer.headers["x-tiergate-cache"]) for answer in answers} == {(200, "shared")}
    await stack.at_rest()
    accounts = stack.gateway.parts.limiter.ledger._accounts.values()
    assert {account.parallel for account in accounts} == {0}


async def test_those_of_another_worker_have_it_too(start):
    """Half of those who follow came to the other worker: none of them hangs, and no model is asked twice for them."""
    async with left_behind(start, "a pinned model falls back", followers=8, workers=2) as (stack, rest, wake):
        assert all(worker.parts.edge.running for worker in stack.gateway.workers)
        wake()
        answers = [await one.answer() for one in rest]
        assert {answer.status_code for answer in answers} == {200}
    await stack.at_rest()


@BOTH
async def test_the_last_one_leaves_as_well(start, workers):
    """When nobody is left who wants it the second work leaves the line, and no model is asked for it."""
    async with (
        left_behind(start, "a pinned model falls back", workers=workers) as (stack, rest, wake),
        wire(stack.gateway.port) as other,
    ):
        large = hold(stack.large)
        other.send(chat("another", model="large-model"))
        await stack.until(lambda: len(posts(stack.large)) == 1)
        wake()
        await stack.until(lambda: queued(stack, "large-model") == 1)
        for one in rest:
            one.leave()
        await stack.until(lambda: not queued(stack, "large-model"))
        large()
        await other.answer()
    assert len(posts(stack.large)) == 1
    await stack.at_rest()
