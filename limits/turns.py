"""The waiting requests of one tenant in one class, and which of them is next.

Rules of this file
- Each has a place that never changes while it waits: when it came, and so much later for each output token that it is
  thought to make, up to a cap. So a request overtakes only those that came at most `per_token * (cap - least)` before it,
  and with `per_token = 0` none. The order does not go stale, so a heap keeps it.
- Those whose clients named a deadline share their places: whenever one of them is next, it is the one whose deadline comes
  first. The others' places are as if nobody had named one.
- Adding is O(log n), and so is finding the head, over time. A removed entry is gone at once; of what it leaves in the heaps
  there is never more than of live entries and 64.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict

from limits.entry import Entry, insert
from limits.shelf import Shelf

_LEFTOVERS = 64
_Place = tuple[float, int, int, Entry]


class Turns:
    """`entries` are in the order of their coming. `work` is what they cost; `reach`: how far one may be put back, in seconds."""

    __slots__ = ("_hasty", "_places", "entries", "work")

    def __init__(self, reach: float) -> None:
        self.entries: OrderedDict[Entry, None] = OrderedDict()
        self.work = Shelf(reach)
        self._places: list[_Place] = []
        self._hasty: list[_Place] = []

    def add(self, entry: Entry) -> None:
        """Its `key` and `turn` are set."""
        if entry.ask.since is None:
            self.entries[entry] = None
        else:
            insert(self.entries, entry)
        self.work.put(entry.key, entry.cost)
        heapq.heappush(self._places, _place(entry))
        if entry.ask.hasty:
            heapq.heappush(self._hasty, _due(entry))

    def remove(self, entry: Entry) -> None:
        """It has left without being served; its place is nobody's."""
        del self.entries[entry]
        self.work.take(entry.key, entry.cost)
        if not self.entries or len(self._places) > 2 * len(self.entries) + _LEFTOVERS:
            self._sweep()

    def serve(self, entry: Entry) -> None:
        """Who was next by its place, and let a nearer deadline go first, gets the place of that one."""
        first = self._first()
        if first is not entry and first.ask.hasty and entry.ask.hasty:
            self.work.take(first.key, first.cost)
            first.key, first.turn = entry.key, entry.turn
            self.work.put(first.key, first.cost)
            heapq.heappush(self._places, _place(first))
        self.remove(entry)

    def head(self) -> Entry:
        """Who is next; there must be one."""
        first = self._first()
        if not first.ask.hasty:
            return first
        heap = self._hasty
        while heap[0][3] not in self.entries:
            heapq.heappop(heap)
        return heap[0][3]

    def _first(self) -> Entry:
        heap = self._places
        while not self._stands(heap[0]):
            heapq.heappop(heap)
        return heap[0][3]

    def _stands(self, place: _Place) -> bool:
        _, turn, _, entry = place
        return entry.turn == turn and entry in self.entries

    def _sweep(self) -> None:
        self._places = [_place(entry) for entry in self.entries]
        self._hasty = [_due(entry) for entry in self.entries if entry.ask.hasty]
        heapq.heapify(self._places)
        heapq.heapify(self._hasty)


def _place(entry: Entry) -> _Place:
    """`seq` tells it from the one that had this place before."""
    return entry.key, entry.turn, entry.seq, entry


def _due(entry: Entry) -> _Place:
    return entry.ask.due, entry.turn, entry.seq, entry
