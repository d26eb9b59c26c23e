"""Thresholds do not travel: what share goes to the strong model where a threshold was tuned elsewhere."""

from __future__ import annotations

import numpy as np

from gateway.lab.routing.metrics import Floats, Side, placed

TUNED = 0.3  # the share that a threshold is tuned to


def threshold(scores: Floats, share: float = TUNED, default: Side = "large") -> float:
    """A score from which on about that share lies, "don't know" included."""
    return float(np.quantile(placed(scores, default), 1 - share, method="higher"))


def share(scores: Floats, cut: float, default: Side = "large") -> float:
    """The share that a threshold sends to the strong model."""
    return float((placed(scores, default) >= cut).mean())
