"""Who has to make room in a full queue for an ask of a tenant within its share.

Rules of this file
- Borrowed room goes first, whichever class it is in: the least urgent class first, of a class the newest first, and of no tenant
  more than it holds beyond its share.
- Then what classes hold beyond their parts, the least urgent first, the newest first. An ask within its class's part, or the only
  one of its class, takes it from every class; another one from those that are less urgent.
- A class's last request counts as within its part, however large it is, but against an ask that is within its own.
- So who is within its class's part has room, as long as the parts together are no more than the bound.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator, Mapping, Sequence

from limits.entry import Entry, Load
from limits.line import Line
from limits.waiting import SlotAsk


class Room:
    """Of one queue. `parts` are the classes', `share` is what a tenant may hold while others want room."""

    def __init__(self, lines: Sequence[Line], parts: Sequence[Load], share: Load) -> None:
        self._lines = lines
        self.parts = parts
        self._share = share

    def candidates(self, ask: SlotAsk, borrowers: Mapping[str, Load], kept: Collection[Entry]) -> Iterator[tuple[Entry, bool]]:
        """Who may go, in this order, and whether that room was borrowed.

        `borrowers`: what the tenants beyond their shares hold. `kept`: those that nobody pushes out, and no class is charged for.
        """
        gone: set[Entry] = set()
        for entry in self._borrowed(borrowers, kept):
            gone.add(entry)
            yield entry, True
        for entry in self._beyond(ask, kept, gone):
            yield entry, False

    def _borrowed(self, borrowers: Mapping[str, Load], kept: Collection[Entry]) -> Iterator[Entry]:
        held = {tenant: load.copy() for tenant, load in borrowers.items()}
        for line in reversed(self._lines):
            for entry in heapq.merge(*[line.newest_of(tenant) for tenant in held], key=_newest):
                load = held[entry.ask.tenant]
                if entry not in kept and not load.within(self._share):
                    load.remove(entry.ask)
                    yield entry

    def _beyond(self, ask: SlotAsk, kept: Collection[Entry], gone: Collection[Entry]) -> Iterator[Entry]:
        loads = [line.load.copy() for line in self._lines]
        for entry in (*kept, *gone):
            loads[entry.priority].remove(entry.ask)
        mine, part = loads[ask.priority], self.parts[ask.priority]
        mine.add(ask)
        inside = mine.within(part)
        of_all = inside or mine.requests <= min(1, part.requests)
        for priority in range(len(loads) - 1, -1 if of_all else ask.priority, -1):
            if priority == ask.priority:
                continue
            load, part = loads[priority], self.parts[priority]
            for entry in self._lines[priority].newest():
                if load.within(part) or (not inside and load.requests <= min(1, part.requests)):
                    break
                if entry not in kept and entry not in gone:
                    load.remove(entry.ask)
                    yield entry


def parts(bound: Load, weights: Sequence[int]) -> list[Load]:
    """Of a bound, by weight: together no more than all of it, and a request for each class, the most urgent first."""
    total, more = sum(weights), bound.requests - len(weights)
    return [
        Load(
            1 + more * weight // total if more >= 0 else int(place < bound.requests),
            bound.bytes * weight // total,
            bound.tokens * weight // total,
        )
        for place, weight in enumerate(weights)
    ]


def _newest(entry: Entry) -> float:
    return -entry.since
