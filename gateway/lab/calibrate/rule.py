"""Whether the new policy takes over from the one in force.

It must be better in one of two ways and not worse in the other, on the same held-out requests: in its order (APGR, which a share
for the large tier buys), or in what it says (the squared error of both probabilities, which a floor of quality rests on). Better
and worse mean: in 95 of 100 draws of a paired bootstrap. And its order must not be below chance.

Labels by agreement alone count only where most answers agree. Elsewhere both tiers are often wrong, each in its own way: what
differs is then the request that neither can do, and a policy that learns it sends those to the large tier for nothing. On public
outcomes that made the order worse with 40 to 50 % agreeing, and not with 73 % and more; AGREEING lies between.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gateway.lab.calibrate.measure import Draws, Figures
from gateway.lab.routing.metrics import Floats

SURE = 0.95
CHANCE = 0.5
AGREEING = 0.6


@dataclass(frozen=True, slots=True)
class Ruling:
    """`order` and `truth`: in what share of the draws the new one is better; None where nobody can tell."""

    swap: bool
    why: str
    order: float | None
    truth: float | None


def rule(new: Figures, new_draws: Draws, old_draws: Draws, agreeing: float | None) -> Ruling:
    """`agreeing`: of the labels by agreement, where these are most; else None."""
    order = _share(new_draws.apgr - old_draws.apgr)
    truth = _share(old_draws.brier - new_draws.brier)
    if agreeing is not None and agreeing < AGREEING:
        why = f"only {agreeing:.0%} of the answers agree, which does not tell who is right: name a judge, or gather feedback"
        return Ruling(False, why, order, truth)
    if new.apgr.value is not None and new.apgr.value < CHANCE:
        return Ruling(False, "its order is below chance", order, truth)
    if _sure(order) and not _sure_worse(truth):
        return Ruling(True, "its order is better", order, truth)
    if _sure(truth) and not _sure_worse(order):
        return Ruling(True, "its probabilities are truer", order, truth)
    return Ruling(False, "it is not surely better", order, truth)


def _share(gain: Floats) -> float | None:
    """Draws in which both are the same count half."""
    known = gain[~np.isnan(gain)]
    return None if not len(known) else float((known > 0).mean() + (known == 0).mean() / 2)


def _sure(share: float | None) -> bool:
    return share is not None and share >= SURE


def _sure_worse(share: float | None) -> bool:
    return share is not None and share <= 1 - SURE
