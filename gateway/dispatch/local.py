"""The owner in this process: the leaves themselves, in the order that is the product's.

Rules of this file
- Every scope that is entered here is left here, in the opposite order, on every way out.
- Between choosing a replica and entering its lease nothing awaits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Self

from backends.lease import Lease
from backends.replica import Replica
from backends.types import Ask as BalanceAsk
from caches.types import Entry, ExactStore
from gateway.dispatch import messages as m
from gateway.dispatch.hearing import Hear, nothing_unheard
from gateway.dispatch.types import Elsewhere, Lane, NoReplica, Question, WorkAsk
from gateway.dispatch.unplaced import Unplaced
from limits.slots import Slot
from limits.types import Admission, Adopted, LastingLimiter, LimitExceeded, Reservation, Scope, Standing
from limits.waiting import Priority, SlotAsk, Spent

_RENEWING = 60.0  # seconds that a renewal may take, before another one begins: its worker may have died
_RENEWED = 1.0  # until the next one: who has looked before may be told of the old answer only now
_MOST_RENEWING = 1_000  # before those that are over are forgotten
Reserved = AbstractAsyncContextManager[Reservation]


class LocalDispatcher:
    def __init__(self, limiter: LastingLimiter, exact: ExactStore, lanes: Mapping[str, Lane]) -> None:
        self.limiter = limiter
        self.exact = exact
        self.lanes = lanes
        self.hear: Hear = nothing_unheard
        self._renewing: dict[bytes, float] = {}  # until when, on the loop's clock

    def admit(self, scopes: Sequence[Scope], question: Question | None = None) -> LocalTicket:  # noqa: ARG002 - it costs nothing to ask twice
        return LocalTicket(self, scopes)

    def adopt(self, scopes: Sequence[Scope], *, refunded: bool) -> LocalTicket:
        """A request that a predecessor of this process admitted. Its debits are known; its slots are taken, free or not."""
        return LocalTicket(self, scopes, self.limiter.adopt(scopes, refunded=refunded))

    def several(self, model: str) -> bool:
        return len(self.lanes[model].pool.replicas) > 1

    def hearing(self, model: str) -> bool:
        return self.lanes[model].placing.hearing

    def engines(self, model: str) -> Sequence[Replica]:
        return [replica for replica in self.lanes[model].pool.replicas if replica.up]

    async def store_entry(self, entry: Entry) -> None:
        await self.exact.put(entry)

    async def first_to_renew(self, key: bytes) -> bool:
        now = asyncio.get_running_loop().time()
        if self._renewing.get(key, now) > now:
            return False
        if len(self._renewing) >= _MOST_RENEWING:
            self._renewing = {other: until for other, until in self._renewing.items() if until > now}
        self._renewing[key] = now + _RENEWING
        return True

    async def renewed(self, key: bytes) -> None:
        self._renewing[key] = asyncio.get_running_loop().time() + _RENEWED


class LocalTicket:
    """One request, from its admission on."""

    __slots__ = ("_admission", "_adopted", "_entered", "_held", "_owner", "_scopes", "away")

    def __init__(self, owner: LocalDispatcher, scopes: Sequence[Scope], adopted: Adopted | None = None) -> None:
        self._owner = owner
        self._scopes = scopes
        self._entered = owner.limiter.admit(scopes) if adopted is None else adopted
        self._adopted = adopted
        self._admission: Admission | None = None
        self._held = False
        self.away = ""

    async def __aenter__(self) -> Self:
        try:
            self._admission = await self._entered.__aenter__()
        except LimitExceeded as refused:
            if refused.never or not await self._owner.hear():
                raise
            self._admission = await self._entered.__aenter__()
        self._held = True
        return self

    async def __aexit__(self, *_exc: object) -> None:
        if self._held:
            self._held = False
            await self._entered.__aexit__(None, None, None)

    async def leave(self) -> None:
        """The client is done; work that it began may go on. Safe to call twice."""
        if self._held:
            self._held = False
            await self._entered.__aexit__(None, None, None)

    async def look(self, question: Question, *, again: bool = False) -> Entry | None:  # noqa: ARG002 - each look is a new one
        if question.lookup is None:
            return None
        exact = self._owner.exact
        entry = await exact.get(question.lookup)
        self.away = exact.away or ""
        return entry

    def elsewhere(self) -> Elsewhere | None:
        return None

    def follow(self) -> None:
        """Nothing was asked for."""

    def work(self, ask: WorkAsk) -> LocalWork:
        assert self._admission is not None, "a ticket is used after it was entered"
        return LocalWork(self._owner.lanes[ask.model], self._admission, ask, self._owner.hear)

    def resume(self, held: m.HeldWork, scope: Scope | None, replica: Replica | None, *, lost: bool) -> ResumedWork:
        """Work that an adopted request was granted before; `scope` is the model's own. `lost`: see `limits.types.Adopted`."""
        assert self._adopted is not None, "only an adopted request has such work"
        reserved = self._adopted.adopt_reservation(held.tokens, scope, day=held.day, lost=lost)
        return ResumedWork(self._owner.lanes[held.model], reserved, held.tokens, replica, held.began, held.tenant)

    async def come_back(self, ask: WorkAsk, share: bytes | None) -> float | None:  # noqa: ARG002 - all answers are made here
        return self._owner.lanes[ask.model].scheduler.come_back(slot_ask(ask))

    async def store(self, entry: Entry) -> None:
        await self._owner.exact.put(entry)

    def refund(self) -> None:
        if self._admission is not None:
            self._admission.refund()

    def conclude(self, tokens: int, *, refund: bool) -> None:
        if self._admission is not None:
            self._admission.conclude(tokens, refund=refund)

    def standing(self) -> Standing:
        return self._owner.limiter.standing(self._scopes) if self._admission is None else self._admission.standing()

    async def peek(self) -> None:
        """It can be seen from here."""

    def crowded(self) -> bool:
        """Whether the next request may well be refused for want of the parallel slots that this one holds."""
        return self._owner.limiter.crowded(self._scopes)


