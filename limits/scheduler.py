"""The waiting line in front of one pool: who is next, who may wait, and for how long.

Rules of this file
- No clock, no event loop: time is an argument. `limits.slots` joins it to both.
- Among classes: weighted shares (stride scheduling). The head of a class of weight w is dispatched after at most
  the sum over the other classes of (their weight // w + 1) other dispatches, so none starves and none is idle
  while it has work. Ties go to the more urgent class. Within a class, see `limits.line`.
- An entry ends exactly once: dispatched, expired, cancelled or pushed out. Ending takes it out at once; only its
  deadline may linger, and of such leftovers there are never more than of live entries and 64.
- Bounds hold at every moment. Room beyond a tenant's share is borrowed. When there is no room,
    an ask of a tenant within its share takes back borrowed room from its own class and less urgent ones, then
    pushes out the newest entries of less urgent classes, the least urgent first;
    an ask of a tenant beyond its share pushes out only that tenant's own, less urgent ones.
  If that would not be enough, nobody is pushed out and the ask is refused.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator

from limits.drain import Drain
from limits.line import Entry, Line, Load, State, Waiter
from limits.types import Priority, QueueBounds, QueueFull, QueueTimeout, SlotAsk

_LEFTOVERS = 64


class Queue:
    """The order of one pool's waiting asks."""

    def __init__(self, bounds: QueueBounds) -> None:
        self._max_wait = bounds.max_wait
        self._bound = Load(bounds.max_requests, bounds.max_bytes, bounds.max_tokens)
        share = bounds.tenant_share
        self._share = Load(
            max(1, int(bounds.max_requests * share)), int(bounds.max_bytes * share), int(bounds.max_tokens * share)
        )
        common = math.lcm(*bounds.weights)
        self._lines = [Line(common // weight) for weight in bounds.weights]
        self._virtual = 0
        self._seq = 0
        self._tenants: dict[str, Load] = {}
        self._borrowers: dict[str, None] = {}
        self._deadlines: list[tuple[float, int, Entry]] = []
        self._drain = Drain()
        self.load = Load()

    def __len__(self) -> int:
        return self.load.requests

    def depth(self, priority: Priority) -> int:
        return self._lines[priority].load.requests

    def push(self, ask: SlotAsk, waiter: Waiter, now: float) -> tuple[Entry, list[Entry]]:
        """Wait in line. Returns the entry and those that it pushed out; QueueFull or QueueTimeout if it may not."""
        deadline = min(now + self._max_wait[ask.priority], ask.deadline)  # in this order a NaN does not win
        if deadline <= now:
            raise QueueTimeout(0.0)
        victims = self._make_room(ask, now)
        if not self.load.requests:
            self._drain.begin(now)
        self._seq += 1
        entry = Entry(ask, waiter, self._seq, now, deadline)
        self._count(ask)
        self._lines[entry.priority].add(entry, self._virtual)
        heapq.heappush(self._deadlines, (deadline, entry.seq, entry))
        return entry, victims

    def head(self) -> Entry | None:
        """Who is next."""
        best = None
        for line in self._lines:
            if line.entries and (best is None or line.tag < best.tag):
                best = line
        return best.head() if best else None

    def dispatch(self, entry: Entry, now: float) -> None:
        """The head gets a slot."""
        self._virtual = self._lines[entry.priority].charge(entry)
        self._drain.note(now)
        self._ended(entry, State.DISPATCHED, now)

    def cancel(self, entry: Entry, now: float) -> None:
        """Its waiter is gone. Nothing happens to an entry that has ended."""
        if entry.state is State.WAITING:
            self._lines[entry.priority].remove(entry)
            self._ended(entry, State.CANCELLED, now)

    def timeout(self, entry: Entry, now: float) -> None:
        self._lines[entry.priority].remove(entry)
        self._ended(entry, State.EXPIRED, now)
        entry.failure = QueueTimeout(entry.waited)

    def expire(self, now: float) -> list[Entry]:
        """End all whose deadline has come."""
        expired = []
        while (deadline := self.next_deadline()) is not None and deadline <= now:
            entry = self._deadlines[0][2]
            self.timeout(entry, now)
            expired.append(entry)
        return expired

    def next_deadline(self) -> float | None:
        heap = self._deadlines
        while heap and not _live(heap[0]):
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def raise_priority(self, entry: Entry, priority: Priority, now: float) -> None:
        """Go to the end of its tenant's line in a more urgent class. The wait allowed to it never gets shorter."""
        if entry.state is not State.WAITING or priority >= entry.priority:
            return
        self._lines[entry.priority].remove(entry)
        entry.priority = priority
        self._lines[priority].add(entry, self._virtual)
        deadline = min(now + self._max_wait[priority], entry.ask.deadline)
        if deadline > entry.deadline:
            entry.deadline = deadline
            heapq.heappush(self._deadlines, (deadline, entry.seq, entry))

    def _count(self, ask: SlotAsk) -> None:
        self.load.add(ask)
        held = self._tenants.setdefault(ask.tenant, Load())
        held.add(ask)
        if not held.within(self._share):
            self._borrowers[ask.tenant] = None

    def _ended(self, entry: Entry, state: State, now: float) -> None:
        entry.state = state
        entry.waited = max(0.0, now - entry.enqueued)
        tenant = entry.ask.tenant
        held = self._tenants[tenant]
        held.remove(entry.ask)
        self.load.remove(entry.ask)
        if held.within(self._share):
            self._borrowers.pop(tenant, None)
        if not held.requests:
            del self._tenants[tenant]
        if len(self._deadlines) > 2 * self.load.requests + _LEFTOVERS:
            self._deadlines = [item for item in self._deadlines if _live(item)]
            heapq.heapify(self._deadlines)

    def _make_room(self, ask: SlotAsk, now: float) -> list[Entry]:
        """Push out as few as needed, or refuse and leave everything as it is."""
        load = self.load.copy()
        load.add(ask)
        if load.within(self._bound):
            return []
        held = self._tenants.get(ask.tenant, Load()).copy()
        held.add(ask)
        beyond = not held.within(self._share)
        retry_after = self._drain.wait(self.load.requests, now)
        victims = self._victims(ask, load, beyond=beyond)
        others = any(tenant != ask.tenant for tenant in self._tenants)
        if not victims:
            raise QueueFull(tenant=beyond and others, retry_after=retry_after)
        for entry, borrowed in victims.items():
            self._lines[entry.priority].remove(entry)
            self._ended(entry, State.PUSHED_OUT, now)
            entry.failure = QueueFull(tenant=borrowed and others, retry_after=retry_after)
        return list(victims)

    def _victims(self, ask: SlotAsk, load: Load, *, beyond: bool) -> dict[Entry, bool]:
        """Whom to push out, and whether their room was borrowed; nobody if all who may go would not be enough."""
        victims: dict[Entry, bool] = {}
        if Load(1, ask.size, ask.tokens).within(self._bound):
            for entry, borrowed in self._own(ask) if beyond else self._others(ask):
                if entry not in victims:
                    victims[entry] = borrowed
                    load.remove(entry.ask)
                    if load.within(self._bound):
                        return victims
        return {}

    def _own(self, ask: SlotAsk) -> Iterator[tuple[Entry, bool]]:
        """What a tenant beyond its share may push out."""
        for line in self._lines[: ask.priority : -1]:
            for entry in line.newest_of(ask.tenant):
                yield entry, True

    def _others(self, ask: SlotAsk) -> Iterator[tuple[Entry, bool]]:
        """What a tenant within its share may push out, and whether it was borrowed room; some come up twice."""
        for tenant in self._borrowers:
            held = self._tenants[tenant].copy()
            for line in self._lines[: ask.priority - 1 if ask.priority else None : -1]:
                for entry in line.newest_of(tenant):
                    if held.within(self._share):
                        break
                    held.remove(entry.ask)
                    yield entry, True
        for line in self._lines[: ask.priority : -1]:
            for entry in line.newest():
                yield entry, False


def _live(item: tuple[float, int, Entry]) -> bool:
    deadline, _, entry = item
    return entry.state is State.WAITING and entry.deadline == deadline
