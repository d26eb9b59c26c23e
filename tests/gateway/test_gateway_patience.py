"""Whose patience ends while an answer that others may share still waits for a slot."""

import asyncio
import json

import pytest
from gateway_talk import GREEDY, ask, chat, hold, posts, queued, scrape, station, total
from held import held

from caches.flight import Flights, Orphaned
from gateway.lab.fake import Options
from gateway.refusals import PERSONAL
from limits.waiting import WaitTooLong

HASTY = [{"x-stainless-read-timeout": "1"}, {"x-stainless-timeout": "1"}, {"x-tiergate-deadline-ms": "800"}]
SHARED = {**GREEDY, "max_tokens": 100}


def code(answer):
    return answer.status_code, answer.json()["error"]["code"] if answer.status_code != 200 else ""


@pytest.mark.parametrize("headers", HASTY)
async def test_the_only_rider_is_told_that_there_was_no_slot(start, headers):
    """503 queue_timeout with a time to come back, in time; the work leaves the queue, its request is given back."""
    line = await held(start, {"plans": {"pro": {"priority": "realtime", "rpm": 4}}})
    async with asyncio.timeout(0.95):
        late = await ask(line.stack, chat("late", **SHARED), headers=headers)
    assert code(late) == (503, "queue_timeout")
    assert 1 <= int(late.headers["retry-after"]) <= 60
    assert late.headers["x-ratelimit-remaining-requests"] == "3"
    await line.stack.until(lambda: not queued(line.stack))
    told = line.stack.log.lines[0]
    assert (told["outcome"], told["error"]) == ("timeout", "queue_timeout")
    assert told["queue_ms"] > 500 > told["overhead_ms"]
    assert await line.over() == [200]
    await line.stack.at_rest()
    assert len(posts(line.stack.small)) == 1
    found = await scrape(line.stack)
    where = {"model": "small-model", "class": "realtime", "reason": "queue_timeout"}
    assert total(found, "tiergate_queue_refusals_total", **where) == 1


@pytest.mark.parametrize("leads", [True, False], ids=["leader", "follower"])
@pytest.mark.parametrize("headers", HASTY[1:])
async def test_the_others_wait_on(start, headers, leads):
    """One rider's patience ends, and it is told so; the other one has the answer, of one call."""
    line = await held(start)
    hasty, patient = {"headers": headers}, {}
    first, second = (hasty, patient) if leads else (patient, hasty)
    riders = [await line.add("same", greedy=True, **first)]
    riders.append(asyncio.create_task(ask(line.stack, chat("same", **SHARED), **second)))
    await line.stack.until(lambda: line.stack.gateway.parts.edge.running == 3)
    late = await riders[0 if leads else 1]
    assert code(late) == (503, "queue_timeout")
    assert 1 <= int(late.headers["retry-after"]) <= 60
    assert queued(line.stack) == 1
    line.wake()
    other = await riders[1 if leads else 0]
    assert other.status_code == 200
    await asyncio.gather(*line.tasks)
    assert [call.body["messages"][0]["content"] for call in posts(line.stack.small)] == ["blocker", "same"]
    told = next(told for told in line.stack.log.lines if told.get("error"))
    assert told["queue_ms"] > 500 > told["overhead_ms"]
    await line.stack.at_rest()


async def test_an_sdks_own_timeout_does_not_cut_a_shared_answer(start):
    """Once the work has a slot the header does nothing, for who leads it and for who follows."""
    stack = await start()
    wake = hold(stack.small)
    headers = {"x-stainless-read-timeout": "0.3"}
    tasks = [asyncio.create_task(ask(stack, chat("same", **SHARED), headers=headers)) for _ in range(2)]
    await stack.until(lambda: posts(stack.small) and stack.gateway.parts.edge.running == 2)
    await asyncio.sleep(0.4)
    wake()
    assert [answer.status_code for answer in await asyncio.gather(*tasks)] == [200, 200]
    assert len(posts(stack.small)) == 1


async def test_a_deadline_in_a_replica_is_still_the_models(start):
    """504 upstream_timeout for a rider whose deadline comes when the work has its slot."""
    stack = await start()
    wake = hold(stack.small)
    late = await ask(stack, chat("same", **SHARED), headers={"x-tiergate-deadline-ms": "300"})
    assert code(late) == (504, "upstream_timeout")
    wake()
    await stack.until(stack.idle)


@pytest.mark.parametrize("temperature", [0, 1])
async def test_a_deadline_in_a_stream_is_told_the_same_whoever_may_share_it(start, temperature):
    """The event of a stream that had begun says `stream_timeout`, and the log that it broke, shared work or not."""
    stack = await start(fakes={"s1": Options(itl=0.1), "l1": Options()})
    body = {**chat("[[tokens: 200]]", stream=True), "temperature": temperature}
    late = await ask(stack, body, headers={"x-tiergate-deadline-ms": "700"})
    assert late.status_code == 200
    events = [json.loads(line[6:]) for line in late.content.decode().splitlines() if line.startswith("data: {")]
    assert "choices" in events[0]
    assert events[-1]["error"]["code"] == "stream_timeout"
    assert "[DONE]" not in late.content.decode()
    assert (await stack.line())["outcome"] == "broken_stream"
    await stack.at_rest()


async def test_a_refusal_by_the_leaders_patience_is_the_leaders_own(start):
    """A leader whose work has to wait again, at another model, is told wait_too_long; who had joined asks again and is served."""
    stack = await start({"models": {1: {"concurrency": {"max": 1}}}, "queue": {"max_wait": {"realtime": "20s"}}})
    station(stack, "large-model").scheduler.queue.outlook.completed(1000, 100.0)
    stack.small.faults.add(hang_before_headers=0.5, status=500, times=1)
    wake = hold(stack.large)
    blockers = [asyncio.create_task(ask(stack, chat("blocker", model="large-model", max_tokens=100)))]
    await stack.until(lambda: posts(stack.large))
    blockers.append(asyncio.create_task(ask(stack, chat("in line", model="large-model", max_tokens=100))))
    await stack.until(lambda: queued(stack, "large-model") == 1)
    body = {**chat("same", **SHARED), "model": "auto"}
    leader = asyncio.create_task(ask(stack, body, headers={"x-tiergate-tier": "small", "x-tiergate-deadline-ms": "9000"}))
    await stack.until(lambda: posts(stack.small))
    follower = asyncio.create_task(ask(stack, body, headers={"x-tiergate-tier": "small"}))
    await stack.until(lambda: stack.gateway.parts.edge.running == 4)
    assert code(await leader) == (503, "wait_too_long")
    wake()
    assert (await follower).status_code == 200
    assert [answer.status_code for answer in await asyncio.gather(*blockers)] == [200, 200]
    await stack.at_rest()


async def test_who_joined_a_refused_wait_asks_again():
    """A leader alone hears wait_too_long; its followers, that they are to ask for themselves."""
    flights, refuse = Flights(personal=PERSONAL), asyncio.Event()

    async def make(_flight):
        await refuse.wait()
        raise WaitTooLong(tenant=False, retry_after=5.0, expected=9.0, most=3.0)

    async def ride(expected):
        async with flights.join(b"key", stream=False, start=make) as seat:
            with pytest.raises(expected):
                await seat.whole()

    riders = [asyncio.create_task(ride(expected)) for expected in (WaitTooLong, Orphaned, Orphaned)]
    await asyncio.sleep(0)
    refuse.set()
    await asyncio.gather(*riders)