class LocalWork:
    """Tokens, then a slot. While it is entered it is its own grant."""

    __slots__ = (
        "_ask", "_balance_ask", "_doubt", "_hear", "_lane", "_place", "_reservation", "_reserved", "_slot", "_tried", "granted",
        "lent", "on_wait", "queued", "tokens",
    )  # fmt: skip

    def __init__(self, lane: Lane, admission: Admission, ask: WorkAsk, hear: Hear) -> None:
        self._lane = lane
        self._hear = hear
        self._ask = ask
        self._reserved: Reserved = admission.reserve(
            ask.tokens, model_scope=ask.model_scope, clamp=ask.clamp, least=ask.prompt_tokens
        )
        self._slot: Slot | None = None
        self._place: Unplaced | None = None
        self.granted = False  # it has had a slot
        self._tried: list[Replica] = []
        self._doubt: Lease | None = None  # the attempt that another one's opinion may be wanted on
        self.lent = False  # the owner may want its slot back
        self.on_wait: Callable[[], None] | None = None  # called when it has its tokens and is about to wait for a slot
        self.tokens = ask.tokens
        self.queued = 0.0

    async def __aenter__(self) -> Self:
        lane, ask = self._lane, self._ask
        if not lane.pool.capacity():
            raise NoReplica
        try:
            self._reservation: Reservation = await self._reserved.__aenter__()
        except LimitExceeded as refused:
            if refused.never or not await self._hear():
                raise
            self._reservation = await self._reserved.__aenter__()
        try:
            wanted = slot_ask(ask)
            slot = self._slot = lane.scheduler.spare(wanted) if ask.spare else Slot(lane.scheduler, wanted)
            slot.on_wait = self.on_wait
            if not slot.at_once():
                await slot.wait()
        except BaseException:
            await self._reserved.__aexit__(None, None, None)
            raise
        self.granted = True
        self.tokens, self.queued = self._reservation.tokens, slot.queued
        self._balance_ask = _balance_ask(ask, wanted)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if self._slot is not None:
                self._slot.leave()
        finally:
            await self._reserved.__aexit__(kind, error, trace)

    def raise_priority(self, priority: Priority) -> None:
        if self._slot is not None:
            self._slot.raise_priority(priority)

    async def attempt(self) -> Lease | None:
        pool, tried = self._lane.pool, self._tried
        place = self._place = self._place or self._lane.placing.place(self._ask)
        ask = place.ask(self._balance_ask)
        replica = pool.pick(ask, tried)
        if replica is None or (tried and not pool.may_retry()):
            return None
        tried.append(replica)
        if self._slot is not None:
            self._slot.placed()
        place.sent(replica)
        lease = pool.lease(replica, None, ask)
        if self._doubt is not None and self._doubt.faulted:
            lease.against = self._doubt.replica
        elif lease.doubted:
            self._doubt = lease
        return lease

    def lend(self, order: Callable[[], bool] | None) -> None:
        if self._slot is not None:
            self.lent = order is not None and self._slot.lend(order)
            if order is None:
                self._slot.keep()

    def keep(self) -> None:
        """It is not lent any more."""
        self.lend(None)

    async def again(self, ask: WorkAsk | None = None) -> None:
        """`ask`: where this is not the one that asked first."""
        slot, self._slot = self._slot, None
        if ask is not None:
            self._ask = ask
        elif slot is not None:
            self._ask.since = slot.since
        if slot is not None:
            await slot.__aexit__(None, None, None)
        self._tried, self._doubt, self.lent = [], None, False
        wanted = slot_ask(self._ask)
        self._slot = slot = self._lane.scheduler.slot(wanted)
        try:
            await slot.__aenter__()
        except BaseException:
            self._slot = None
            raise
        self._balance_ask = _balance_ask(self._ask, wanted)
        self.queued = slot.queued

    def settle(self, tokens: int, spent: Spent | None = None) -> None:
        self._reservation.settle(tokens)
        if self._slot is not None:
            self._slot.spent = spent
        if self._place is not None and spent is not None:
            self._place.ended(spent)

    def lose(self, *, successor: bool) -> None:
        """Whoever had it is gone, or this process goes: see `limits.types.Reservation`."""
        self._reservation.lose(successor=successor)

    @property
    def day(self) -> int:
        """Of whose budgets its tokens are; see `limits.types.Reservation`."""
        return self._reservation.day

    def crowded(self) -> bool:
        """Whether who asks for a slot now has to wait."""
        return self._lane.scheduler.full

    def wants_first_byte(self, lease: Lease) -> bool:
        """Whether a choice depends on hearing of this attempt's first byte at once."""
        replica, pool = lease.replica, self._lane.pool
        balance = pool.balance
        if (
            self.lent
            or replica.breaker.tripped
            or replica.hold.row
            or balance.wants_first_byte
            or (balance.wants_pending and lease.owes)
        ):
            return True
        return self._ask.stream and replica.governor.wants_first_byte(pool.clock())


