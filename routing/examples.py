"""From how like its tiers' examples a text is to a score.

Each tier is as like as its nearest example. Tiers stand evenly on the scale from 0 (the cheapest) to 1, and the score is their
mean place, each weighted by exp(likeness / SOFTNESS): a clear nearest tier is its own place, two that are as near share.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from routing.types import Verdict

SOFTNESS = 0.05


def verdict(likeness: Mapping[str, float], order: Sequence[str], least: float) -> Verdict:
    """`likeness`: of the nearest example of each tier, -1 to 1. "Don't know" where none is as like as `least`."""
    told = [(tier, likeness[tier]) for tier in order if tier in likeness]
    nearest = max((like for _, like in told), default=-1.0)
    terms = tuple((f"like {tier}", like) for tier, like in sorted(told, key=lambda pair: -pair[1]))
    if len(told) < 2 or nearest < least:
        return Verdict(None, None, terms)
    weights = [math.exp((like - nearest) / SOFTNESS) for _, like in told]
    score = sum(weight * place for place, weight in enumerate(weights)) / sum(weights) / (len(told) - 1)
    return Verdict(min(1.0, max(0.0, score)), None, terms)
