"""A plan carried out: the probe, the load, the meters around it, and Ctrl-C."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

from backends.client import Client
from gateway.lab.load.measures import Measures
from gateway.lab.load.offering import Offering
from gateway.lab.load.plan import Plan
from gateway.lab.load.probe import judge
from gateway.lab.load.sender import Sender
from gateway.lab.load.stall import StallMeter

SHOW_EVERY = 0.5
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_COLLECT_AFTER = 50_000  # new objects: looking through all that a busy run holds takes longer than a token


@dataclass(frozen=True, slots=True)
class Ran:
    wall: float
    cpu: float
    interrupted: bool


async def run(plan: Plan, measures: Measures, say: Callable[[str], None]) -> Ran:
    """Fills the measures. Raises ProbeFailed, UpstreamError."""
    clock = time.perf_counter
    client = Client(plan.target.origin, max_idle=plan.max_inflight)
    sender = Sender(client, plan.target, clock)
    offering = Offering(sender, plan.bodies, measures, max_inflight=plan.max_inflight, clock=clock)
    try:
        await client.resolve()
        if plan.probe is not None and (doubt := judge(await sender.send(plan.probe, clock(), {}), plan.url)):
            say(doubt)
        began, before = clock(), _cpu()
        async with _shown(offering, measures), StallMeter(clock, measures.stalled):
            with _rare_collection():
                interrupted = await _until_told(offering.run(plan.arrivals, warmup=plan.warmup))
        return Ran(clock() - began, _cpu() - before, interrupted)
    finally:
        measures.finish()
        await client.close()


async def _until_told(work: Coroutine[None, None, None]) -> bool:
    """True: SIGINT or SIGTERM ended it. A second signal does what it does to any program."""
    loop = asyncio.get_running_loop()
    task = loop.create_task(work)
    told = False

    def tell() -> None:
        nonlocal told
        told = True
        _unhandle(loop)
        task.cancel()

    for number in _SIGNALS:
        loop.add_signal_handler(number, tell)
    try:
        await task
    except asyncio.CancelledError:
        if not told:
            raise
    finally:
        _unhandle(loop)
        task.cancel()
    return told


def _unhandle(loop: asyncio.AbstractEventLoop) -> None:
    for number in _SIGNALS:
        loop.remove_signal_handler(number)


@contextmanager
def _rare_collection() -> Iterator[None]:
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


@asynccontextmanager
async def _shown(offering: Offering, measures: Measures) -> AsyncIterator[None]:
    """A line that keeps up with the run, on a terminal only."""
    if not sys.stderr.isatty():
        yield
        return
    task = asyncio.create_task(_show(offering, measures))
    try:
        yield
    finally:
        task.cancel()
        sys.stderr.write("\r" + " " * 100 + "\r")


async def _show(offering: Offering, measures: Measures) -> None:
    began = time.monotonic()
    while True:
        failed = sum(measures.outcomes.values()) - measures.ok
        sys.stderr.write(
            f"\r{time.monotonic() - began:6.0f} s  {offering.sent:,} sent, {offering.inflight:,} running, "
            f"{measures.ok:,} ok, {failed:,} failed, {measures.dropped:,} dropped  "
        )
        sys.stderr.flush()
        await asyncio.sleep(SHOW_EVERY)


def _cpu() -> float:
    times = os.times()
    return times.user + times.system
