"""HdrHistogram, typed. It is an extra of the distribution and has no types, so it is touched here only.

Values are seconds outside and microseconds inside, with three significant digits up to an hour; the mean and the longest
are exact. What is encoded can be read and added up by any HdrHistogram (V2, compressed, base64).
"""

from __future__ import annotations

import importlib
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
        """Seconds; within the histogram's precision, and never over the longest."""
        return min(self.longest, float(self._inner.get_value_at_percentile(percentile)) / 1e6)

    def summary(self) -> dict[str, float | int | None]:
        """Milliseconds; None where nothing was recorded."""
        if not self.count:
            return {"count": 0, "mean": None, **dict.fromkeys(POINTS), "max": None}
        points = {name: _ms(self.at(percentile)) for name, percentile in POINTS.items()}
        return {"count": self.count, "mean": _ms(self._sum / self.count), **points, "max": _ms(self.longest)}

    def curve(self) -> list[tuple[float, float]]:
        """Milliseconds and the share of values up to there, for a picture."""
        if not self.count:
            return []
        shares = [step / 1000 for step in range(1001)] + [0.9995, 0.9999]
        return [(self.at(share * 100) * 1e3, share) for share in sorted(shares)]

    def encoded(self) -> str:
        text: bytes = self._inner.encode()
        return text.decode("ascii")


def _ms(seconds: float) -> float:
    return round(seconds * 1e3, 3)
