"""The entries of one class that wait, and whose turn it is among its tenants.

Rules of this file
- Among tenants: the one that was served least for its weight, in tokens; see `limits.account`. One that waits for nothing
  is not counted; when it comes back it is lifted to the least that any has who waits, and where nobody waits, to what the
  last one had that did.
- Within a tenant: see `limits.turns`.
- Finding the head is O(log n) over time, finding the newest or the oldest O(1), and a removed entry is gone at once.
- Of tenants that wait for nothing, those alone are remembered that would lose by being forgotten: what they had is above
  the lift, or something of theirs still runs.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Iterator

from limits.account import Account
from limits.entry import Entry, Load, insert
from limits.turns import Turns
from limits.waiting import SlotAsk

_LEFTOVERS = 64
_MOST_AWAY = 10_000


class _Tenant:
    __slots__ = ("account", "order", "turns", "weight")

    def __init__(self, account: Account, order: int, weight: int, reach: float) -> None:
        self.account = account
        self.order = order
        self.weight = weight
        self.turns = Turns(reach)


class Line:
    """One class. `account` is what it was served of all that the classes share, `weights` those of its tenants that wait.

    `reach`: how far a request may be put back, in seconds.
    """

    __slots__ = (
        "_away", "_heap", "_last", "_order", "_reach", "_stride", "_sweep_at", "_tenants", "account", "entries", "load",
        "weights", "work",
    )  # fmt: skip

    def __init__(self, stride: int, reach: float = 0.0) -> None:
        self.weights = 0
        self.work = 0  # what its entries cost
        self._reach = reach
        self.entries: OrderedDict[Entry, None] = OrderedDict()
        self.load = Load()
        self.account = Account()
        self._stride = stride
        self._tenants: dict[str, _Tenant] = {}
        self._away: dict[str, Account] = {}
        self._sweep_at = _LEFTOVERS
        self._heap: list[tuple[float, int, _Tenant]] = []
        self._order = 0
        self._last = Account()  # of the tenant that was the last to wait

    def add(self, entry: Entry, floor: float) -> None:
        """Its `key` is set."""
        if not self.entries:
            self.account.lift(floor)
        if entry.ask.since is None:
            self.entries[entry] = None
        else:
            insert(self.entries, entry)
        self.load.add(entry.ask)
        self.work += entry.cost
        self._order += 1
        entry.turn = self._order
        name = entry.ask.tenant
        tenant = self._tenants.get(name)
        if tenant is None:
            account = self._away.pop(name, None) or Account()
            account.lift(self._least())
            tenant = self._tenants[name] = _Tenant(account, self._order, max(1, entry.ask.weight), self._reach)
            self.weights += tenant.weight
            self._place(tenant)
        tenant.turns.add(entry)

    def remove(self, entry: Entry) -> None:
        """It has left without being served."""
        self._leave(entry).turns.remove(entry)
        self._forget_if_empty(entry.ask.tenant)

    def head(self) -> Entry:
        """The next to serve; the line must not be empty."""
        return self._next().turns.head()

    def head_of(self, tenant: str) -> Entry | None:
        """The next of one tenant."""
        found = self._tenants.get(tenant)
        return found.turns.head() if found else None

    def due(self, entry: Entry) -> float:
        """Where the class will stand when its head has been served: the class that this is least for goes first."""
        return self.account.counter + entry.cost * self._stride

    def oldest(self) -> Entry:
        return next(iter(self.entries))

    def serve(self, entry: Entry) -> None:
        """It gets a slot: take it out, and charge for it."""
        tenant = self._leave(entry)
        tenant.turns.serve(entry)
        self._charge(entry, tenant.account)
        self._place(tenant)
        self._forget_if_empty(entry.ask.tenant)

    def hand_over(self, entry: Entry) -> None:
        """It gets a slot that is not of those which are shared: take it out, and charge nothing."""
        tenant = self._leave(entry)
        tenant.turns.serve(entry)
        self._forget_if_empty(entry.ask.tenant)

    def pass_by(self, entry: Entry, floor: float) -> None:
        """As add and serve, where nobody waits. So it is for most requests, and the accounts are charged in place."""
        own, last, ask = self.account, self._last, entry.ask
        if own.counter < floor:
            own.lift(floor)
        account = self._away.get(ask.tenant)
        if account is None:
            account = self._away[ask.tenant] = Account()
        if account.counter < last.counter:
            account.lift(last.counter)
        entry.account, entry.lifts, entry.line_lifts = account, account.lifts, own.lifts
        own.counter += entry.cost * self._stride
        own.running += 1
        account.counter += entry.cost / (ask.weight if ask.weight > 1 else 1)
        account.running += 1
        self._last = account
        if len(self._away) > self._sweep_at:
            self._sweep()

    def correct(self, entry: Entry, cost: int) -> None:
        """What it really cost, once."""
        by, own, account, weight = cost - entry.cost, self.account, entry.account, entry.ask.weight
        if entry.line_lifts == own.lifts and entry.lifts == account.lifts:  # as of most: nobody was lifted meanwhile
            own.running -= 1
            own.counter += by * self._stride
            account.running -= 1
            account.counter += by / (weight if weight > 1 else 1)
        else:
            own.correct(by * self._stride, entry.line_lifts)
            account.correct(by / (weight if weight > 1 else 1), entry.lifts)
        if self._tenants:
            tenant = self._tenants.get(entry.ask.tenant)
            if tenant is not None:
                self._place(tenant)

    def give_back(self, entry: Entry) -> None:
        """It gave its slot up. Its tenant has had nothing of it; its class was lent that slot, and has no claim to another."""
        self.account.correct(0, entry.line_lifts)
        entry.account.correct(-entry.cost / max(1, entry.ask.weight), entry.lifts)
        tenant = self._tenants.get(entry.ask.tenant)
        if tenant is not None:
            self._place(tenant)

    def before(self, ask: SlotAsk, key: float) -> float:
        """Tokens by weight by which a request that joined now would be behind who is next: what its tenant was served more than
        that one, and what stands before it in its tenant's own line.
        """
        if not self._tenants:
            return 0.0
        tenant, weight = self._tenants.get(ask.tenant), max(1, ask.weight)
        account = self.account_of(ask.tenant)
        ahead = 0.0 if account is None else max(0.0, account.counter - self._least())
        return ahead if tenant is None else ahead + tenant.turns.work.before(key) / weight

    def weight_of(self, ask: SlotAsk) -> int:
        """Those of the tenants that would wait if this request joined."""
        return self.weights if ask.tenant in self._tenants else self.weights + max(1, ask.weight)

    def accounts(self) -> Iterator[tuple[str, int, Account]]:
        """Tenants that wait, run or are remembered: how many requests of each wait, and what it was served."""
        for name, tenant in self._tenants.items():
            yield name, len(tenant.turns.entries), tenant.account
        for name, account in self._away.items():
            yield name, 0, account

    def account_of(self, tenant: str) -> Account | None:
        known = self._tenants.get(tenant)
        return self._away.get(tenant) if known is None else known.account

    def waiting_of(self, tenant: str) -> int:
        known = self._tenants.get(tenant)
        return 0 if known is None else len(known.turns.entries)

    @property
    def least(self) -> float:
        """What the tenant was served that is next, or was the last to be."""
        return self._least()

    def work_of(self, tenant: str) -> int:
        """What a tenant's waiting requests cost."""
        known = self._tenants.get(tenant)
        return 0 if known is None else known.turns.work.total

    def newest(self) -> Iterator[Entry]:
        return reversed(self.entries)

    def newest_of(self, tenant: str) -> Iterator[Entry]:
        found = self._tenants.get(tenant)
        return reversed(found.turns.entries) if found else iter(())

    def _charge(self, entry: Entry, account: Account) -> None:
        entry.account, entry.lifts, entry.line_lifts = account, account.lifts, self.account.lifts
        self.account.charge(entry.cost * self._stride)
        account.charge(entry.cost / max(1, entry.ask.weight))

    def _leave(self, entry: Entry) -> _Tenant:
        del self.entries[entry]
        self.load.remove(entry.ask)
        self.work -= entry.cost
        return self._tenants[entry.ask.tenant]

    def _forget_if_empty(self, name: str) -> None:
        tenant = self._tenants[name]
        if not tenant.turns.entries:
            del self._tenants[name]
            self.weights -= tenant.weight
            self._away[name] = tenant.account
            if not self._tenants:
                self._last = tenant.account
                self._heap.clear()
            if len(self._away) > self._sweep_at:
                self._sweep()

    def _least(self) -> float:
        return self._next().account.counter if self._tenants else self._last.counter

    def _next(self) -> _Tenant:
        heap = self._heap
        while not self._stands(heap[0]):
            heapq.heappop(heap)
        return heap[0][2]

    def _place(self, tenant: _Tenant) -> None:
        heapq.heappush(self._heap, (tenant.account.counter, tenant.order, tenant))
        if len(self._heap) > 2 * len(self._tenants) + _LEFTOVERS:
            self._heap = [(other.account.counter, other.order, other) for other in self._tenants.values()]
            heapq.heapify(self._heap)

    def _stands(self, place: tuple[float, int, _Tenant]) -> bool:
        counter, _, tenant = place
        return counter == tenant.account.counter and bool(tenant.turns.entries)

    def _sweep(self) -> None:
        """Forget those that lose nothing by it; worth a look once more are away than `_sweep_at`."""
        floor = self._least()
        kept = {name: account for name, account in self._away.items() if account.running or account.counter > floor}
        if len(kept) > _MOST_AWAY:
            kept = {name: account for name, account in kept.items() if account.running}
        self._away = kept
        self._sweep_at = 2 * len(kept) + _LEFTOVERS
