"""Wilson's score interval of a share: it stays inside 0..1 and is honest with few samples, where the usual one is neither.

E. B. Wilson, "Probable inference, the law of succession, and statistical inference", JASA 22 (1927).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

Z95 = 1.959964  # two-sided 95 %; its upper end alone is passed in one case of forty


@dataclass(frozen=True, slots=True)
class Share:
    """`hits` of `of`. The point is None where there is nothing to count."""

    hits: int
    of: int

    @property
    def point(self) -> float | None:
        return self.hits / self.of if self.of else None

    @property
    def interval(self) -> tuple[float, float]:
        return wilson(self.hits, self.of)


def wilson(hits: int, of: int, z: float = Z95) -> tuple[float, float]:
    """Where the true share is, after `hits` of `of`. Of nothing at all one knows nothing: (0, 1)."""
    if not 0 <= hits <= of:
        raise ValueError(f"{hits} of {of} is no share")
    if not of:
        return 0.0, 1.0
    share = hits / of
    squared = z * z
    middle = (share + squared / (2 * of)) / (1 + squared / of)
    reach = z * sqrt(share * (1 - share) / of + squared / (4 * of * of)) / (1 + squared / of)
    # Rounding must not move the ends that are exact.
    return 0.0 if hits == 0 else max(0.0, middle - reach), 1.0 if hits == of else min(1.0, middle + reach)
