"""Where texts are handed in and vectors fetched, whoever makes them; or pairs of texts, and scores.

    ask ── remembered? ── in flight? ── breaker, room? ──► waiting ──► a lane takes a few ──► work ──► all who asked

Rules
1. Whoever asks waits for the deadline at most (or for its own), and holds nothing afterwards: leaving, cancelled or late, is a
   decrement.
2. A text that nobody waits for any more is not begun. What has begun is finished, and its vector remembered.
3. Waiting is bounded: `overload`. So is what is remembered.
4. A trip that fails, or takes twice the deadline, is a failure for the breaker. Time spent waiting for a lane is not: a burst is
   answered as fast as the model goes, rather than with seconds of nothing.
5. Where every lane is beyond twice the deadline, the model may hang: nobody is let in before one comes back.
6. Equal texts share work within a scope only, so how fast a vector comes tells nobody what another tenant asked.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from caches.breaker import Breaker, BreakerOpen, BreakerRules
from caches.embed.types import EmbedderAway, TooLong

A = TypeVar("A", bound=Hashable)  # what is asked: a text
M = TypeVar("M")  # what is made of it: a vector


@dataclass(frozen=True, slots=True)
class DeskRules:
    deadline: float = 0.05
    waiting: int = 256
    batch: int = 1
    lanes: int = 1
    remembered: int = 1024


RULES = DeskRules()
BREAKER = BreakerRules()


@dataclass(slots=True, eq=False)
class Flight(Generic[A, M]):
    """One text that somebody waits for."""

    key: tuple[str, A]  # with its scope
    outcome: asyncio.Future[M | EmbedderAway | None]  # as a value: nobody has to be there to fetch it
    askers: int = 0


@dataclass(slots=True)
class Recent(Generic[A, M]):
    """The vectors asked for last: an answer that is stored wants the one that its lookup had made."""

    room: int
    _made: OrderedDict[tuple[str, A], M] = field(default_factory=OrderedDict)

    def get(self, key: tuple[str, A]) -> M | None:
        made = self._made.get(key)
        if made is not None:
            self._made.move_to_end(key)
        return made

    def put(self, key: tuple[str, A], made: M) -> None:
        self._made[key] = made
        if len(self._made) > self.room:
            self._made.popitem(last=False)


class Desk(Generic[A, M]):
    """`open` it on the loop that asks; `close` ends its lanes, and tells those who wait that it is away."""

    def __init__(
        self,
        work: Callable[[Sequence[A]], Awaitable[Sequence[M | None]]],
        breaker: Breaker,
        clock: Callable[[], float],
        rules: DeskRules = RULES,
    ) -> None:
        self._work = work
        self._breaker = breaker
        self._clock = clock
        self._rules = rules
        self._recent: Recent[A, M] = Recent(rules.remembered)
        self._flights: dict[tuple[str, A], Flight[A, M]] = {}
        self._waiting: asyncio.Queue[Flight[A, M]] = asyncio.Queue(rules.waiting)
        self._closed = False
        self._late = 0  # lanes
        self._lanes: list[asyncio.Task[None]] = []
        self._works: set[asyncio.Task[None]] = set()

    def open(self) -> None:
        if not self._lanes and not self._closed:
            self._lanes = [asyncio.create_task(self._lane()) for _ in range(self._rules.lanes)]

    async def close(self) -> None:
        self._closed = True
        ending = [*self._lanes, *self._works]
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)
        self._lanes = []
        self._land_all(list(self._flights.values()), "failed")

    async def ask(self, text: A, scope: str = "", within: float | None = None) -> M:
        key = (scope, text)
        known = self._recent.get(key)
        if known is not None:
            return known
        self._check()
        flight = self._flights.get(key) or self._hand_in(key)
        flight.askers += 1
        try:
            await asyncio.wait((flight.outcome,), timeout=self._rules.deadline if within is None else within)
        finally:
            flight.askers -= 1
        if not flight.outcome.done():
            raise EmbedderAway("timeout")
        return _told(flight.outcome.result())

    def _check(self) -> None:
        if self._closed:
            raise EmbedderAway("failed")
        if self._breaker.is_open and self._clock() < self._breaker.open_until:
            raise EmbedderAway("breaker")
        if self._late == self._rules.lanes:
            raise EmbedderAway("timeout")

    def _hand_in(self, key: tuple[str, A]) -> Flight[A, M]:
        flight: Flight[A, M] = Flight(key, asyncio.get_running_loop().create_future())
        try:
            self._waiting.put_nowait(flight)
        except asyncio.QueueFull:
            raise EmbedderAway("overload") from None
        self._flights[key] = flight
        return flight

    # -- lanes

    async def _lane(self) -> None:
        while True:
            if flights := await self._next():
                await self._trip(flights)

    async def _next(self) -> list[Flight[A, M]]:
        taken = [await self._waiting.get()]
        while len(taken) < self._rules.batch and not self._waiting.empty():
            taken.append(self._waiting.get_nowait())
        self._land_all([flight for flight in taken if not flight.askers], "timeout")
        return [flight for flight in taken if not flight.outcome.done()]

    async def _trip(self, flights: list[Flight[A, M]]) -> None:
        """Lasts as long as the work does, even if nobody waits for that any more: the model is busy as long."""
        try:
            attempt = self._breaker.attempt()
        except BreakerOpen:
            self._land_all(flights, "breaker")
            return
        work = asyncio.create_task(self._fly(flights))
        self._works.add(work)
        work.add_done_callback(self._works.discard)
        with suppress(Exception), attempt:  # whatever a model or an engine raises: the breaker sees it, `_end_of` names it
            await _in_time(work, 2 * self._rules.deadline)
        self._land_all(flights, await self._end_of(work))

    async def _fly(self, flights: list[Flight[A, M]]) -> None:
        outcomes = await self._work([flight.key[1] for flight in flights])
        for flight, made in zip(flights, outcomes, strict=True):
            if made is not None:
                self._recent.put(flight.key, made)
            self._land(flight, made)

    async def _end_of(self, work: asyncio.Task[None]) -> str:
        """What is to be told to those of its texts that got no outcome."""
        if not work.done():
            self._late += 1
            try:
                await asyncio.wait((work,))
            finally:
                self._late -= 1
        error = None if work.cancelled() else work.exception()
        return "timeout" if isinstance(error, TimeoutError) else "failed"

    def _land_all(self, flights: list[Flight[A, M]], reason: str) -> None:
        for flight in flights:
            self._land(flight, EmbedderAway(reason))

    def _land(self, flight: Flight[A, M], outcome: M | EmbedderAway | None) -> None:
        if not flight.outcome.done():
            flight.outcome.set_result(outcome)
            del self._flights[flight.key]


async def _in_time(work: asyncio.Task[None], seconds: float) -> None:
    """Raises what the work raises, and TimeoutError; then the work goes on."""
    done, _ = await asyncio.wait((work,), timeout=seconds)
    if not done:
        raise TimeoutError
    work.result()


def _told(outcome: M | EmbedderAway | None) -> M:
    if outcome is None:
        raise TooLong
    if isinstance(outcome, EmbedderAway):
        raise EmbedderAway(outcome.reason)  # one of its own: a flight's is shared
    return outcome
