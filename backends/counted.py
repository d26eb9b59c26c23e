"""A lease that counts tokens beside requests, and tells the governor: of the pools where that matters, and no others.

Whoever gives out slots is told of each replica on its own: seats of one that has no tokens left are no room, and tokens of one
that has no seat are none.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from types import TracebackType
from typing import Protocol, Self

from backends.lease import Keeper, Lease, Stage
from backends.replica import Replica
from backends.types import Ask

Place = tuple[int, float, float]


class Watcher(Protocol):
    """Who gives out the slots: hears, for each replica that may be given any, free seats, free tokens and tokens in all."""

    def tell(self, places: Mapping[Hashable, Place]) -> None:
        """Of all."""

    def move(self, key: Hashable, place: Place) -> None:
        """Of one of these."""


class CountingKeeper(Keeper, Protocol):
    def moved(self, replica: Replica) -> None: ...


class CountedLease(Lease):
    __slots__ = ("_ask", "_counting")

    def __init__(self, keeper: CountingKeeper, replica: Replica, now: float, ask: Ask) -> None:
        super().__init__(keeper, replica, now, ask)
        self._ask = ask
        self._counting = keeper

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        replica = self.replica
        replica.tokens += self._ask.tokens
        replica.peak = max(replica.peak, replica.inflight)
        self._counting.moved(replica)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        replica = self.replica
        held = self._stage in (Stage.HELD, Stage.SETTLED)
        if held:
            replica.tokens -= self._ask.tokens
        await super().__aexit__(kind, error, trace)
        if held:
            self._counting.moved(replica)

    def first_byte(self, at: float | None = None) -> None:
        fresh = not self._first and self._stage is Stage.HELD
        super().first_byte(at)
        if fresh and self._ask.stream:
            replica, now = self.replica, self.replica.latency_at  # as it was just written down
            if replica.governor.first_byte(self._ask.prompt_tokens, self.began, replica, now):
                self._keeper.refresh()


def place_of(replica: Replica, seats: int) -> Place:
    """`seats`: those that it may have in all."""
    return seats - replica.inflight, replica.most_tokens - replica.tokens, replica.most_tokens


def takes(replica: Replica, tokens: int) -> bool:
    """An idle one takes whatever comes."""
    return replica.tokens + tokens <= replica.most_tokens or not replica.inflight


def emptiest(replicas: list[Replica]) -> list[Replica]:
    """Where it fits nowhere: where it does least harm."""
    return [min(replicas, key=lambda replica: replica.tokens / replica.most_tokens)] if replicas else []
