"""How fast a queue empties, measured, so that a refusal can say when to come back."""

from __future__ import annotations

import random

_WINDOW = 10.0
_LEAST, _MOST = 1.0, 60.0
_SPREAD, _LEAST_SPREAD = 0.5, 4.0


class Drain:
    """Dispatches in the running window and in the one before, weighted as one sliding window of ten seconds."""

    __slots__ = ("_before", "_count", "_start")

    def __init__(self) -> None:
        self._start = 0.0
        self._before: int | None = None
        self._count = 0

    def begin(self, now: float) -> None:
        """A queue forms. What was measured long ago says nothing about it."""
        if now - self._start >= _WINDOW:
            self._start, self._before, self._count = now, None, 0

    def note(self, now: float) -> None:
        """One left the queue for a slot."""
        self._roll(now)
        self._count += 1

    def wait(self, depth: int, now: float) -> float:
        """Seconds until so many have left: 1 to 60, and 1 while nothing has been measured."""
        self._roll(now)
        age = max(now - self._start, 0.0)
        if self._before is None:
            rate = self._count / max(age, 1.0)
            return min(max(depth / rate, _LEAST), _MOST) if rate else _LEAST
        rate = (self._before * (1 - age / _WINDOW) + self._count) / _WINDOW
        return min(max(depth / rate, _LEAST), _MOST) if rate else _MOST

    def _roll(self, now: float) -> None:
        age = now - self._start
        if age >= _WINDOW:
            self._before = self._count if age < 2 * _WINDOW else 0
            self._count = 0
            self._start = now - age % _WINDOW


def spread(seconds: float, rng: random.Random) -> float:
    """When one of many is to come back who all could after so many seconds: then or later, by chance; 1 to 60 s.

    Half as long again, and some seconds at least: many clients count whole ones.
    """
    soonest = min(max(seconds, _LEAST), _MOST / (1 + _SPREAD))
    return soonest + rng.random() * max(_SPREAD * soonest, _LEAST_SPREAD)
