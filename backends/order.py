"""The replicas of a large pool that may be given a request, in order of their load, so that nobody has to look at all of them.

A row for each that is on offer and not full: its load first, then how fast it is, then a number of its own that makes rows
differ. A lease that begins or ends moves one row, by bisection. Rows stand in bands of about the same speed, because a cost is
divided by that; where all are alike there is one band.

Who is on offer changes seldom: then a pool makes a new order, at the next choice.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Collection, Iterable, Sequence
from math import inf, log
from typing import Protocol

from backends.replica import Replica

_BANDS = 8  # in a factor of e: speeds of one band differ by an eighth at most. Speeds are bounded, so there are 23 bands at most
_POINTS = 4096  # whose homes are remembered; each can be found anew
_HOMES = 3  # of each, in case the first is full

Row = tuple[float, float, int]
May = Callable[[Replica], bool]


class Ranks(Protocol):
    """See `balance.rendezvous`."""

    def home(self, replicas: Iterable[Replica], point: int) -> Replica | None: ...

    def highest(self, replicas: Sequence[Replica], point: int, count: int) -> list[Replica]: ...


class Order:
    """`load`: of one of them, in whatever unit."""

    __slots__ = ("_bands", "_homes", "_load", "_members", "_numbers", "_rows", "_waits", "by_name")

    def __init__(self, replicas: Sequence[Replica], load: Callable[[Replica], float]) -> None:
        self._load = load
        self._members = replicas
        self._numbers = {replica: number for number, replica in enumerate(replicas)}
        self._rows: dict[Replica, tuple[Row, int, int]] = {}  # as they stand: the row, its band, tokens that wait there
        self._waits: list[int] = []
        self._homes: dict[int, list[Replica]] = {}
        self._bands: dict[int, list[Row]] = {}
        self.by_name = {replica.name: replica for replica in replicas}
        for replica in replicas:
            replica.order = self
            if replica.inflight < replica.slots:
                self._rows[replica] = self._row(replica)
        for row, band, waiting in sorted(self._rows.values()):
            self._bands.setdefault(band, []).append(row)
            insort(self._waits, waiting)

    def __contains__(self, replica: Replica) -> bool:
        """It is on offer, and not full."""
        return replica in self._rows

    def moved(self, replica: Replica) -> None:
        """Something that its row follows from has changed."""
        if replica not in self._numbers:
            return
        before = self._rows.get(replica)
        now = self._row(replica) if replica.inflight < replica.slots else None
        if now == before:
            return
        if before is None or now is None or now[2] != before[2]:
            waits = self._waits
            if before is not None:
                del waits[bisect_left(waits, before[2])]
            if now is not None:
                insort(waits, now[2])
        if before is not None:
            rows = self._bands[before[1]]
            del rows[bisect_left(rows, before[0])]
            if not rows:
                del self._bands[before[1]]
        if now is None:
            del self._rows[replica]
        else:
            insort(self._bands.setdefault(now[1], []), now[0])
            self._rows[replica] = now

    def _row(self, replica: Replica) -> tuple[Row, int, int]:
        speed = replica.speed
        band = 0 if speed == 1.0 else round(_BANDS * log(speed))
        return (self._load(replica), -speed, self._numbers[replica]), band, replica.pending + replica.others_pending

    def heads(self, may: May, random: Callable[[], float]) -> list[Replica]:
        """Of each band the one with the least load that may have it; of those alike one at random."""
        found = [self._head(rows, may, random) for rows in self._bands.values()]
        return [replica for replica in found if replica is not None]

    def _head(self, rows: list[Row], may: May, random: Callable[[], float]) -> Replica | None:
        members, start = self._members, 0
        while start < len(rows):
            load, slowness, _ = rows[start]
            end = bisect_right(rows, (load, slowness, inf), start)
            alike = end - start
            first = int(random() * alike) if alike > 1 else 0
            for step in range(alike):
                replica = members[rows[start + (first + step) % alike][2]]
                if may(replica):
                    return replica
            start = end
        return None

    def least_waiting(self, passed: Collection[Replica]) -> int:
        """Tokens that wait at the one where the fewest do, but for those."""
        if not passed:
            return self._waits[0]
        head = self._waits[: len(passed) + 1]
        for replica in passed:
            row = self._rows.get(replica)
            if row is not None and row[2] in head:
                head.remove(row[2])
        return head[0] if head else 0

    def home(self, ranks: Ranks, point: int, may: May) -> Replica | None:
        """The point's home among those that may have it. Looked for once, then remembered."""
        homes = self._homes.get(point)
        if homes is None:
            if len(self._homes) >= _POINTS:
                self._homes.clear()
            homes = self._homes[point] = ranks.highest(self._members, point, _HOMES)
        for replica in homes:
            if replica in self._rows and may(replica):
                return replica
        return ranks.home((replica for replica in self._rows if may(replica)), point)
