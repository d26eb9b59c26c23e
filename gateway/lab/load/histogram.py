"""HdrHistogram, typed. It is an extra of the distribution and has no types, so it is touched here only.

Values are seconds outside and microseconds inside, with three significant digits up to an hour; the mean and the longest
are exact. What is encoded can be read and added up by any HdrHistogram (V2, compressed, base64).
"""

from __future__ import annotations

import importlib
import math
from typing import Any

HIGHEST = 3_600_000_000
DIGITS = 3
POINTS = {"p50": 50.0, "p90": 90.0, "p95": 95.0, "p99": 99.0, "p99_9": 99.9}


class Histogram:
    """Raises ImportError when hdrhistogram is not installed."""

    def __init__(self) -> None:
        self._inner: Any = importlib.import_module("hdrh.histogram").HdrHistogram(1, HIGHEST, DIGITS)
        self._sum = 0.0
        self.count = 0
        self.longest = 0.0

    def record(self, seconds: float, count: int = 1) -> None:
        """A negative value counts as none: clocks are read one after the other."""
        self._inner.record_value(min(HIGHEST, max(1, round(seconds * 1e6))), count)
        self._sum += max(0.0, seconds) * count
        self.count += count
        self.longest = max(self.longest, seconds)

    def at(self, percentile: float) -> float:
        """Seconds: the smallest value that so many percent do not exceed, within the precision. 0 of nothing."""
        return self._at([percentile])[0] if self.count else 0.0

    def summary(self) -> dict[str, float | int | None]:
        """Milliseconds; None where nothing was recorded."""
        if not self.count:
            return {"count": 0, "mean": None, **dict.fromkeys(POINTS), "max": None}
        points = zip(POINTS, map(_ms, self._at(list(POINTS.values()))), strict=True)
        return {"count": self.count, "mean": _ms(self._sum / self.count), **dict(points), "max": _ms(self.longest)}

    def curve(self) -> list[tuple[float, float]]:
        """Milliseconds and the share of values up to there, for a picture."""
        steps = self._inner.get_recorded_iterator() if self.count else ()
        return [(step.value_iterated_to / 1e3, step.total_count_to_this_value / self.count) for step in steps]

    def _at(self, percentiles: list[float]) -> list[float]:
        """All in one pass: each takes milliseconds. The library rounds a rank to the nearest, which would call the fifth of six
        values p90; so it is asked for the percentage that is exactly the rank above.
        """
        ranks = [100 * math.ceil(round(percentile * self.count / 100, 6)) / self.count for percentile in percentiles]
        found: dict[float, int] = self._inner.get_percentile_to_value_dict(ranks)
        return [min(self.longest, found[rank] / 1e6) for rank in ranks]

    def encoded(self) -> str:
        text: bytes = self._inner.encode()
        return text.decode("ascii")


def _ms(seconds: float) -> float:
    return round(seconds * 1e3, 3)
