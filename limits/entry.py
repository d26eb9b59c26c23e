"""One ask that waits, or runs, and what a set of them takes up."""

from __future__ import annotations

import enum
from collections import OrderedDict
from collections.abc import Hashable
from itertools import takewhile
from typing import Protocol

from limits.account import Account
from limits.waiting import Priority, QueueFull, QueueTimeout, SlotAsk


class State(enum.Enum):
    """WAITING is left once, for one of the others."""

    WAITING = enum.auto()
    DISPATCHED = enum.auto()
    EXPIRED = enum.auto()
    CANCELLED = enum.auto()
    PUSHED_OUT = enum.auto()


WAITING, DISPATCHED = State.WAITING, State.DISPATCHED  # an enum member costs a look-up in its class each time


class Waiter(Protocol):
    """Who is told when the entry's wait ends. A future is one; the order itself never looks at it."""

    def done(self) -> bool: ...

    def set_result(self, result: None, /) -> None: ...


class Entry:
    """One ask. `failure` is what to raise if it ended without a slot, `waited` how long it took.

    `since`, `key` and `turn` are its place in the line: when it joined it, the order there, and what breaks ties.
    `place` is where it fitted, and its tokens, from getting a slot to being there, where places are counted.
    `cost` is what it was charged for, on `account`, when that had been lifted `lifts` times; `line_lifts` likewise.
    """

    __slots__ = (
        "account",
        "ask",
        "cost",
        "deadline",
        "enqueued",
        "failure",
        "key",
        "lent",
        "lifts",
        "line_lifts",
        "place",
        "priority",
        "seq",
        "since",
        "state",
        "turn",
        "waited",
        "waiter",
    )

    account: Account  # once it is charged, and so are these
    lifts: int
    line_lifts: int
    key: float  # while it waits, and so is this
    turn: int

    def __init__(self, ask: SlotAsk, waiter: Waiter | None, seq: int, now: float, deadline: float) -> None:
        self.ask = ask
        self.waiter = waiter
        self.seq = seq
        self.enqueued = self.since = now
        self.deadline = deadline
        self.priority: Priority = ask.priority
        self.state: State = WAITING
        self.failure: QueueFull | QueueTimeout | None = None
        self.waited = 0.0
        self.cost = ask.cost
        self.place: tuple[Hashable, int] | None = None
        self.lent = True  # when it got its slot nothing more urgent waited for one


def insert(entries: OrderedDict[Entry, None], entry: Entry) -> None:
    """One that comes back to its old place, among those that wait, the oldest first. O(those before it)."""
    older = list(takewhile(lambda other: other.since <= entry.since, entries))
    entries[entry] = None
    for other in (entry, *reversed(older)):
        entries.move_to_end(other, last=False)


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
