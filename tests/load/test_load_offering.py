"""The open loop, in virtual time: when requests go out, and from when their latency counts."""

import asyncio
import random

import pytest

pytest.importorskip("hdrh.histogram", reason="hdrhistogram is not installed (the extra `load`)", exc_type=ImportError)

from gateway.lab.load import arrivals
from gateway.lab.load.arrivals import Arrival
from gateway.lab.load.measures import Measures
from gateway.lab.load.offering import Offering
from gateway.lab.load.sample import Outcome, Sample


class Time:
    """A clock that only moves when the one who offers sleeps."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now

    async def sleep(self, seconds):
        for _ in range(3):
            await asyncio.sleep(0)  # those who were started get to their first wait
        self.now += seconds


class Numbers:
    def next(self, arrival):
        return b"%f" % arrival.at


class Server:
    """Answers at once, but for the time that it is stalled: then all wait for its end."""

    def __init__(self, time, stalled=(0.0, 0.0), service=0.01):
        self.time = time
        self.stalled = stalled
        self.service = service
        self.running = 0
        self.most = 0

    async def send(self, body, due, gaps):
        sent = self.time()
        begin = max(sent, self.stalled[1]) if self.stalled[0] <= sent < self.stalled[1] else sent
        return Sample(due, sent, begin + self.service, Outcome.OK)


class Holding(Server):
    """Keeps every request until it is released."""

    def __init__(self, time):
        super().__init__(time)
        self.release = asyncio.Event()

    async def send(self, body, due, gaps):
        self.running += 1
        self.most = max(self.most, self.running)
        await self.release.wait()
        self.running -= 1
        return Sample(due, due, self.time(), Outcome.OK)


async def offered(stream, make, *, warmup=0.0, max_inflight=10_000):
    time, measures = Time(), Measures(None)
    server = make(time)
    offering = Offering(server, Numbers(), measures, max_inflight=max_inflight, clock=time, sleep=time.sleep)
    await offering.run(stream, warmup=warmup)
    return measures


def rate(per_second, seconds, warmup=0.0):
    return arrivals.bounded(arrivals.constant(per_second), warmup=warmup, seconds=seconds, requests=None)


async def test_a_stall_hits_all_that_were_due_in_it():
    """A server that stands still for 1 of 10 s makes 10 % of the latencies large, from 1 s down, though it answers fast after."""
    measures = await offered(rate(100, 10.0), lambda time: Server(time, (103.0, 104.0)))
    e2e = measures.histograms["e2e"]
    assert e2e.count == 1000
    assert e2e.at(89) < 0.03
    assert e2e.at(95) == pytest.approx(0.51, abs=0.02)  # a closed loop would have seen one slow request of 901: p95 10 ms
    assert e2e.longest == pytest.approx(1.01, abs=1e-6)


async def test_latency_counts_from_when_a_request_was_due():
    """When this program itself stood still for a second, what it sends late is told as late, in the lag and in the latency."""

    class Blocking(Server):
        async def send(self, body, due, gaps):
            sent = self.time()
            if due == pytest.approx(103.0):
                self.time.now += 1.0  # the whole program stands still
            return Sample(due, sent, sent + self.service, Outcome.OK)

    measures = await offered(rate(100, 10.0), Blocking)
    lag, e2e = measures.histograms["lag"], measures.histograms["e2e"]
    assert lag.count == 1000
    assert lag.longest == pytest.approx(0.99, abs=0.011)
    assert lag.at(95) == pytest.approx(0.5, abs=0.03)
    assert e2e.at(95) == pytest.approx(lag.at(95) + 0.01, abs=0.002)


async def test_what_is_overdue_goes_out_without_waiting():
    """After a stall all that became due meanwhile is sent at that moment, and nothing is left out."""
    measures = await offered([Arrival(0.0)] * 500 + [Arrival(1.0)], Server)
    assert measures.histograms["lag"].longest == 0
    assert measures.ok == 501


async def test_no_answer_holds_back_an_arrival():
    """A server that answers nothing gets every request when it is due."""
    time, measures = Time(), Measures(None)
    server = Holding(time)
    offering = Offering(server, Numbers(), measures, max_inflight=1000, clock=time, sleep=time.sleep)
    task = asyncio.create_task(offering.run(rate(50, 4.0), warmup=0.0))
    async with asyncio.timeout(10):
        while server.running < 200:
            await asyncio.sleep(0)
    server.release.set()
    await task
    assert (server.most, measures.ok, measures.dropped) == (200, 200, 0)
    assert measures.histograms["lag"].longest == 0


async def test_above_the_bound_arrivals_are_dropped_and_counted():
    """The bound is this program's: what it does not send is neither sent later nor forgotten."""
    time, measures = Time(), Measures(None)
    server = Holding(time)
    offering = Offering(server, Numbers(), measures, max_inflight=30, clock=time, sleep=time.sleep)
    task = asyncio.create_task(offering.run(rate(50, 2.0, warmup=1.0), warmup=1.0))
    async with asyncio.timeout(10):
        while measures.dropped + measures.dropped_in_warmup < 120:
            await asyncio.sleep(0)
    server.release.set()
    await task
    assert server.most == 30
    assert (measures.arrivals, measures.dropped, measures.dropped_in_warmup) == (100, 100, 20)


async def test_the_warm_up_is_sent_and_not_measured():
    """Its requests are on the server's side only."""
    seen = []

    class Counting(Server):
        async def send(self, body, due, gaps):
            seen.append(due)
            return await super().send(body, due, gaps)

    measures = await offered(rate(10, 3.0, warmup=2.0), Counting, warmup=2.0)
    assert len(seen) == 50
    assert (measures.arrivals, measures.ok) == (30, 30)
    assert measures.rates()["arrivals"] == pytest.approx(10, rel=0.05)


async def test_ended_early_what_runs_is_unfinished():
    """Ctrl-C loses no count: what was sent and not answered is told as that, and its slot is given back."""
    time, measures = Time(), Measures(None)
    server = Holding(time)
    offering = Offering(server, Numbers(), measures, max_inflight=1000, clock=time, sleep=time.sleep)
    task = asyncio.create_task(offering.run(rate(10, 5.0), warmup=0.0))
    async with asyncio.timeout(10):
        while server.running < 20:
            await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert measures.outcomes[Outcome.UNFINISHED] >= 20
    assert measures.outcomes[Outcome.UNFINISHED] == measures.arrivals
    assert offering.inflight == 0


async def test_a_fault_in_this_program_ends_the_run():
    """Rather than being counted as the server's."""

    class Faulty(Server):
        async def send(self, body, due, gaps):
            raise KeyError("ours")

    with pytest.raises(ExceptionGroup) as caught:
        await offered(arrivals.bounded(arrivals.poisson(5, random.Random(1)), warmup=0, seconds=None, requests=3), Faulty)
    assert caught.value.subgroup(KeyError) is not None
