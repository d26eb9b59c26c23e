"""Wilson's score interval of a share (E. B. Wilson, JASA 22, 1927): honest for few trials and for shares near 0."""

from __future__ import annotations

from math import sqrt

Z = 1.96
"""95 % in the middle, 97.5 % on one side."""


def interval(share: float, trials: float, z: float = Z) -> tuple[float, float]:
    """Lower and upper bound. `trials` may be an effective number; without any, everything is possible."""
    if trials <= 0:
        return 0.0, 1.0
    square = z * z
    middle = share + square / (2 * trials)
    spread = z * sqrt(share * (1 - share) / trials + square / (4 * trials * trials))
    scale = 1 + square / trials
    return max(0.0, (middle - spread) / scale), min(1.0, (middle + spread) / scale)
