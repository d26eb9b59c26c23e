"""One model's part of a request of this worker, held by the owner elsewhere: tokens and a slot, and each attempt at a replica."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import TYPE_CHECKING, Self

from backends.replica import Replica
from backends.types import OK, Outcome
from gateway.dispatch import messages as m
from gateway.dispatch.refused import Away
from gateway.dispatch.types import WorkAsk
from limits.waiting import Priority, Spent

if TYPE_CHECKING:
    from gateway.dispatch.ticket import RemoteTicket


class RemoteWork:
    """Tokens and a slot that are held elsewhere. While it is entered it is its own grant."""

    __slots__ = (
        "_ask",
        "_began",
        "_grant",
        "_name",
        "_next",
        "_order",
        "_over",
        "_recalled",
        "_serial",
        "_settled",
        "_spent",
        "_ticket",
        "queued",
        "report",
        "tokens",
    )

    def __init__(self, ticket: RemoteTicket, ask: WorkAsk) -> None:
        self._ticket = ticket
        self._ask = ask
        self._over = False  # there is no slot, and nothing to be said of it
        self._settled: int | None = None
        self._spent: m.SpentValues | None = None
        self._order: Callable[[], bool] | None = None  # while the slot may be wanted back
        self._recalled = False  # a slot that is nobody's in earnest was wanted back before there was anybody to tell
        self._next = False  # the replica that came with the grant was tried
        self._serial: int | None = None  # of the replica that is asked, or was last. Not the attempt: it knows its work,
        self._name = ""  # and a cycle would leave both to the garbage collector
        self._began = 0.0
        self.report: m.Report | None = None
        self.tokens = ask.tokens
        self.queued = 0.0

    async def __aenter__(self) -> Self:
        ticket = self._ticket
        await self._slot(ticket.begin(self, self._ask))
        self.tokens = self._grant.tokens
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if not self._over:
            self._ticket.finish(self._settled, self._spent, self.report, self.tokens)

    async def _slot(self, granted: Coroutine[object, object, m.Grant]) -> None:
        """Wait for one. Where none comes the work is over, and that is said if the owner may think otherwise."""
        ticket = self._ticket
        try:
            grant = self._grant = await granted
        except (asyncio.CancelledError, Away):
            self._over = True
            ticket.give_up()
            raise
        except BaseException:
            self._over = True
            ticket.refused()
            raise
        self._next, self.queued, self._began = False, grant.queued, ticket.link.clock()

    def raise_priority(self, priority: Priority) -> None:
        self._ask.priority = priority
        link = self._ticket.link
        if not link.away:
            link.send(m.Raise(self._ticket.n, priority))

    async def attempt(self) -> RemoteAttempt | None:
        if not self._next:
            self._next = True
            given: m.Grant | m.Another = self._grant
        else:
            report, self.report = self.report, None
            given = await self._ticket.another(report or m.Report())
        serial = given.serial
        replica = None if serial is None else self._ticket.link.replicas.get(serial)
        if replica is None or serial is None:
            self._serial, self._name = None, ""
            return None
        self._serial, self._name, self._began = serial, replica.name, self._ticket.link.clock()
        return RemoteAttempt(self, replica, tell_first=given.tell_first, doubted=given.doubted)

    def lend(self, order: Callable[[], bool] | None) -> None:
        self._order = order
        if self._recalled and order is not None:
            self.give_way()

    def give_way(self) -> bool:
        order, self._order = self._order, None
        if order is None and self._ask.spare:
            self._recalled = True
            return True
        return order is not None and order()

    async def again(self) -> None:
        self._ask.since = self._began - self.queued
        self._serial, self._name, self.report = None, "", None
        await self._slot(self._ticket.again(self._ask))

    def settle(self, tokens: int, spent: Spent | None = None) -> None:
        self._settled = tokens
        self._spent = None if spent is None else (spent.prompt, spent.output, spent.whole, spent.cached)

    def held(self) -> m.HeldWork | None:
        if not self._next:
            return None
        ask, scope = self._ask, self._ticket.link.scopes.maybe(self._ask.model_scope)
        return m.HeldWork(
            self._ticket.w, ask.model, self.tokens, scope, self._serial, self._name, self._began, ask.tenant, self._grant.day
        )

    def first_byte(self) -> None:
        link = self._ticket.link
        if not link.away:
            link.send(m.First(self._ticket.n, link.clock()))

    def now(self) -> float:
        return self._ticket.link.clock()


class RemoteAttempt:
    """One attempt at a replica, counted here and, as long as its work says nothing, there."""

    __slots__ = ("_report", "_tell_first", "_work", "doubted", "replica")

    def __init__(self, work: RemoteWork, replica: Replica, *, tell_first: bool, doubted: bool) -> None:
        self._work = work
        self._tell_first = tell_first
        self._report = m.Report()
        self.doubted = doubted
        self.replica = replica

    async def __aenter__(self) -> Self:
        self.replica.inflight += 1
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        replica = self.replica
        replica.inflight -= 1
        if replica.emptied is not None and not replica.inflight:
            replica.emptied.set()
        self._work.report = self._report

    def first_byte(self) -> None:
        if self._report.first_at is None:
            self._report.first_at = self._work.now()
            if self._tell_first:
                self._work.first_byte()

    def complete(self) -> None:
        self.first_byte()
        self.settle(OK)

    def settle(self, outcome: Outcome, after: float = 0.0) -> None:
        if self._report.outcome is None:
            self._report.outcome, self._report.after = outcome, after

    def suspect(self) -> None:
        self._report.suspect = True
