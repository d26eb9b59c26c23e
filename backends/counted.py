"""A lease that counts tokens beside requests, and tells the governor: of the pools where that matters, and no others.

A replica is full by seats or by tokens, and a pool of unlike replicas is not full by the sums of both: seats of one that has no
tokens left are no room, and tokens of one that has no seat are none. So `Room` leaves these out. It is worked out anew when
a lease comes or goes where a replica was full or is.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import NamedTuple, Protocol, Self

from backends.lease import Keeper, Lease, Stage
from backends.replica import Replica
from backends.types import Ask


class Room(NamedTuple):
    """What a pool can be given in all. `largest`: the most tokens that one of its replicas takes."""

    slots: int
    tokens: float
    largest: float


class CountingKeeper(Keeper, Protocol):
    def recount(self) -> None: ...


class CountedLease(Lease):
    __slots__ = ("_ask", "_counting")

    def __init__(self, keeper: CountingKeeper, replica: Replica, now: float, ask: Ask) -> None:
        super().__init__(keeper, replica, now)
        self._ask = ask
        self._counting = keeper

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        replica = self.replica
        replica.tokens += self._ask.tokens
        replica.peak = max(replica.peak, replica.inflight)
        if is_full(replica):
            self._counting.recount()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        replica = self.replica
        held, full = self._stage in (Stage.HELD, Stage.SETTLED), is_full(replica)
        await super().__aexit__(kind, error, trace)
        if held:
            replica.tokens -= self._ask.tokens
            if full:
                self._counting.recount()

    def first_byte(self, at: float | None = None) -> None:
        fresh = not self._first and self._stage is Stage.HELD
        super().first_byte(at)
        if fresh and self._ask.stream:
            replica, now = self.replica, self.replica.latency_at
            if replica.governor.first_byte(self._ask.prompt_tokens, self._began, replica, now):
                self._keeper.refresh()


def room(slots: int, replicas: Iterable[Replica]) -> Room:
    """`slots` are those of all together, full or not."""
    tokens = largest = 0.0
    for replica in replicas:
        if _no_tokens(replica):
            slots -= max(0, replica.slots - replica.inflight)
        tokens += min(replica.most_tokens, replica.tokens) if _no_seat(replica) else replica.most_tokens
        largest = max(largest, replica.most_tokens)
    return Room(slots, tokens, largest)


def takes(replica: Replica, tokens: int) -> bool:
    """An idle one takes whatever comes."""
    return replica.tokens + tokens <= replica.most_tokens or not replica.inflight


def emptiest(replicas: list[Replica]) -> list[Replica]:
    """Where it fits nowhere: where it does least harm."""
    return [min(replicas, key=lambda replica: replica.tokens / replica.most_tokens)] if replicas else []


def is_full(replica: Replica) -> bool:
    return _no_seat(replica) or _no_tokens(replica)


def _no_seat(replica: Replica) -> bool:
    return replica.inflight >= replica.slots


def _no_tokens(replica: Replica) -> bool:
    return replica.tokens >= replica.most_tokens and replica.inflight > 0
