"""Virtual time: what is due happens in order, and nothing else takes any."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable

from limits.slots import Loop


class Due:
    """Something that will happen, unless it is cancelled."""

    __slots__ = ("call",)

    def __init__(self, call: Callable[[], None] | None) -> None:
        self.call = call

    def cancel(self) -> None:
        self.call = None


class Timeline:
    """As much of an event loop as `limits.slots.Scheduler` needs."""

    def __init__(self) -> None:
        self.now = 0.0
        self._due: list[tuple[float, int, Due]] = []
        self._seq = 0

    def clock(self) -> float:
        return self.now

    def at(self, when: float, call: Callable[[], None]) -> Due:
        """What is due at the same time happens in the order in which it was asked for."""
        self._seq += 1
        due = Due(call)
        heapq.heappush(self._due, (max(when, self.now), self._seq, due))
        return due

    def call_later(self, delay: float, callback: Callable[[Loop], None], loop: Loop, /) -> Due:
        return self.at(self.now + delay, lambda: callback(loop))

    def run(self, until: float = math.inf) -> None:
        """Until nothing is due, or until then."""
        while self._due and self._due[0][0] <= until:
            when, _, due = heapq.heappop(self._due)
            if due.call is not None:
                self.now = when
                due.call()