def _balance_ask(ask: WorkAsk, wanted: SlotAsk) -> BalanceAsk:
    return BalanceAsk(ask.session, ask.prompt_tokens, wanted.prompt + wanted.output, ask.stream)


def slot_ask(ask: WorkAsk | m.Work) -> SlotAsk:
    """The queue's part of it."""
    until, leaves = ask.deadline, ask.leaves
    if leaves < until and not ask.shared:
        until = leaves
    return SlotAsk(
        ask.priority, ask.tenant, ask.tokens, ask.size, until, ask.weight, ask.due, ask.prompt_tokens, 0, ask.form, ask.most,
        ask.since, leaves,
    )  # fmt: skip


class ResumedWork(LocalWork):
    """Entered at once: nothing is debited, and a slot is taken even where there is none."""

    __slots__ = ("_began", "_replica")

    def __init__(self, lane: Lane, reserved: Reserved, tokens: int, replica: Replica | None, began: float, tenant: str) -> None:
        self._lane = lane
        self._ask = WorkAsk(lane.name, tokens, False, None, Priority.STANDARD, tenant, 1, 0, 0.0, None, 0)
        self._reserved = reserved
        self._balance_ask = BalanceAsk(tokens=tokens)
        self._slot = self._place = self._doubt = None
        self.granted = True
        self.lent = False
        self._tried = [] if replica is None else [replica]
        self._replica = replica
        self._began = began
        self.tokens = tokens
        self.queued = 0.0

    async def __aenter__(self) -> Self:
        self._reservation = await self._reserved.__aenter__()
        self._slot = self._lane.scheduler.resume(self._ask.tenant)
        await self._slot.__aenter__()
        return self

    def resumed(self) -> Lease | None:
        """The attempt that runs."""
        return None if self._replica is None else self._lane.pool.lease(self._replica, self._began, self._balance_ask)
