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


@dataclass(frozen=True, slots=True)
class Trend:
    """How much a figure grows for each step of another, with the standard error of that."""

    slope: float
    error: float

    @classmethod
    def of(cls, points: Sequence[tuple[float, float]], blocks: int = 12) -> Trend:
        """By least squares over the means of so many blocks of neighbours, as figures that are near each other are alike.

        Raises ValueError where there are fewer than three blocks.
        """
        each = max(1, len(points) // blocks)
        grouped = [points[at : at + each] for at in range(0, len(points) - each + 1, each)]
        means = [(statistics.fmean(x for x, _ in group), statistics.fmean(y for _, y in group)) for group in grouped]
        if len(means) < 3:
            raise ValueError("a trend needs three blocks of points")
        middle, height = (statistics.fmean(axis) for axis in zip(*means, strict=True))
        spread = sum((x - middle) ** 2 for x, _ in means)
        slope = sum((x - middle) * (y - height) for x, y in means) / spread
        left = sum((y - height - slope * (x - middle)) ** 2 for x, y in means)
        return cls(slope, math.sqrt(left / (len(means) - 2) / spread))


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
