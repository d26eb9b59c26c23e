"""The scores that were lately to go to a tier: what is near its cut, and what is far above it, of the traffic as it is."""

from __future__ import annotations

from array import array
from bisect import bisect_left, insort
from collections.abc import Sequence

SIZE = 128
LEAST = 16


class Recent:
    """The last SIZE of them."""

    __slots__ = ("_ordered", "_place", "_ring")

    def __init__(self) -> None:
        self._ring = array("d")
        self._ordered = array("d")
        self._place = 0

    def add(self, score: float) -> None:
        ring, ordered, place = self._ring, self._ordered, self._place
        if place == len(ring):
            ring.append(score)
        else:
            del ordered[bisect_left(ordered, ring[place])]
            ring[place] = score
        insort(ordered, score)
        self._place = (place + 1) % SIZE

    def near(self, share: float) -> float | None:
        """The score below which that share of them is; None: there are fewer than LEAST."""
        return place_of(self._ordered, share)

    def scores(self) -> list[float]:
        """All of them, in order."""
        return list(self._ordered)


def place_of(ordered: Sequence[float], share: float) -> float | None:
    size = len(ordered)
    return None if size < LEAST else ordered[min(int(share * size), size - 1)]
