"""How much work waits at which place of a tenant's line, so that what stands before a place is known without walking the line.

Places are looked at in steps of a 32nd of the furthest that a request is put back, and whoever joins now stands within that of
the line's end: so what is behind it is found in as many looks at most, and the rest is before it.
"""

from __future__ import annotations

import math

_STEPS = 32
_LEAST = 0.001  # seconds


class Shelf:
    """`reach`: how far a request may be put back, in seconds; 0: none is, and what joins stands behind all."""

    __slots__ = ("_steps", "_width", "total")

    def __init__(self, reach: float) -> None:
        self._width = reach / _STEPS
        self._steps: dict[int, int] = {}
        self.total = 0

    def put(self, place: float, work: int) -> None:
        self.total += work
        if self._width:
            step = int(place // self._width)
            self._steps[step] = self._steps.get(step, 0) + work

    def take(self, place: float, work: int) -> None:
        """What was put there."""
        self.total -= work
        if self._width:
            step = int(place // self._width)
            left = self._steps[step] - work
            if left:
                self._steps[step] = left
            else:
                del self._steps[step]

    def before(self, place: float) -> int:
        """Work whose turn comes before that of one who joins at this place; its own step counts as before it."""
        if not self._width or not self._steps:
            return self.total
        first = int(place // self._width) + 1
        get = self._steps.get
        return self.total - sum([get(step, 0) for step in range(first, first + _STEPS)])


def reach(per_token: float, cap: int) -> float:
    """How far a request may be put back. 0 where that is too little, or too much, to tell places apart by."""
    most = per_token * cap
    return most if _LEAST <= most < math.inf else 0.0
