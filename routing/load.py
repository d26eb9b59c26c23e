"""What the load of the pools makes of a choice by score. Both tiers are finite, and text alone does not know it.

Rules
- Spill: where the wait for the tier that was chosen is longer than it should be, what is nearest its cut goes one tier down. How
  much: nothing at the wait that is meant, the whole `band` at twice that, so that the work that moves grows with the wait
  and does not swing between all and nothing. The band is a share of what lately was to go up (`Recent`): a distance in score
  would be all of one classifier's work and nothing of another's.
- Borrow: where a tier has no free slot and the wait for it is too long, its work goes one tier up, while more than `idle` of the
  slots there are free. Work that nobody can rate does too; it never spills, since nobody knows that it is near the cut.
- What is above the band never goes down, whatever the wait.
- A move is made only to a tier that is better off itself. Where nobody knows the wait, or what lately went up, nothing spills;
  where nobody knows anything, nothing moves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

Move = Literal["spilled", "borrowed"]


class PoolLoad(NamedTuple):
    """A pool just now. `wait`: seconds until a newcomer of this request's class would have a slot; None: nobody knows."""

    ready: bool
    free: int
    slots: int
    wait: float | None


Look = Callable[[str], PoolLoad | None]
"""By the name of a model; None: nothing is known of it, or what was known is too old."""


class LoadRules(NamedTuple):
    """`wait`: seconds that are meant, by tier, and `others` for tiers that are not in it. Without a `band` nothing spills, with
    `idle` of 1 nothing is borrowed.
    """

    band: float = 0.0
    idle: float = 1.0
    others: float = 1.0
    wait: Mapping[str, float] = {}

    def meant(self, tier: str) -> float:
        return self.wait.get(tier, self.others)


OFF = LoadRules()


Near = Callable[[str, float], float | None]
"""The score below which so large a share is of the work that was to go to a tier of late; None: nobody knows."""


def nobody_near(_tier: str, _share: float) -> None:
    """The `Near` of who has seen nothing."""


def unknown(_model: str) -> None:
    """The `Look` of who knows nothing."""


def moved(
    tier: str,
    score: float | None,
    tiers: Sequence[str],
    look: Callable[[str], PoolLoad | None],
    rules: LoadRules,
    near: Near,
    *,
    settled: bool = False,
) -> tuple[str, Move] | None:
    """Another tier for this score (None: nobody can rate it), and why; None: it stays.

    `tiers` are those that may be, from cheap to dear, and `look` is by tier. `settled`: its conversation is on this tier already,
    with what has been read of it, and so it does not spill.
    """
    if not rules.band and rules.idle >= 1:
        return None
    here = look(tier)
    if here is None or not here.ready:
        return None
    meant = rules.meant(tier)
    if here.wait is not None and here.wait <= meant:
        return None
    place = tiers.index(tier)
    if place and score is not None and not settled and rules.band and here.wait is not None:
        below = tiers[place - 1]
        most = near(tier, reach(here.wait, meant, rules.band))
        if most is not None and score < most and _easier(look(below), rules.meant(below)):
            return below, "spilled"
    if place + 1 < len(tiers) and rules.idle < 1 and here.free <= 0:
        above = tiers[place + 1]
        other = look(above)
        if other is not None and other.ready and other.free > rules.idle * other.slots:
            return above, "borrowed"
    return None


def reach(wait: float, meant: float, band: float) -> float:
    """The share of a tier's work that is taken for near its cut, at such a wait."""
    if wait <= meant:
        return 0.0
    return band * min(1.0, wait / meant - 1.0) if meant > 0 else band


def _easier(pool: PoolLoad | None, meant: float) -> bool:
    return pool is not None and pool.ready and (pool.free > 0 or (pool.wait is not None and pool.wait <= meant))
