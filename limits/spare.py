"""Slots that nobody else wants: for work that no client waits for, and that is left undone where it would be in anybody's way.

Rules of this file
- At most a quarter of a pool's slots, `MOST` in all, and only where another one stays free: a pool of one slot has none for it,
  and where anybody waits there is none.
- Who has such a slot leaves it as soon as somebody waits for one, the newest first, one for each who waits, whatever has been
  done for it by then: `order` tells the holder, once, and there is no refusing but by being over already.
- It never waits. Entering raises QueueTimeout where there is no such slot.
"""

from __future__ import annotations

from collections.abc import Callable

MOST = 8
_SHARE = 4  # one slot in so many
_Order = Callable[[], bool]


class Spares:
    """Who holds such slots of one pool, the newest last."""

    __slots__ = ("_holders", "_told")

    def __init__(self) -> None:
        self._holders: dict[object, _Order | None] = {}
        self._told: set[object] = set()

    def __len__(self) -> int:
        return len(self._holders)

    def room(self, capacity: int, inflight: int) -> bool:
        return inflight + 1 < capacity and len(self._holders) < min(MOST, max(1, capacity // _SHARE))

    def take(self, holder: object) -> None:
        self._holders[holder] = None

    def lend(self, holder: object, order: _Order | None, waiting: int) -> None:
        """How to ask for the slot back from here on; None: it is about to be left. `waiting`: requests in line."""
        if holder in self._holders:
            self._holders[holder] = order
            self.recall(waiting)

    def recall(self, waiting: int) -> None:
        """So many wait for a slot."""
        for holder in reversed(list(self._holders)):
            if len(self._told) >= waiting:
                return
            order = self._holders[holder]
            if order is not None and holder not in self._told:
                self._told.add(holder)
                order()

    def left(self, holder: object) -> bool:
        """The slot is free; whether it was asked for."""
        self._holders.pop(holder, None)
        told = holder in self._told
        self._told.discard(holder)
        return told
