"""One attempt at one replica, counted for as long as it runs.

Rules:
1. A lease is the only thing that moves `inflight` and `pending`: up on entering, down by the same on leaving, on every way
   out; `pending` already at the first byte. No step awaits anything, so no cancellation can fall between them and the count.
2. What the attempt showed is said once. Leaving without saying it says nothing (NEUTRAL), and gives a probe back.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from types import TracebackType
from typing import Protocol, Self

from backends.replica import Replica
from backends.types import NOBODY, OK, Ask, Outcome


class Keeper(Protocol):
    """What a lease needs of its pool."""

    clock: Callable[[], float]

    def record(self, lease: Lease, outcome: Outcome, now: float, after: float = 0.0) -> None: ...

    def accepted(self, lease: Lease) -> None: ...

    def left(self, lease: Lease) -> None: ...

    def overruled(self, replica: Replica, *, served: bool) -> None: ...

    def prefilled(self, replica: Replica, tokens: int, seconds: float) -> None: ...

    def refresh(self) -> None: ...

    def suspect(self, replica: Replica) -> None: ...


class Stage(enum.Enum):
    NEW = 0
    HELD = 1
    SETTLED = 2
    RELEASED = 3


_NEW, _HELD, _SETTLED, _RELEASED = Stage  # an enum member costs a look-up in its class each time
_FAULTED, _FAILED, _NEUTRAL = Outcome.FAULTED, Outcome.FAILED, Outcome.NEUTRAL


_COUNTED = 128  # tokens: less weighs hardly more than that the request runs, and saying that it has begun costs more


class Lease:
    """`async with pool.lease(replica) as lease:` and in it `lease.first_byte()`, `lease.settle(Outcome.OK)`.

    `doubted`: if the replica finds fault with the request, another one is to be asked, whose lease has this one's replica in
    `against`. `faulted`: it did. `served`: it had a place there, and an answer.
    """

    __slots__ = (
        "_first", "_keeper", "_lone", "_pending", "_stage", "against", "began", "doubted", "epoch", "faulted", "probe", "replica",
        "served",
    )  # fmt: skip

    def __init__(self, keeper: Keeper, replica: Replica, now: float, ask: Ask = NOBODY) -> None:
        uncached = ask.uncached(replica.name)
        self._keeper = keeper
        self.began = now
        self._first = False
        self._pending = uncached if uncached >= _COUNTED else 0
        self._lone = ask.stream
        self._stage = _NEW
        self.replica = replica
        self.epoch = 0
        self.probe = self.doubted = self.faulted = self.served = False
        self.against: Replica | None = None

    @property
    def owes(self) -> bool:
        """Its replica has tokens to compute before its first byte, which count there until then."""
        return self._pending > 0

    async def __aenter__(self) -> Self:
        if self._stage is not _NEW:
            raise RuntimeError("a lease is entered once")
        self._stage = _HELD
        replica = self.replica
        breaker = replica.breaker
        self.epoch = breaker.epoch
        replica.inflight += 1
        replica.pending += self._pending
        if replica.order is not None:
            replica.order.moved(replica)
        self._lone = self._lone and replica.inflight == 1 and not replica.others_inflight
        if breaker.tripped and breaker.take_probe(self.began):
            self.probe = True
            self._keeper.refresh()
        elif replica.held:  # what runs there is capacity, and this is more
            self._keeper.refresh()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        stage = self._stage
        if stage is _NEW or stage is _RELEASED:
            return
        self._stage = _RELEASED
        replica = self.replica
        replica.inflight -= 1
        replica.pending -= self._pending
        if replica.order is not None:
            replica.order.moved(replica)
        if replica.emptied is not None and not replica.inflight:
            replica.emptied.set()
        if self.probe and stage is _HELD:
            self._keeper.record(self, Outcome.NEUTRAL, self._keeper.clock())
        if replica.hold.row:
            self._keeper.left(self)

    def first_byte(self, at: float | None = None) -> None:
        """The first byte of a good answer came. Not for errors: a replica that fails fast must not look fast.

        `at`: the moment it came, where this is heard of later, on the pool's clock.
        It closes a half-open breaker: a probe that streams for minutes has shown all that was asked of it.
        """
        if self._first or self._stage is not _HELD:
            return
        self._first = self.served = True
        replica, tokens, self._pending = self.replica, self._pending, 0
        replica.pending -= tokens
        if tokens and replica.order is not None:
            replica.order.moved(replica)
        now = self._keeper.clock() if at is None else at if at > self.began else self.began
        replica.observe_latency(now - self.began, now)
        if self._lone and tokens and replica.inflight == 1 and not replica.others_inflight:
            self._keeper.prefilled(replica, tokens, now - self.began)
        breaker = replica.breaker
        if breaker.tripped and breaker.epoch == self.epoch:
            self._keeper.record(self, Outcome.OK, now)
            self.epoch = breaker.epoch  # how the answer ends still counts
            self.probe = False
        elif replica.hold.row:
            self._keeper.accepted(self)

    def suspect(self) -> None:
        """No connection could be made: whoever watches the replica's health should look now."""
        self._keeper.suspect(self.replica)

    def complete(self) -> None:
        """A good answer came at once: its first byte, and all that was to be settled."""
        now = self._keeper.clock()
        self.first_byte(now)
        self.settle(OK, at=now)

    def settle(self, outcome: Outcome, after: float = 0.0, at: float | None = None) -> None:
        """The first call counts. `after`: seconds that a refusal named to come back. `at`: now, where that is known."""
        if self._stage is not _HELD:
            return
        self._stage = _SETTLED
        self.faulted = outcome is _FAULTED
        self.served = outcome is OK
        if outcome is _NEUTRAL and not self.probe:
            return
        now = self._keeper.clock() if at is None else at
        if outcome is _FAILED and not self._first:
            self.replica.observe_failure(now - self.began, now)
        self._keeper.record(self, outcome, now, after)
        if self.against is not None and (self.faulted or outcome is OK):
            self._keeper.overruled(self.against, served=not self.faulted)
