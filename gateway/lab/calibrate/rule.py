"""Whether the new policy takes over from the one in force.

Two of them are measured on the same held-out requests: one that is trained anew, and one that keeps the order of the one that
ships and is only calibrated anew. The first that passes takes over. What counts is its order (APGR, which a share for the large
tier buys) and what it says (the squared error of both probabilities, which a floor of quality rests on). It is surely better in
one of them if it is in 95 of 100 draws of a paired bootstrap. To pass:

    its order is surely better, and what it says not surely worse; or
    what it says is surely better, and its order is better in 75 of 100 draws, or not worse in more than half of them where it is
    the one that ships: who changes an order has to show something for it.

An order below chance takes over from none that is better.

Labels by agreement alone count only where most answers agree. Elsewhere both tiers are often wrong, each in its own way: what
differs is then the request that neither can do, and a policy that learns it sends those to the large tier for nothing. On
public outcomes it moved the APGR by -.12 to +.03 with 40 to 50 % agreeing, and by +.02 to +.05 with 73 % and more; AGREEING lies
between.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gateway.lab.calibrate.measure import Draws, Figures
from gateway.lab.routing.metrics import Floats

SURE = 0.95
CHANCE = 0.5
HALF = 0.5
LIKELY = 0.75
AGREEING = 0.6


@dataclass(frozen=True, slots=True)
class Ruling:
    """`order` and `truth`: in what share of the draws the new one is better; None where nobody can tell."""

    swap: bool
    why: str
    order: float | None
    truth: float | None


def rule(new: Figures, new_draws: Draws, old_draws: Draws, agreeing: float | None, *, reorders: bool) -> Ruling:
    """`agreeing`: of the labels by agreement, where these are most; else None. `reorders`: it is trained anew."""
    order = _share(new_draws.apgr - old_draws.apgr)
    truth = _share(old_draws.brier - new_draws.brier)
    if agreeing is not None and agreeing < AGREEING:
        why = f"only {agreeing:.0%} of the answers agree, which does not tell who is right: name a judge, or gather feedback"
        return Ruling(False, why, order, truth)
    if new.apgr.value is not None and new.apgr.value < CHANCE and order is not None and order < HALF:
        return Ruling(False, "its order is below chance", order, truth)
    if _sure(order) and not _sure_worse(truth):
        return Ruling(True, "its order is better", order, truth)
    if _sure(truth) and (order is None or order >= (LIKELY if reorders else HALF)):
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
