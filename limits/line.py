"""The entries of one class that wait, and whose turn it is among its tenants.

Rules of this file
- Within a tenant: first come, first served. Among tenants: turns; a tenant of weight w is served up to w times, then
  goes to the end. One that runs empty leaves, and comes back at the end.
- Adding, removing, and finding the head or the newest are O(1), and a removed entry is gone at once.
- The order among tenants is behind `add`, `remove`, `head` and `charge`: another order, one that counts tokens,
  can take its place.
"""

from __future__ import annotations

import enum
from collections import OrderedDict
from collections.abc import Iterator
from typing import Protocol

from limits.types import Priority, QueueFull, QueueTimeout, SlotAsk


class State(enum.Enum):
    """WAITING is left once, for one of the others."""

    WAITING = enum.auto()
    DISPATCHED = enum.auto()
    EXPIRED = enum.auto()
    CANCELLED = enum.auto()
    PUSHED_OUT = enum.auto()


class Waiter(Protocol):
    """Who is told when the entry's wait ends. A future is one; the order itself never looks at it."""

    def done(self) -> bool: ...

    def set_result(self, result: None, /) -> None: ...


class Entry:
    """One ask that waits. `failure` is what to raise if it ended without a slot, `waited` how long it took."""

    __slots__ = ("ask", "deadline", "enqueued", "failure", "priority", "seq", "state", "waited", "waiter")

    def __init__(self, ask: SlotAsk, waiter: Waiter, seq: int, now: float, deadline: float) -> None:
        self.ask = ask
        self.waiter = waiter
        self.seq = seq
        self.enqueued = now
        self.deadline = deadline
        self.priority: Priority = ask.priority
        self.state = State.WAITING
        self.failure: QueueFull | QueueTimeout | None = None
        self.waited = 0.0


class Load:
    """What a set of asks takes up."""

    __slots__ = ("bytes", "requests", "tokens")

    def __init__(self, requests: int = 0, size: int = 0, tokens: int = 0) -> None:
        self.requests = requests
        self.bytes = size
        self.tokens = tokens

    def add(self, ask: SlotAsk) -> None:
        self.requests += 1
        self.bytes += ask.size
        self.tokens += ask.tokens

    def remove(self, ask: SlotAsk) -> None:
        self.requests -= 1
        self.bytes -= ask.size
        self.tokens -= ask.tokens

    def copy(self) -> Load:
        return Load(self.requests, self.bytes, self.tokens)

    def within(self, bound: Load) -> bool:
        return self.requests <= bound.requests and self.bytes <= bound.bytes and self.tokens <= bound.tokens


class _Tenant:
    __slots__ = ("entries", "left")

    def __init__(self, weight: int) -> None:
        self.entries: OrderedDict[Entry, None] = OrderedDict()
        self.left = weight


class Line:
    """One class. `tag` is when its head is due in the virtual time that the classes share."""

    __slots__ = ("_stride", "_tenants", "entries", "load", "tag")

    def __init__(self, stride: int) -> None:
        self.entries: OrderedDict[Entry, None] = OrderedDict()
        self.load = Load()
        self.tag = 0
        self._stride = stride
        self._tenants: OrderedDict[str, _Tenant] = OrderedDict()

    def add(self, entry: Entry, virtual: int) -> None:
        if not self.entries:
            # Counted from the pool's last dispatch: being away earns nothing, and entries that gave up cost nothing.
            self.tag = virtual + self._stride
        self.entries[entry] = None
        self.load.add(entry.ask)
        tenant = self._tenants.get(entry.ask.tenant)
        if tenant is None:
            tenant = self._tenants[entry.ask.tenant] = _Tenant(max(1, entry.ask.weight))
        tenant.entries[entry] = None

    def remove(self, entry: Entry) -> None:
        del self.entries[entry]
        self.load.remove(entry.ask)
        name = entry.ask.tenant
        tenant = self._tenants[name]
        del tenant.entries[entry]
        if not tenant.entries:
            del self._tenants[name]

    def head(self) -> Entry:
        """The next to serve; the line must not be empty."""
        return next(iter(next(iter(self._tenants.values())).entries))

    def charge(self, entry: Entry) -> int:
        """The head is served: take it out and move on; returns the virtual time of its dispatch."""
        name = entry.ask.tenant
        tenant = self._tenants[name]
        self.remove(entry)
        tenant.left -= 1
        if tenant.entries and tenant.left < 1:
            tenant.left = max(1, entry.ask.weight)
            self._tenants.move_to_end(name)
        due = self.tag
        self.tag += self._stride
        return due

    def newest(self) -> Iterator[Entry]:
        return reversed(self.entries)

    def newest_of(self, tenant: str) -> Iterator[Entry]:
        found = self._tenants.get(tenant)
        return reversed(found.entries) if found else iter(())
