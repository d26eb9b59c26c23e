"""What the process that hears `/admin/explain` has seen of a tenant's requests, for the one that explains.

Each worker has cuts and bands of its own, and the dispatcher, which answers, routes nothing. So the worker says, beside the
question, what it would go by itself: the cuts of the tenant's routes as they stand, and which scores lately were to go up a tier.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import msgspec

from routing.aims import Cut, Draw, Scope, Standing
from routing.load import Near
from routing.recent import place_of


class Line(msgspec.Struct, array_like=True, frozen=True):
    """A scope's cut for the next request: whether it is `low` or `high` its draw decides, as many are low as `part` says."""

    low: Cut
    high: Cut
    standing: Standing

    def cut(self, draw: Draw) -> Cut:
        part = self.standing.part
        return self.low if part >= 1.0 or (part > 0.0 and draw() < part) else self.high


class Sight(msgspec.Struct, array_like=True, frozen=True):
    """`lines` by route; `recent`: by route and tier, the scores that were to go there, in order."""

    lines: dict[str, Line]
    recent: dict[str, dict[str, list[float]]]

    def near(self, route: str) -> Near:
        return partial(_near, self.recent.get(route, {}))


def line_of(scope: Scope) -> Line:
    """As it stands. Changes nothing."""
    return Line(scope.cut(lambda: 0.0), scope.cut(lambda: 1.0), scope.standing())


def _near(recent: Mapping[str, Sequence[float]], tier: str, share: float) -> float | None:
    return place_of(recent.get(tier, ()), share)
