"""How long who joins a queue now would wait, from how fast it has been served.

Rules of this file
- A class is served in turns: all its tenants that wait get as much by weight. So what each gets by weight in a second is the
  pace of the class, and whoever has so much before it waits so long. The pace is measured, as it is: what other classes take,
  what tenants take that come and go, what replicas can do now.
- Where little has been measured, the pace leans on what is known beforehand: what a slot makes in a second, and the shares, but
  not that those who share will go on to: at the latest all is served that waits now.
- Work is counted as it was predicted when it began, as is what waits, so that an error that all predictions have is none here.
- Whoever is put back in its tenant's line is overtaken by most of those that come meanwhile.
- Who is let in and is late all the same shows that estimates are too short; whoever is served, that they are not. So the margin
  goes up by much and down by little until as many are late as is meant.
- An estimate is finite, never negative, and never shorter for more that stands before it. Where nothing is known there is none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from limits.line import Line
from limits.waiting import Priority, SlotAsk

_MEMORY = 30.0  # seconds after which what was measured counts 1 / e
_COMPLETED = 100  # requests after which one counts 1 / e
_KEPT = 1 - 1 / _COMPLETED
_LEAN = 10.0  # dispatches that what is known beforehand counts for
_LATE = 0.005
"""Share of those who are let in that may be late all the same."""
_LEARN = 0.01
_MARGIN = (0.0, 0.2, 0.5)
"""By how much estimates may be too short: at least, at first, at most."""
_OVERTAKEN = 2 / 3
"""Of the work that comes while it is put back; found in `bench.told`."""
_LONGEST = 1e6  # seconds; what takes longer is as good as never
_SHORTEST = 1e-6  # seconds that a request takes, as far as clocks can tell


class Pace:
    """What a line was served by weight, a second of waiting, of late. Time that goes back does not pass."""

    __slots__ = ("_last", "served", "time")

    def __init__(self) -> None:
        self.served = self.time = 0.0
        self._last = 0.0

    def begin(self, now: float) -> None:
        """It begins to wait: what was measured before counts less by then."""
        self._fade(now)
        self._last = now

    def note(self, now: float, by_weight: float) -> None:
        self.advance(now)
        self.served += by_weight

    def advance(self, now: float) -> None:
        """It has waited until now."""
        passed = self._fade(now)
        self.time += passed
        self._last = max(self._last, now)

    def _fade(self, now: float) -> float:
        passed = max(0.0, now - self._last)
        kept = math.exp(-passed / _MEMORY)
        self.served *= kept
        self.time *= kept
        return passed


class Outlook:
    """Of one queue. `weights` are the classes', most urgent first.

    `promote_after`: the most urgent class goes first, whatever it weighs, and age counts for urgency; None: they share.
    """

    def __init__(self, lines: Sequence[Line], weights: Sequence[int], promote_after: float | None) -> None:
        self.lines = lines
        self._weights = weights if promote_after is None else [1] * len(lines)
        self._promote_after = promote_after
        self._paces = [Pace() for _ in lines]
        self._count = self._work = self._seconds = 0.0
        self.slots = 0
        self.margin = _MARGIN[1]

    def completed(self, cost: int, seconds: float) -> None:
        """A slot was busy so long with a request that was thought to cost so much."""
        self._count = self._count * _KEPT + 1
        self._work = self._work * _KEPT + cost
        self._seconds = self._seconds * _KEPT + (seconds if seconds > _SHORTEST else _SHORTEST)

    def joins(self, priority: Priority, now: float) -> None:
        """To be said before somebody joins a line."""
        if not self.lines[priority].entries:
            self._paces[priority].begin(now)

    def serves(self, priority: Priority, cost: int, now: float) -> None:
        """To be said before somebody is served."""
        self._paces[priority].note(now, cost / self.lines[priority].weights)
        self.margin = max(_MARGIN[0], self.margin - _LEARN * _LATE)

    def late(self) -> None:
        """Somebody's time was over."""
        self.margin = min(_MARGIN[2], self.margin + _LEARN)

    def wait(self, ask: SlotAsk, key: float, put_back: float, now: float) -> float | None:
        """Seconds until this one would have a slot, if it joined at this place in its tenant's line; None: nobody knows."""
        line = self.lines[ask.priority]
        seconds = self._until(ask.priority, line.before(ask, key), line.weight_of(ask), now)
        if seconds is None:
            return None
        seconds += min(seconds, _OVERTAKEN * put_back)
        if self._promote_after is not None:  # once it is as urgent as any, only what waits by now comes before it
            seconds = min(seconds, ask.priority * self._promote_after + self._all() / self._rate())
        return min(seconds, _LONGEST)

    def whole(self, priority: Priority, now: float) -> float | None:
        """Seconds until all that waits in this class now would have a slot; None: nobody knows."""
        line = self.lines[priority]
        if not line.entries:
            return 0.0
        seconds = self._until(priority, line.work / line.weights, line.weights, now)
        return None if seconds is None else min(seconds, _LONGEST)

    def _until(self, priority: Priority, before: float, weights: int, now: float) -> float | None:
        """Seconds until a class has been served so many tokens by weight, where tenants of these weights wait in it."""
        if not self._count or not self._work or not self._seconds or not self.slots:
            return None
        if not before:
            return 0.0
        rate = self._rate()
        known = min(before * weights / (rate * self._share(priority)), self._all() / rate)
        lean = _LEAN * self._work / self._count / rate
        pace = self._paces[priority]
        if self.lines[priority].entries:
            pace.advance(now)
        else:
            pace.begin(now)
        return before * (pace.time + lean) / (pace.served + lean * before / known)

    def _all(self) -> int:
        """What all that waits costs."""
        return sum([line.work for line in self.lines])

    def _rate(self) -> float:
        """Tokens a second of all slots."""
        return self.slots * self.slot_rate

    @property
    def slot_rate(self) -> float:
        """What one slot makes in a second, in tokens; 0: nobody knows."""
        return self._work / self._seconds if self._seconds else 0.0

    def _share(self, priority: Priority) -> float:
        """Of a class, were all to wait on that wait now."""
        classes = zip(self._weights, self.lines, Priority, strict=True)
        return self._weights[priority] / sum([weight for weight, line, other in classes if line.entries or other is priority])
