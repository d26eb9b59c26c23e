"""Slots that batch work was lent, and that a realtime request which has to wait may have back.

Rules of this file
- Lent is a slot that a batch request got while nothing more urgent waited. What it got in its turn is its class's share, and what
  it got on its tenant's reserved share is that tenant's: neither is ever taken back, so batch has its share in every window,
  whoever claims what.
- Nobody gives way twice, and nobody who holds that an answer is on its way: `order` asks the holder, who alone knows. True is a
  promise to leave the slot soon, or to say `keep`. False is for good.
- The newest goes first, and nobody who has run for longer than `within`, or through half of the time that it had: the more was
  done for a request, the more is thrown away with it.
- One order at a time for each claimant, none that would free nothing for it: it has to be a realtime request's turn, and there
  has to be no slot too many in use.
"""

from __future__ import annotations

from collections.abc import Callable

from limits.entry import Entry, State
from limits.scheduler import Queue
from limits.waiting import GiveWay, Priority, SlotAsk


class Lent:
    """The lent slots of one pool, the newest last."""

    __slots__ = ("_holders", "_orders", "_queue", "_rules")

    def __init__(self, queue: Queue, rules: GiveWay) -> None:
        self._queue = queue
        self._rules = rules
        self._holders: dict[Entry, Callable[[], bool]] = {}
        self._orders: dict[Entry, Entry] = {}  # who was told to give way, and for whom

    def lend(self, entry: Entry, order: Callable[[], bool]) -> bool:
        """`entry` has got a slot; False: it is its own."""
        lent = entry.lent and entry.priority is Priority.BATCH and entry.ask.since is None and not entry.ask.hasty
        if lent:
            self._holders[entry] = order
        return lent

    def keep(self, entry: Entry) -> Entry | None:
        """It does not give way. Who had claimed its slot, if anybody."""
        self._holders.pop(entry, None)
        return self._orders.pop(entry, None)

    def may_serve(self, ask: SlotAsk) -> bool:
        """Whether it is worth asking: it may claim a slot, there are some, and it waits without pushing anybody out."""
        return ask.priority is Priority.REALTIME and bool(self._holders) and self._queue.room(ask)

    def claimed(self, claimant: Entry) -> bool:
        """Whether somebody gives way to it."""
        return any(other is claimant for other in self._orders.values())

    def left(self, entry: Entry) -> bool:
        """It has left its slot: was it told to?"""
        self._holders.pop(entry, None)
        return self._orders.pop(entry, None) is not None

    def claim(self, claimant: Entry, now: float, beyond: int) -> None:
        """It waits; if it is realtime, somebody is told to give way to it. `beyond`: slots in use above those that there are."""
        if claimant.priority is not Priority.REALTIME or claimant.state is not State.WAITING or not self._holders:
            return
        orders = len(self._orders)
        head = self._queue.head(now)
        if beyond > orders or orders >= self._queue.depth(Priority.REALTIME) or head is None:
            return
        if head.priority is Priority.REALTIME:
            self._order(claimant, now)

    def _order(self, claimant: Entry, now: float) -> None:
        for entry, order in reversed(list(self._holders.items())):
            if now - (entry.enqueued + entry.waited) > self._rules.within:
                return  # and so have all before it
            if entry in self._orders or not self._can_wait(entry, now):
                continue
            self._orders[entry] = claimant
            if order():
                return
            self.keep(entry)

    def _can_wait(self, entry: Entry, now: float) -> bool:
        ask = entry.ask
        return ask.deadline - now > now - entry.since and (not self._rules.requeue or self._queue.room(ask))
