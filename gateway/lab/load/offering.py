"""Offers each request when it is due, whatever became of those before it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol

from gateway.lab.load.arrivals import Arrival
from gateway.lab.load.bodies import Bodies
from gateway.lab.load.measures import Measures
from gateway.lab.load.reading import Gaps
from gateway.lab.load.sample import Outcome, Sample

TURN = 0.010  # seconds


class Sends(Protocol):
    async def send(self, body: bytes, due: float, gaps: Gaps) -> Sample: ...


class Offering:
    """`max_inflight` bounds this program, not the load: an arrival above it is lost, and counted as lost."""

    def __init__(
        self,
        sender: Sends,
        bodies: Bodies,
        measures: Measures,
        *,
        max_inflight: int,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._sender = sender
        self._bodies = bodies
        self._measures = measures
        self._max_inflight = max_inflight
        self._clock = clock
        self._sleep = sleep
        self._turn_began = 0.0
        self.inflight = 0
        self.sent = 0

    async def run(self, arrivals: Iterable[Arrival], *, warmup: float) -> None:
        """Until all have ended; cancelled, those that run are counted as unfinished."""
        start = self._clock()
        self._measures.begin(start + warmup)
        async with asyncio.TaskGroup() as group:
            for arrival in arrivals:
                body = self._bodies.next(arrival)  # made while there is time
                due = start + arrival.at
                await self._until(due)
                self._offer(group, body, due, measured=arrival.at >= warmup)

    def _offer(self, group: asyncio.TaskGroup, body: bytes, due: float, *, measured: bool) -> None:
        if measured:
            self._measures.arrived(due)
        if self.inflight >= self._max_inflight:
            self._measures.drop(due, measured=measured)
            return
        self.inflight += 1
        self.sent += 1
        group.create_task(self._one(body, due, measured))

    async def _one(self, body: bytes, due: float, measured: bool) -> None:
        sample = Sample(due, due, due, Outcome.UNFINISHED, code="unfinished")
        try:
            sample = await self._sender.send(body, due, self._measures.gaps if measured else {})
        finally:
            self.inflight -= 1
            if measured:
                self._measures.add(sample)

    async def _until(self, due: float) -> None:
        """What is overdue goes out in one round of the event loop: a round may be long, and one a round would never catch
        up. But after `TURN` the others have theirs.
        """
        now = self._clock()
        if due <= now < self._turn_began + TURN:
            return
        await self._sleep(max(0.0, due - now))
        while (left := due - self._clock()) > 0:  # timers may ring early
            await self._sleep(left)
        self._turn_began = self._clock()
