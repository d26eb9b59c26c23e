"""What every cut on the cosine would do, and how much can be served at a bound on errors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

BOUNDS = (0.005, 0.01, 0.02, 0.05)
MAX_POINTS = 200


@dataclass(frozen=True, slots=True)
class Point:
    """Everything with a cosine of at least `cut` is served."""

    cut: float
    served: int  # of the wanted
    wrong: int

    @property
    def error(self) -> float:
        """The share of the served that is wrong."""
        return self.wrong / (self.served + self.wrong)


@dataclass(frozen=True, slots=True)
class Curve:
    name: str
    wanted: int
    traps: int
    points: tuple[Point, ...]  # from the highest cut down

    def recall(self, point: Point) -> float:
        return point.served / self.wanted if self.wanted else 0.0

    def widest(self, bound: float) -> Point | None:
        """The cut that serves most while no more than `bound` of what it serves is wrong. None: no cut does."""
        good = [point for point in self.points if point.error <= bound]
        return max(good, key=lambda point: point.served, default=None)

    def thinned(self) -> tuple[Point, ...]:
        """At most MAX_POINTS of them, the last one with them."""
        step = -(-len(self.points) // MAX_POINTS)
        return self.points if step <= 1 else (*self.points[:-1:step], self.points[-1])


def curve(name: str, scored: Iterable[tuple[float | None, bool]], wanted: int | None = None) -> Curve:
    """Of (cosine, right) pairs; the cosine is None where no cut would serve the pair. `wanted`: where not every one is there."""
    rows = list(scored)
    right = sum(same for _, same in rows)
    reachable = sorted(((cosine, same) for cosine, same in rows if cosine is not None), reverse=True)
    return Curve(name, right if wanted is None else wanted, len(rows) - right, tuple(_points(reachable)))


def _points(rows: Sequence[tuple[float, bool]]) -> list[Point]:
    """One a distinct cosine: what is equally similar is served together."""
    points: list[Point] = []
    served = wrong = 0
    for cosine, same in rows:
        served += same
        wrong += not same
        if points and points[-1].cut == cosine:
            points.pop()
        points.append(Point(cosine, served, wrong))
    return points
