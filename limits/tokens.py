"""Tokens in flight: a second bound beside the slots, for a fleet whose memory may be short before its seats are.

Rules of this file
- A request counts its prompt and the answer that it is thought to get, from its slot to its end; but never more than the
  largest replica takes, so that whoever has the fleet for himself fits.
- Whoever is next in line and does not fit waits until he does, and nobody behind him goes first: else small requests would
  keep a large one out for ever.
"""

from __future__ import annotations

from limits.entry import Entry
from limits.scheduler import Queue
from limits.types import SlotAsk


class Tokens:
    """`inflight`: of those that have a slot."""

    __slots__ = ("_bound", "_largest", "inflight")

    counted = True

    def __init__(self) -> None:
        self._bound = self._largest = 0.0
        self.inflight = 0

    def bound(self, total: float, largest: float) -> None:
        """What the fleet takes, and what the largest replica does."""
        self._bound, self._largest = total, largest

    @property
    def used_up(self) -> bool:
        return self.inflight >= self._bound

    def fits(self, ask: SlotAsk) -> bool:
        return self.inflight + self._size(ask) <= self._bound

    def may_pass(self, ask: SlotAsk, queue: Queue) -> bool:
        """Whether a newcomer may have a free slot at once: he overtakes nobody, and fits."""
        return not queue.load.requests and self.fits(ask)

    def take(self, entry: Entry) -> None:
        entry.held = self._size(entry.ask)
        self.inflight += entry.held

    def give_back(self, entry: Entry) -> None:
        self.inflight -= entry.held
        entry.held = 0

    def add(self, tokens: int) -> None:
        """Of a request that came from elsewhere with its slot, and is nobody's entry."""
        self.inflight += tokens

    def _size(self, ask: SlotAsk) -> int:
        return int(min(ask.prompt + ask.output, self._largest))


class Uncounted:
    """No such bound."""

    __slots__ = ()

    counted = used_up = False
    inflight = 0

    def bound(self, total: float, largest: float) -> None: ...

    def fits(self, ask: SlotAsk) -> bool:  # noqa: ARG002 - as the others
        return True

    def may_pass(self, ask: SlotAsk, queue: Queue) -> bool:  # noqa: ARG002 - as above
        return True

    def take(self, entry: Entry) -> None: ...

    def give_back(self, entry: Entry) -> None: ...

    def add(self, tokens: int) -> None: ...


UNCOUNTED = Uncounted()
