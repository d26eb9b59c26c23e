"""Requests over open connections, at a rate or each after the one before, and how long they took."""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from bench.load import Bodies, Caller, Target
from bench.upstream import PACE, TOKENS, USUAL

_KEPT = 16  # bodies that come again and again
_LENGTH = TOKENS * PACE  # seconds that a stream takes


@dataclass(frozen=True, slots=True)
class Mix:
    """What is sent: the share of streams, and of the others the share of bodies whose answers are in the cache."""

    streamed: float = 0.0
    again: float = 0.0


@dataclass(frozen=True, slots=True)
class Pace:
    """`rate` requests a second, at random; or, without one, each connection sends its next as soon as it has its answer."""

    connections: int
    rate: float = 0.0


@dataclass(slots=True)
class Took:
    """Milliseconds. At a rate they count from when a request was due, whether or not a connection was free."""

    whole: list[float] = field(default_factory=list)  # of those that were not streamed
    first: list[float] = field(default_factory=list)  # to the first event of those that were
    late: float = 0.0  # the most that the sender was behind its own clock, waiting for connections included

    @property
    def requests(self) -> int:
        return len(self.whole) + len(self.first)


class Sender:
    """Sends to one gateway; opens its connections anew for each turn, as a gateway ends those that are idle."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._head = target.head()
        self._callers: list[Caller] = []
        self._bodies = Bodies()
        self._draw = random.Random(1)
        self._kept: list[bytes] = []

    async def open(self, count: int) -> None:
        """Connect, and warm up: one request on each, of those that are sent again and again."""
        loop = asyncio.get_running_loop()
        pairs = [await loop.create_connection(Caller, "127.0.0.1", self._target.port) for _ in range(count)]
        self._callers = [caller for _, caller in pairs]
        if not self._kept:
            self._kept = [self._new() for _ in range(_KEPT)]
        async with asyncio.TaskGroup() as group:
            for number, caller in enumerate(self._callers):
                group.create_task(caller.call(self._head, self._kept[number % _KEPT], stream=None))

    def close(self) -> None:
        for caller in self._callers:
            caller.transport.abort()
        self._callers = []

    def _new(self, *, stream: bool = False) -> bytes:
        return self._bodies.next(self._target.model, stream=USUAL if stream else None)

    async def send(self, mix: Mix, pace: Pace, seconds: float) -> Took:
        """Begin requests for so long, and wait for all of them."""
        took = Took()
        async with asyncio.TaskGroup() as group:
            if pace.rate:
                await self._at_rate(mix, pace, seconds, took, group.create_task)
            else:
                end = time.perf_counter() + seconds
                spread = _LENGTH if mix.streamed else 0.0
                for number, caller in enumerate(self._callers):
                    group.create_task(self._on_and_on(caller, mix, number * spread / len(self._callers), end, took))
        return took

    async def _on_and_on(self, caller: Caller, mix: Mix, after: float, end: float, took: Took) -> None:
        await asyncio.sleep(after)
        while (now := time.perf_counter()) < end:
            await self._one(caller, mix, now, took)

    async def _at_rate(self, mix: Mix, pace: Pace, seconds: float, took: Took, start: Callable[..., object]) -> None:
        free = deque(self._callers)
        due = time.perf_counter()
        end, back = due + seconds, asyncio.Event()

        async def one(caller: Caller, due: float) -> None:
            await self._one(caller, mix, due, took)
            free.append(caller)
            back.set()

        while (due := due + self._draw.expovariate(pace.rate)) < end:
            if (wait := due - time.perf_counter()) > 0:
                await asyncio.sleep(wait)
            while not free:
                back.clear()
                await back.wait()
            took.late = max(took.late, time.perf_counter() - due)
            start(one(free.popleft(), due))

    async def _one(self, caller: Caller, mix: Mix, due: float, took: Took) -> None:
        stream = self._draw.random() < mix.streamed
        again = not stream and self._draw.random() < mix.again
        body = self._draw.choice(self._kept) if again else self._new(stream=stream)
        waited = (time.perf_counter() - due) * 1e3
        whole, first = await caller.call(self._head, body, stream=USUAL if stream else None)
        if stream:
            took.first.append(waited + first)
        else:
            took.whole.append(waited + whole)
