"""The arithmetic of the report: percentiles, and comparisons round by round."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from bench.records import Round, Tail


@dataclass(frozen=True, slots=True)
class Spread:
    """A figure over the rounds."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, figures: Sequence[float]) -> Spread | None:
        return cls(statistics.median(figures), min(figures), max(figures)) if figures else None


def percentile(figures: Sequence[float], share: float) -> float:
    """The least of the figures that so large a share of them does not exceed."""
    ordered = sorted(figures)
    return ordered[max(0, math.ceil(len(ordered) * share) - 1)]


def tail(figures: Sequence[float]) -> Tail:
    return Tail(percentile(figures, 0.5), percentile(figures, 0.99))


def values(rounds: Sequence[Round], get: Callable[[Round], float | None]) -> list[float]:
    return [figure for one in rounds if (figure := get(one)) is not None]


def ratios(theirs: Sequence[Round], ours: Sequence[Round], get: Callable[[Round], float | None]) -> list[float]:
    """Theirs over ours, in each round that has both: the machine's mood is the same for the two."""
    return [their / our for their, our in _pairs(theirs, ours, get) if our > 0]


def added(theirs: Sequence[Round], direct: Sequence[Round], get: Callable[[Round], float | None]) -> list[float]:
    """Theirs less the direct way's, in each round that has both."""
    return [their - way for their, way in _pairs(theirs, direct, get)]


def _pairs(ones: Sequence[Round], others: Sequence[Round], get: Callable[[Round], float | None]) -> Iterator[tuple[float, float]]:
    for one, other in zip(ones, others, strict=False):
        first, second = get(one), get(other)
        if first is not None and second is not None:
            yield first, second
