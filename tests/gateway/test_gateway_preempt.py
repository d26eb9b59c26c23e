"""Batch work that gives its slot to a realtime request, through the whole gateway, before an engine that tells what it saw."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from gateway_talk import (
    GREEDY,
    KEY,
    ask,
    chat,
    config_of,
    freeze_limits,
    hold,
    lines,
    posts,
    queued,
    remaining,
    scrape,
    station,
    tenant,
    total,
    usage,
    wire,
)  # fmt: skip
from pair import Pair

from gateway.config import parse
from gateway.dispatch import messages as m
from gateway.lab.fake import FakeVLLM, Options
from limits.waiting import Priority

BATCH, REALTIME = ({"x-tiergate-priority": name} for name in ("batch", "realtime"))


def one_slot(kind, **changes):
    return {"models": {0: {"concurrency": {"max": 1}}}, "queue": {"preempt": {"kind": kind, "within": "60s"}}, **changes}


def contents(fake):
    return [call.body["messages"][0]["content"] for call in posts(fake)]


class Held:
    """A pool whose one slot a batch request has, before an engine that makes no token."""

    def __init__(self, stack):
        self.stack = stack
        self.wake = hold(stack.small)

    async def batch(self, content="batch", **fields):
        before = len(posts(self.stack.small))
        task = asyncio.create_task(ask(self.stack, chat(content, **fields), headers=BATCH))
        await self.stack.until(lambda: len(posts(self.stack.small)) > before)
        return task

    def urgent(self, content="urgent", **fields):
        return asyncio.create_task(ask(self.stack, chat(content, **fields), headers=REALTIME))


@pytest.fixture
async def held(start):
    async def make(kind, **changes):
        return Held(await start(one_slot(kind, **changes)))

    return make


@pytest.mark.parametrize("stream", [False, True], ids=["json", "sse"])
async def test_a_batch_request_waits_once_more(held, stream):
    """Its attempt is given up, the realtime one is served, then it is served itself: charged once, told in log and metrics."""
    world = await held("requeue", tenants=[tenant("acme", KEY, tpm=100_000)])
    stack = world.stack
    freeze_limits(stack)
    batch = await world.batch(stream=stream)
    urgent = world.urgent()
    await stack.until(lambda: contents(stack.small) == ["batch", "urgent"])
    assert posts(stack.small)[0].aborted
    assert queued(stack) == 1
    world.wake()
    answers = [await urgent, await batch]
    assert [answer.status_code for answer in answers] == [200, 200]
    assert contents(stack.small) == ["batch", "urgent", "batch"]
    found = {line["request_id"]: line for line in await lines(stack, 2)}
    line = found[answers[1].headers["x-request-id"]]
    assert (line["outcome"], line["preempted"], line["attempts"]) == ("ok", "requeued", 2)
    assert line["charged_tokens"] == line["prompt_tokens"] + line["completion_tokens"] > 0
    assert "preempted" not in found[answers[0].headers["x-request-id"]]
    await stack.at_rest()
    assert await remaining(stack) == 100_000 - sum(one["charged_tokens"] for one in found.values())
    counted = await scrape(stack)
    assert total(counted, "tiergate_preemptions_total", model="small-model", result="requeued") == 1
    assert total(counted, "tiergate_upstream_retries_total") == 0
    assert total(counted, "tiergate_requests_total", outcome="ok") == 2
    assert total(counted, "tiergate_queue_ended_total", end="dispatched") == 2


async def test_a_batch_request_is_refused_where_it_is_not_to_wait(held):
    """503 `preempted`, to be asked again: it costs no request and no token."""
    world = await held("refuse", tenants=[tenant("acme", KEY, rpm=100, tpm=100_000)])
    stack = world.stack
    freeze_limits(stack)
    before = await remaining(stack)
    batch = await world.batch()
    urgent = world.urgent()
    refused = await batch
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "preempted")
    assert refused.headers["x-should-retry"] == "true"
    assert int(refused.headers["retry-after"]) >= 1
    world.wake()
    assert (await urgent).status_code == 200
    line = (await lines(stack, 3))[1]
    assert (line["outcome"], line["error"], line["preempted"], line["charged_tokens"]) == ("rejected", "preempted", "refused", 0)
    used = usage(await urgent)["total_tokens"]
    await stack.at_rest()
    assert await remaining(stack) == before - used
    probe = await ask(stack, chat(model="no-such-model"))
    assert int(probe.headers["x-ratelimit-remaining-requests"]) == 100 - 4, "three probes, and the realtime one"
    assert total(await scrape(stack), "tiergate_preemptions_total", model="small-model", result="refused") == 1


async def test_nobody_gives_way_unless_the_config_says_so(start):
    """As shipped a realtime request waits for the slot."""
    world = Held(await start({"models": {0: {"concurrency": {"max": 1}}}}))
    batch = await world.batch()
    urgent = world.urgent()
    await world.stack.until(lambda: queued(world.stack) == 1)
    world.wake()
    assert [(await one).status_code for one in (batch, urgent)] == [200, 200]
    assert contents(world.stack.small) == ["batch", "urgent"]


async def test_who_has_sent_something_goes_on(start):
    """A stream that has begun is not broken off for anybody."""
    stack = await start(one_slot("requeue"), fakes={"s1": Options(itl=0.01, tokens=40), "l1": Options()})
    async with wire(stack.gateway.port) as one:
        one.send(chat("batch", stream=True), headers=BATCH)
        await one.head()
        await one.piece()
        urgent = asyncio.create_task(ask(stack, chat("urgent", max_tokens=2), headers=REALTIME))
        await stack.until(lambda: queued(stack) == 1)
        pieces = await one.pieces()
    assert pieces[-1].endswith(b"data: [DONE]\n\n")
    assert (await urgent).status_code == 200
    assert contents(stack.small) == ["batch", "urgent"]
    assert total(await scrape(stack), "tiergate_preemptions_total") == 0


async def test_it_gives_way_once(held):
    """Asked again, it runs to its end before the next realtime request."""
    world = await held("requeue")
    stack = world.stack
    batch = await world.batch()
    first = world.urgent("first")
    await stack.until(lambda: len(posts(stack.small)) == 2)
    world.wake()
    await first
    wake = hold(stack.small)
    await stack.until(lambda: len(posts(stack.small)) == 3)
    second = world.urgent("second")
    await stack.until(lambda: queued(stack) == 1)
    wake()
    assert [(await one).status_code for one in (batch, second)] == [200, 200]
    assert contents(stack.small) == ["batch", "first", "batch", "second"]


async def test_an_answer_that_a_realtime_request_shares_is_realtime_work(held):
    """The highest class among those who wait for the same answer counts."""
    world = await held("requeue")
    stack = world.stack
    batch = await world.batch("same", **GREEDY)
    shares = world.urgent("same", **GREEDY)
    await stack.until(lambda: len(stack.gateway.parts.flights) == 1 and stack.gateway.parts.edge.running == 2)
    other = world.urgent("other")
    await stack.until(lambda: queued(stack) == 1)
    world.wake()
    assert [(await one).status_code for one in (batch, shares, other)] == [200, 200, 200]
    assert contents(stack.small) == ["same", "other"]


async def test_shared_batch_work_gives_way_for_all_who_share_it(held):
    """One attempt is given up, one is made again, and all get that answer."""
    world = await held("requeue")
    stack = world.stack
    batch = await world.batch("same", **GREEDY)
    shares = asyncio.create_task(ask(stack, chat("same", **GREEDY), headers=BATCH))
    await stack.until(lambda: stack.gateway.parts.edge.running == 2)
    urgent = world.urgent()
    await stack.until(lambda: len(posts(stack.small)) == 2)
    world.wake()
    answers = [await one for one in (batch, shares, urgent)]
    assert [answer.status_code for answer in answers] == [200, 200, 200]
    assert answers[0].json() == answers[1].json()
    assert contents(stack.small) == ["same", "urgent", "same"]
    await stack.at_rest()


@pytest.mark.parametrize("stream", [False, True], ids=["json", "sse"])
async def test_a_client_that_leaves_after_it_gave_way(held, stream):
    """Its place in line goes with it, and it is charged nothing: what was done for it was thrown away by us."""
    world = await held("requeue", tenants=[tenant("acme", KEY, tpm=100_000)])
    stack = world.stack
    freeze_limits(stack)
    before = await remaining(stack)
    async with wire(stack.gateway.port) as one:
        one.send(chat("batch", stream=stream), headers=BATCH)
        await stack.until(lambda: len(posts(stack.small)) == 1)
        urgent = world.urgent()
        await stack.until(lambda: queued(stack) == 1 and len(posts(stack.small)) == 2)
    await stack.until(lambda: not queued(stack))
    world.wake()
    used = usage(await urgent)["total_tokens"]
    line = next(line for line in await lines(stack, 3) if line["outcome"] == "client_gone")
    assert (line["preempted"], line["charged_tokens"]) == ("requeued", 0)
    await stack.at_rest()
    assert await remaining(stack) == before - used


async def test_its_wait_may_end_without_a_slot(held):
    """It waits as long as its class may, then hears 503 queue_timeout as whoever waited in vain."""
    changes = {"queue": {"preempt": {"kind": "requeue", "within": "60s"}, "max_wait": {"batch": "80ms"}}}
    world = await held("requeue", **changes)
    stack = world.stack
    batch = await world.batch()
    urgent = world.urgent()
    refused = await batch
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "queue_timeout")
    world.wake()
    assert (await urgent).status_code == 200
    line = (await lines(stack, 1))[0]
    assert (line["outcome"], line["preempted"], line["charged_tokens"]) == ("timeout", "requeued", 0)
    await stack.at_rest()


async def test_no_answer_is_no_failure_of_the_replica(held):
    """Its breaker hears nothing, its latency neither, and no retry is spent."""
    world = await held("requeue", breaker={"failures": 1})
    stack = world.stack
    [replica] = station(stack).pool.replicas
    batch = await world.batch()
    urgent = world.urgent()
    await stack.until(lambda: len(posts(stack.small)) == 2)
    assert not replica.breaker.tripped
    assert replica.inflight == 1
    world.wake()
    assert [(await one).status_code for one in (urgent, batch)] == [200, 200]


async def test_the_engine_is_told_the_class_each_time(held):
    """A request that waits again carries its class anew: the one that it was raised to meanwhile."""
    models = {0: {"concurrency": {"max": 1}, "scheduling_policy": "priority"}}
    world = await held("requeue", models=models)
    stack = world.stack
    batch = await world.batch("same", **GREEDY)
    urgent = world.urgent("urgent")
    await stack.until(lambda: len(posts(stack.small)) == 2)
    shares = world.urgent("same", **GREEDY)
    await stack.until(lambda: station(stack).scheduler.depth(Priority.REALTIME) == 1)
    world.wake()
    assert [(await one).status_code for one in (batch, shares, urgent)] == [200, 200, 200]
    told = [(call.body["messages"][0]["content"], call.body["priority"]) for call in posts(stack.small)]
    assert told == [("same", 20), ("urgent", 0), ("same", 0)]


async def waits_again(world):
    """A batch request has given its slot up, the realtime one has it."""
    batch = await world.batch()
    urgent = world.urgent()
    await world.stack.until(lambda: len(posts(world.stack.small)) == 2 and queued(world.stack) == 1)
    return batch, urgent


async def test_a_dispatcher_is_replaced_while_one_waits_again(start):
    """Its tokens stay set aside, it waits before the next dispatcher, and is charged once."""
    stack = await start(one_slot("requeue", tenants=[tenant("acme", KEY, tpm=100_000)]), workers=1)
    world = Held(stack)
    batch, urgent = await waits_again(world)
    await stack.gateway.replace_dispatcher()
    await stack.until(lambda: queued(stack) == 1 and station(stack).scheduler.inflight == 1)
    world.wake()
    answers = [await urgent, await batch]
    assert [answer.status_code for answer in answers] == [200, 200]
    await stack.at_rest()
    account = stack.gateway.parts.limiter.ledger._accounts["tenant:acme"]
    freeze_limits(stack)
    spent = sum(usage(answer)["total_tokens"] for answer in answers)
    assert 100_000 - await remaining(stack) <= spent
    await stack.until(lambda: account.parallel == 0)


async def test_a_dispatcher_is_replaced_while_its_order_is_on_its_way(start):
    """Nobody knows any more for whom the slot was wanted: whoever waits gets it, and both are answered."""
    stack = await start(one_slot("requeue"), workers=1)
    world = Held(stack)
    batch = await world.batch()
    [session] = stack.gateway.dispatcher.parts.node.sessions
    said = []
    send, session.send = session.send, lambda message: (said.append(message), send(message))
    urgent = world.urgent()
    async with asyncio.timeout(10):
        while not any(isinstance(message, m.Yield) for message in said):
            await asyncio.sleep(0)
    await stack.gateway.replace_dispatcher()
    await stack.until(lambda: stack.gateway.workers[0].parts.link.away is False)
    world.wake()
    answers = [await one for one in (urgent, batch)]
    assert [answer.status_code for answer in answers] == [200, 200], [answer.text for answer in answers]
    await stack.at_rest()


@asynccontextmanager
async def two_workers(folder):
    """A pool of one slot behind two workers, each on its own port."""
    async with FakeVLLM(Options()) as small, FakeVLLM(Options()) as large:
        changes = {"keys": {"path": str(folder / "keys.json")}, **one_slot("requeue")}
        pair = Pair(parse(config_of({"s1": small, "l1": large}, changes), folder / "config.yaml"))
        await pair.start()
        try:
            pair.scheduler = pair.dispatcher.parts.owner.lanes["small-model"].scheduler
            pair.small = small
            await pair.a.until(lambda: pair.scheduler.capacity == 1)
            yield pair
        finally:
            await pair.stop()


async def test_a_worker_dies_while_its_request_waits_again(tmp_path):
    """What it held and where it waited is free; the other worker's realtime request is served."""
    async with two_workers(tmp_path) as pair:
        scheduler, wake = pair.scheduler, hold(pair.small)
        batch = asyncio.create_task(ask(pair.a, chat("batch"), headers=BATCH))
        await pair.a.until(lambda: len(posts(pair.small)) == 1)
        urgent = asyncio.create_task(ask(pair.b, chat("urgent"), headers=REALTIME))
        await pair.b.until(lambda: len(posts(pair.small)) == 2 and scheduler.queue.load.requests == 1)
        pair.a.die()
        await pair.b.until(lambda: not scheduler.queue.load.requests)
        wake()
        assert (await urgent).status_code == 200
        await pair.b.until(lambda: not scheduler.inflight and not scheduler._lent._holders)
        batch.cancel()
        await asyncio.gather(batch, return_exceptions=True)


async def test_a_realtime_request_shares_through_another_worker(tmp_path):
    """Batch work on one worker, whose answer a realtime client of the other waits for: it is left alone."""
    async with two_workers(tmp_path) as pair:
        wake = hold(pair.small)
        batch = asyncio.create_task(ask(pair.a, chat("same", **GREEDY), headers=BATCH))
        await pair.a.until(lambda: len(posts(pair.small)) == 1)
        shares = asyncio.create_task(ask(pair.b, chat("same", **GREEDY), headers=REALTIME))
        await pair.b.until(lambda: pair.b.running == 1 and len(pair.a.link.outgoing) == 1)
        other = asyncio.create_task(ask(pair.b, chat("other"), headers=REALTIME))
        await pair.b.until(lambda: pair.scheduler.queue.load.requests == 1)
        wake()
        assert [(await one).status_code for one in (batch, shares, other)] == [200, 200, 200]
        assert contents(pair.small) == ["same", "other"]
