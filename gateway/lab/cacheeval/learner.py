"""A cut that is learned from verified answers, as the cache learns it while it runs."""

from __future__ import annotations

from bisect import insort
from typing import Protocol

from gateway.lab.cacheeval.wilson import wilson


class Learner(Protocol):
    def cut(self) -> float:
        """Serve from this score on."""
        ...

    def learn(self, score: float, *, right: bool, weight: float) -> None:
        """`weight`: for how many answers this one speaks."""
        ...


class Widening:
    """Begins at a cut, and goes below it only as far as evidence carries.

    That is down to where the upper end of the Wilson interval of the wrong ones among all evidence is still at most `max_error`.
    """

    def __init__(self, start: float, max_error: float) -> None:
        self._start = self._cut = start
        self._max_error = max_error
        self._seen: list[tuple[float, bool]] = []

    def cut(self) -> float:
        return self._cut

    def learn(self, score: float, *, right: bool, weight: float) -> None:  # noqa: ARG002 - it counts each once, on the safe side
        insort(self._seen, (score, right))
        self._cut = min(self._start, self._lowest())

    def _lowest(self) -> float:
        lowest, wrong = self._start, 0
        for count, (score, right) in enumerate(reversed(self._seen), 1):
            wrong += not right
            last = count == len(self._seen) or self._seen[-count - 1][0] != score  # equals are served together
            if last and wilson(wrong, count)[1] <= self._max_error:
                lowest = score
        return lowest
