"""The waiting line in front of one pool: who is next, who may wait, and for how long.

Rules of this file
- No clock, no event loop: time is an argument. `limits.slots` joins it to both.
- Among classes: weighted shares of the tokens served (fair queueing by finish times). Before the head of a class of weight
  w, which costs c, any other class gets at most c * (its weight) / w tokens and one request more, so none starves, and none
  is idle while it has work. Ties go to the more urgent class. Within a class, see `limits.line`.
- Or strict: the most urgent class that waits. The oldest of a class counts as one class more urgent for each
  `promote_after` that it has waited. Where several classes are equally urgent by that, the oldest of all goes.
- Costs are those that are predicted when a slot is given. `settle` corrects them.
- An entry ends exactly once: dispatched, expired, cancelled or pushed out. Ending takes it out at once; only its
  deadline may linger, and of such leftovers there are never more than of live entries and 64.
- Bounds hold at every moment. Each class has a part of them, by weight, and one request at least. Room beyond a tenant's share
  is borrowed. When there is no room,
    an ask of a tenant within its share takes back borrowed room, then what classes hold beyond their parts, see `limits.room`;
    an ask of a tenant beyond its share pushes out only that tenant's own, less urgent ones.
  If that would not be enough, nobody is pushed out and the ask is refused.
- A request whose tokens alone are beyond the bound counts as all of it: it may wait while no other tokens do.
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Collection, Iterator, Sequence

from limits.drain import Drain, spread
from limits.entry import DISPATCHED, Entry, Load, State, Waiter
from limits.line import Line
from limits.outlook import Outlook
from limits.room import Room, parts
from limits.shelf import reach
from limits.waiting import Order, Priority, QueueBounds, QueueFull, QueueTimeout, ReservedStanding, SlotAsk, WaitTooLong

_LEFTOVERS = 64
_BLAME = 1.25
"""Who has so many times its part of what waits in its class has itself to blame."""
_FIRST_COME = Order()


class Queue:
    """The order of one pool's waiting asks. `rng`: when those who are refused are to come back."""

    def __init__(self, bounds: QueueBounds, order: Order = _FIRST_COME, rng: random.Random | None = None) -> None:
        self._order = order
        self._max_wait = bounds.max_wait
        self._bound = Load(bounds.max_requests, bounds.max_bytes, bounds.max_tokens)
        share = bounds.tenant_share
        self._share = Load(
            max(1, int(bounds.max_requests * share)), int(bounds.max_bytes * share), int(bounds.max_tokens * share)
        )
        common = math.lcm(*bounds.weights)
        furthest = reach(order.per_token, order.cap)
        self._lines = [Line(common // weight, furthest) for weight in bounds.weights]
        self._room = Room(self._lines, parts(self._bound, bounds.weights), self._share)
        self._refuse_early = bounds.refuse_early
        self.outlook = Outlook(self._lines, bounds.weights, order.promote_after)
        self._last = self._lines[0].account
        self._seq = 0
        self._tenants: dict[str, Load] = {}
        self._borrowers: dict[str, None] = {}
        self._deadlines: list[tuple[float, int, Entry]] = []
        self._drain = Drain()
        self._rng = rng or random.Random()
        self.load = Load()

    def __len__(self) -> int:
        return self.load.requests

    def depth(self, priority: Priority) -> int:
        return self._lines[priority].load.requests

    def push(self, ask: SlotAsk, waiter: Waiter, now: float, *, early: bool = True) -> tuple[Entry, list[Entry]]:
        """Wait in line. Returns the entry and those that it pushed out; QueueFull or QueueTimeout if it may not.

        `early`: who would wait too long is refused.
        """
        self._cap(ask)
        deadline = self.until(ask, now)
        if deadline <= now:
            raise QueueTimeout(0.0, self.come_back(ask, now))
        refusal = self.too_long(ask, now) if early else None
        if refusal is not None:
            try:
                raise refusal
            finally:
                del refusal  # it refers to this frame
        victims = self._make_room(ask, now)
        if not self.load.requests:
            self._drain.begin(now)
        self._seq += 1
        entry = Entry(ask, waiter, self._seq, now, deadline)
        if ask.since is not None:
            entry.since = min(ask.since, now)
        self._count(ask)
        self.outlook.joins(entry.priority, now)
        self._join(entry)
        heapq.heappush(self._deadlines, (deadline, entry.seq, entry))
        return entry, victims

    def take(self, ask: SlotAsk, now: float) -> Entry:
        """A slot is free and nobody waits: it has it at once."""
        self._seq += 1
        entry = Entry(ask, None, self._seq, now, ask.deadline)
        line = self._lines[ask.priority]
        line.pass_by(entry, self._last.counter)
        self._last = line.account
        entry.state = DISPATCHED
        return entry

    def head(self, now: float) -> Entry | None:
        """Who is next."""
        if not self.load.requests:
            return None
        if self._order.promote_after is not None:
            return self._most_urgent(now, self._order.promote_after)
        best, due = None, math.inf
        for line in self._lines:
            if line.entries:
                head = line.head()
                ends = line.due(head)
                if ends < due:
                    best, due = head, ends
        return best

    def dispatch(self, entry: Entry, now: float) -> None:
        """The head gets a slot."""
        line = self._lines[entry.priority]
        self.outlook.serves(entry.priority, entry.cost, now)
        line.serve(entry)
        self._drain.note(now)
        self._ended(entry, State.DISPATCHED, now)

    def resize(self, capacity: int) -> None:
        """So many slots there are; the order does not depend on it."""
        self.outlook.slots = capacity

    def adopt(self, tenant: str, now: float) -> Entry | None:  # noqa: ARG002 - for orders that it means something to
        """A request of this tenant runs that another process gave a slot to. What is to be settled at its end, if anything."""
        return None

    def reserved(self, now: float) -> Sequence[ReservedStanding]:  # noqa: ARG002 - as above
        """Where the reserved shares stand."""
        return ()

    def settle(self, entry: Entry, cost: int, tokens: int | None = None) -> None:  # noqa: ARG002 - as above
        """It has left its slot, and this is what it really cost; to be said once of each that was dispatched.

        `tokens`: the same, in plain ones; None: as was thought.
        """
        self._lines[entry.priority].correct(entry, cost)

    def give_back(self, entry: Entry) -> None:
        """As settle, of one that gave its slot up."""
        self._lines[entry.priority].give_back(entry)

    def urgent(self, priority: Priority) -> bool:
        """Whether anybody more urgent waits."""
        return any(line.entries for line in self._lines[:priority])

    def room(self, ask: SlotAsk) -> bool:
        """Whether it may wait without pushing anybody out."""
        self._cap(ask)
        load = self.load.copy()
        load.add(ask)
        return load.within(self._bound)

    def _cap(self, ask: SlotAsk) -> None:
        """What a client names may be more than all that may wait; but where nothing may, nothing does."""
        if ask.tokens > self._bound.tokens > 0:
            ask.tokens = self._bound.tokens

    def cancel(self, entry: Entry, now: float) -> None:
        """Its waiter is gone. Nothing happens to an entry that has ended."""
        if entry.state is State.WAITING:
            self._lines[entry.priority].remove(entry)
            self._ended(entry, State.CANCELLED, now)

    def timeout(self, entry: Entry, now: float) -> None:
        self._lines[entry.priority].remove(entry)
        self._ended(entry, State.EXPIRED, now)
        self.outlook.late()
        entry.failure = QueueTimeout(entry.waited, self.come_back(entry.ask, now))

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
        entry.priority, entry.since = priority, now
        self.outlook.joins(entry.priority, now)
        self._join(entry)
        deadline = min(now + self._max_wait[priority], entry.ask.deadline)
        if deadline > entry.deadline:
            entry.deadline = deadline
            heapq.heappush(self._deadlines, (deadline, entry.seq, entry))

    def _join(self, entry: Entry) -> None:
        entry.key = entry.since + self._put_back(entry.ask)
        self._lines[entry.priority].add(entry, self._floor())

    def _put_back(self, ask: SlotAsk) -> float:
        """Seconds."""
        return self._order.per_token * min(ask.output, self._order.cap)

    def until(self, ask: SlotAsk, now: float) -> float:
        """When its wait ends, at the latest, if it joined now."""
        return min(now + self._max_wait[ask.priority], ask.deadline)  # in this order a NaN does not win

    def patience(self, ask: SlotAsk, now: float) -> float:
        """Seconds that who asks now may wait, and wants to: where others may join its wait may last longer."""
        return min(self.until(ask, now), ask.leaves) - now

    def expected(self, ask: SlotAsk, now: float) -> float | None:
        """Seconds that it would wait if it joined now; None: nobody knows."""
        put_back, came = self._put_back(ask), now if ask.since is None else min(ask.since, now)
        return self.outlook.wait(ask, came + put_back, put_back, now)

    def too_long(self, ask: SlotAsk, now: float) -> WaitTooLong | None:
        """The refusal of one that would wait longer than it may. Not of the only one to wait, nor of who gave up a slot."""
        if not self._refuse_early or not self.load.requests or ask.since is not None:
            return None
        expected, most = self.expected(ask, now), self.patience(ask, now)
        late = 0.0 if expected is None else expected * self._margin(ask) - most
        if expected is None or late <= 0:
            return None
        line, weight = self._lines[ask.priority], max(1, ask.weight)
        to_blame = line.work_of(ask.tenant) * line.weight_of(ask) > _BLAME * line.work * weight
        return WaitTooLong(tenant=to_blame, retry_after=spread(late, self._rng), expected=expected, most=most)

    def come_back(self, ask: SlotAsk, now: float) -> float:
        """In how many seconds who gets no slot had better ask again: when such a request would have one; not the same for all.

        Where nobody knows when that is: when all have left that wait now.
        """
        expected = self.expected(ask, now)
        if expected is None:
            return spread(self._drain.wait(self.load.requests, now), self._rng)
        return spread(expected * self._margin(ask), self._rng)

    def _margin(self, ask: SlotAsk) -> float:
        """By how much its expected wait may be too short. Who is put back is late first, so it is refused first."""
        furthest = self._order.per_token * self._order.cap
        return 1 + self.outlook.margin * (0.1 + 0.9 * self._put_back(ask) / furthest if furthest else 1)

    def _floor(self) -> float:
        """What a class is lifted to that begins to wait: the least that any has that does, or the last one that did."""
        return min((line.account.counter for line in self._lines if line.entries), default=self._last.counter)

    def _most_urgent(self, now: float, promote_after: float) -> Entry:
        """Of a class, either its head or, where age decides, its oldest."""
        waiting = [(priority, line) for priority, line in zip(Priority, self._lines, strict=True) if line.entries]
        ranks = [max(0.0, priority - max(0.0, now - line.oldest().since) // promote_after) for priority, line in waiting]
        best = [(priority, line) for (priority, line), rank in zip(waiting, ranks, strict=True) if rank == min(ranks)]
        if len(best) == 1 and best[0][0] == min(ranks):
            return best[0][1].head()
        return min((line.oldest() for _, line in best), key=lambda entry: (entry.since, entry.seq))

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
        if not self.load.requests:
            self._last = self._lines[entry.priority].account
        if held.within(self._share):
            self._borrowers.pop(tenant, None)
        if not held.requests:
            del self._tenants[tenant]
        if len(self._deadlines) > 2 * self.load.requests + _LEFTOVERS:
            self._deadlines = [item for item in self._deadlines if _live(item)]
            heapq.heapify(self._deadlines)

    def refusal(self, ask: SlotAsk, now: float) -> QueueFull | None:
        """Why it may not join now. Nothing changes."""
        try:
            self._in_the_way(ask, now)
        except QueueFull as full:
            return self.too_long(ask, now) or full
        return self.too_long(ask, now)

    def _make_room(self, ask: SlotAsk, now: float) -> list[Entry]:
        """Push out as few as needed, or refuse and leave everything as it is."""
        victims, others = self._in_the_way(ask, now), any(tenant != ask.tenant for tenant in self._tenants)
        for entry, borrowed in victims.items():
            self._lines[entry.priority].remove(entry)
            self._ended(entry, State.PUSHED_OUT, now)
            entry.failure = self._full(entry.ask, now, tenant=borrowed and others)
        return list(victims)

    def _in_the_way(self, ask: SlotAsk, now: float) -> dict[Entry, bool]:
        """Whom to push out for it, as few as needed, and whether their room was borrowed; QueueFull if that is not to be."""
        load = self.load.copy()
        load.add(ask)
        if load.within(self._bound):
            return {}
        held = self._tenants.get(ask.tenant, Load()).copy()
        held.add(ask)
        beyond = not held.within(self._share)
        victims = self._victims(ask, load, beyond=beyond)
        if not victims:
            others = any(tenant != ask.tenant for tenant in self._tenants)
            raise self._full(ask, now, tenant=beyond and others)
        return victims

    def _full(self, ask: SlotAsk, now: float, *, tenant: bool) -> QueueFull:
        """A tenant's share has room as its own requests go. Where the whole queue is full, even who would be next finds none."""
        seconds = self.come_back(ask, now)
        if not tenant:
            seconds = max(seconds, spread(self._drain.wait(self.load.requests, now), self._rng))
        return QueueFull(tenant=tenant, retry_after=seconds)

    def _victims(self, ask: SlotAsk, load: Load, *, beyond: bool) -> dict[Entry, bool]:
        """Whom to push out, and whether their room was borrowed; nobody if all who may go would not be enough."""
        victims: dict[Entry, bool] = {}
        if Load(1, ask.size, ask.tokens).within(self._bound):
            for entry, borrowed in self._candidates(ask, beyond=beyond):
                if entry not in victims:
                    victims[entry] = borrowed
                    load.remove(entry.ask)
                    if load.within(self._bound):
                        return victims
        return {}

    def _candidates(self, ask: SlotAsk, *, beyond: bool) -> Iterator[tuple[Entry, bool]]:
        """Who may go, in this order, and whether their room was borrowed."""
        return self._own(ask) if beyond else self._others(ask)

    def _own(self, ask: SlotAsk) -> Iterator[tuple[Entry, bool]]:
        """What a tenant beyond its share may push out."""
        for line in self._lines[: ask.priority : -1]:
            for entry in line.newest_of(ask.tenant):
                yield entry, True

    def _others(self, ask: SlotAsk) -> Iterator[tuple[Entry, bool]]:
        """What a tenant within its share may push out."""
        borrowers = {tenant: self._tenants[tenant] for tenant in self._borrowers}
        return self._room.candidates(ask, borrowers, self._kept(ask))

    def _kept(self, ask: SlotAsk) -> Collection[Entry]:  # noqa: ARG002 - for orders that it means something to
        """Those that this one does not push out in any case."""
        return ()


def _live(item: tuple[float, int, Entry]) -> bool:
    deadline, _, entry = item
    return entry.state is State.WAITING and entry.deadline == deadline
