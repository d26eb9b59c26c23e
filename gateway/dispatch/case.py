"""One request of a worker, in the owner's process: the task that holds its scopes.

The task waits for what the worker says next. What must not wait for its turn (a priority that is raised, a first byte, an end
before anything was granted) is obeyed when it comes.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING

from backends.lease import Lease
from backends.types import Outcome
from gateway.dispatch import messages as m
from gateway.dispatch.entries import kept_of
from gateway.dispatch.local import LocalTicket, LocalWork
from gateway.dispatch.types import NoReplica, WorkAsk
from limits.types import LimitExceeded, Priority, QueueFull, QueueTimeout, Standing

if TYPE_CHECKING:
    from gateway.dispatch.session import Session

_log = logging.getLogger("tiergate.dispatch")
_BLOCKS = (LimitExceeded, QueueFull, QueueTimeout, NoReplica)
TO_A_CASE = (m.LookUp, m.Begin, m.Next, m.Place, m.Raise, m.First)
_Waited = m.LookUp | m.Begin | m.Next | m.End | m.Place


class Case:
    """One request of a worker, and what is held for it."""

    __slots__ = (
        "_begun",
        "_doomed",
        "_ended",
        "_inbox",
        "_lease",
        "_scope",
        "_seqs",
        "_w",
        "_wait",
        "_waiter",
        "left",
        "n",
        "session",
        "share",
        "task",
        "ticket",
    )

    def __init__(self, session: Session, n: int) -> None:
        self.session = session
        self.n = n
        self.share: bytes | None = None  # it makes the answer that others of this key may share
        self.left = False  # its client is done
        self.task: asyncio.Task[None] | None = None
        self.ticket: LocalTicket | None = None
        self._w = 0
        self._scope: LocalWork | None = None
        self._lease: Lease | None = None
        self._inbox: deque[_Waited] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._wait = True  # something is being found out or waited for: an End is not waited for, it interrupts
        self._ended: m.End | None = None  # what interrupted
        self._seqs: list[int] = []  # Ends that are obeyed when the scopes of the work are left
        self._begun = False
        self._doomed = False  # cancelled before it had begun

    def ask(self, ask: m.Ask) -> None:
        self.task = asyncio.get_running_loop().create_task(self._run(ask))

    def adopt(self, held: m.Held, *, debited: bool) -> None:
        """Hold again what was granted by a predecessor of this process, or on a former connection (then it is not `debited`)."""
        self.task = asyncio.get_running_loop().create_task(self._resume(held, debited=debited))

    def cancel(self) -> None:
        """A task that is cancelled before its first step never gets to a `finally`, so till then it is only noted."""
        if self._begun and self.task is not None:
            self.task.cancel()
        else:
            self._doomed = True

    # -- what comes in

    def post(self, message: m.LookUp | m.Begin | m.Next | m.Place | m.Raise | m.First | m.End) -> None:
        if isinstance(message, m.Raise):
            if self._scope is not None:
                self._scope.raise_priority(Priority(message.priority))
        elif isinstance(message, m.First):
            if self._lease is not None:
                self._lease.first_byte(message.at)
        elif isinstance(message, m.End) and self._wait:
            self._interrupt(message)
        else:
            self._inbox.append(message)
            waiter = self._waiter
            if waiter is not None and not waiter.done():
                waiter.set_result(None)

    def _interrupt(self, end: m.End) -> None:
        if end.over:
            self._ended = end
            self.cancel()
        elif end.left:  # others want the answer
            self.left = True
            self._refund(end)
            if self.ticket is not None:
                self.session.node.spawn(self.ticket.leave())
            self.session.heard(end.seq)

    async def _next(self) -> _Waited:
        inbox = self._inbox
        while not inbox:
            waiter = self._waiter = asyncio.get_running_loop().create_future()
            try:
                await waiter
            finally:
                self._waiter = None
        return inbox.popleft()

    # -- its life

    def _begin(self) -> bool:
        """Whether there is anything left to do."""
        self._begun = True
        if self._doomed:
            self._seqs += [] if self._ended is None else [self._ended.seq]
            self._close()
        return not self._doomed

    async def _run(self, ask: m.Ask) -> None:
        if not self._begin():
            return
        session = self.session
        scopes = [session.scopes[number] for number in ask.scopes]
        try:
            async with session.node.local.admit(scopes) as ticket:
                self.ticket = ticket
                await self._look(ticket, ask.look)
                await self._go_on(ticket)
        except LimitExceeded as refused:
            if self.ticket is None:
                standing = session.node.local.limiter.standing(scopes)
                session.send(self._answer(refusal=self._refusal(refused), standing=values_of(standing)))
        except asyncio.CancelledError:
            if self._ended is None:
                raise
            self._seqs.append(self._ended.seq)
        except Exception:  # noqa: BLE001 - the edge of a request: its fault must be seen, and not be another's
            _log.exception("a request of worker %d failed in the dispatcher", session.number)
            session.send(self._answer(refusal=m.Refusal("fault")))
        finally:
            self._close()

    async def _resume(self, held: m.Held, *, debited: bool) -> None:
        if not self._begin():
            return
        session = self.session
        try:
            scopes = [session.scopes[number] for number in held.scopes]
            async with session.node.local.adopt(scopes, refunded=held.refunded) as ticket:
                self.ticket = ticket
                if held.left:
                    self.left = True
                    await ticket.leave()
                if held.work is not None:
                    await self._resume_work(ticket, held.work, held.share, debited=debited)
                await self._go_on(ticket)
        except asyncio.CancelledError:
            raise
        except Exception:  # noqa: BLE001 - the edge of a request, as above
            _log.exception("a request of worker %d could not be taken over", session.number)
        finally:
            self._close()

    async def _resume_work(self, ticket: LocalTicket, held: m.HeldWork, share: bytes | None, *, debited: bool) -> None:
        node, self._w = self.session.node, held.w
        if share is not None and share not in node.berths:
            node.berths[share], self.share = self, share
        scope = None if held.model_scope is None else self.session.scopes[held.model_scope]
        replica = None if held.serial is None else node.roster.named(held.model, held.replica)
        work = ticket.resume(held.model, held.tokens, scope, replica, held.began, debited=debited)
        async with work as grant:
            lease = work.resumed()
            if lease is None:
                message = await self._word()
            else:
                async with lease:
                    self._lease = lease
                    message = await self._word()
                    self._lease = None
                    _report(lease, message.report)
            if isinstance(message, m.End):
                await self._settle(grant, message)
            else:
                await self._attempts(ticket, grant, None, told=True)

    async def _go_on(self, ticket: LocalTicket) -> None:
        while True:
            self._heard()
            if self.left:
                return
            self._wait = False
            message = await self._next()
            self._wait = True
            if isinstance(message, m.Begin):
                await self._work(ticket, message.w, message.work, message.share, None)
            elif isinstance(message, m.LookUp):
                await self._look(ticket, message.look)
            elif isinstance(message, m.Place):
                answer = self._answer(standing=values_of(ticket.standing()))
                self._place(message.share, answer)
                self.session.send(answer)
            elif isinstance(message, m.End):
                await self._obey(message)

    def _close(self) -> None:
        session = self.session
        session.cases.pop(self.n, None)
        session.node.vacate(self)
        self._heard()

    def _heard(self) -> None:
        """Everything that was obeyed is done with: no work is under way."""
        for seq in self._seqs:
            self.session.heard(seq)
        self._seqs.clear()

    async def _obey(self, end: m.End) -> None:
        """An End outside work, or after it: is the client done too?"""
        self._seqs.append(end.seq)
        self._refund(end)
        if end.left:
            self.left = True
            if self.ticket is not None:
                await self.ticket.leave()

    def _refund(self, end: m.End) -> None:
        if end.refund and self.ticket is not None:
            self.ticket.refund()

    # -- the cache, and who shares

    async def _look(self, ticket: LocalTicket, look: m.Look | None) -> None:
        node, answer = self.session.node, self._answer()
        if look is not None and look.lookup is not None:
            entry = await node.local.exact.get(look.lookup)
            if entry is not None:
                answer.same = entry.generation == look.have
                answer.entry = None if answer.same else kept_of(entry)
        if look is not None and not answer.same and answer.entry is None:
            if look.share is not None:
                self._place(look.share, answer)
            if not answer.place and look.work is not None:
                await self._work(ticket, 0, look.work, look.share, answer)
                return
        answer.standing = values_of(ticket.standing())
        self.session.send(answer)

    def _place(self, share: bytes, answer: m.Answer) -> None:
        maker = self.session.node.berths.get(share)
        if maker is None or maker is self:
            return
        if maker.session is self.session:
            answer.place = 1
        else:
            answer.place = 2
            answer.feed = self.session.node.feeds.open(maker, self.session)

    # -- work

    async def _work(self, ticket: LocalTicket, w: int, work: m.Work, share: bytes | None, answer: m.Answer | None) -> None:
        """Tokens, a slot and replicas, until the worker says that it is over. `answer`: has still to be given."""
        node = self.session.node
        self._w = w
        if share is not None and share not in node.berths:
            node.berths[share], self.share = self, share
        scope = self._scope = ticket.work(self._ask_of(work))
        if answer is not None and self.share is not None and node.local.lanes[work.model].scheduler.full:
            answer.pending, answer.standing = True, values_of(ticket.standing())
            self.session.send(answer)  # so that the worker knows that it is the one whose answer others share
            answer = None
        try:
            async with scope as grant:
                await self._attempts(ticket, grant, answer)
        except _BLOCKS as refused:
            self._blocked(ticket, refused, answer)
        except asyncio.CancelledError:
            if self._ended is None:
                raise
            end, self._ended = self._ended, None
            task = asyncio.current_task()
            if task is not None:
                task.uncancel()
            await self._obey(end)
        finally:
            self._scope = self._lease = None

    async def _attempts(self, ticket: LocalTicket, grant: LocalWork, answer: m.Answer | None, *, told: bool = False) -> None:
        """`told`: the worker has its grant, and waits for another replica."""
        while True:
            lease = await grant.attempt()
            if lease is None:
                self._granted(ticket, grant, None, answer, told=told)
                message = await self._word()
            else:
                async with lease:
                    self._lease = lease
                    self._granted(ticket, grant, lease, answer, told=told)
                    message = await self._word()
                    self._lease = None
                    _report(lease, message.report)
            if isinstance(message, m.End):
                break
            told = True
        await self._settle(grant, message)

    async def _settle(self, grant: LocalWork, end: m.End) -> None:
        if end.settled is not None:
            grant.settle(end.settled)
        await self._obey(end)

    async def _word(self) -> m.Next | m.End:
        """What the worker says of its attempt."""
        self._wait = False
        while True:
            message = await self._next()
            if isinstance(message, m.Next) or (isinstance(message, m.End) and message.over):
                self._wait = True
                return message
            if isinstance(message, m.End):
                await self._obey(message)
                self._heard()

    def _granted(
        self, ticket: LocalTicket, grant: LocalWork, lease: Lease | None, answer: m.Answer | None, *, told: bool
    ) -> None:
        node = self.session.node
        serial, first = (None, False) if lease is None else (node.serial(lease.replica), grant.wants_first_byte(lease))
        if told:
            self.session.send(m.Another(self.n, self._w, serial, first))
            return
        granted = m.Grant(grant.tokens, grant.queued, serial, first)
        standing = values_of(ticket.standing())
        if answer is None:
            self.session.send(m.Granted(self.n, self._w, granted, standing))
        else:
            answer.grant, answer.standing = granted, standing
            self.session.send(answer)

    def _blocked(self, ticket: LocalTicket, refused: Exception, answer: m.Answer | None) -> None:
        refusal, standing = self._refusal(refused), values_of(ticket.standing())
        if answer is None:
            self.session.send(m.Blocked(self.n, self._w, refusal, standing))
        else:
            answer.blocked, answer.standing = refusal, standing
            self.session.send(answer)

    def _ask_of(self, work: m.Work) -> WorkAsk:
        return WorkAsk(
            work.model,
            work.tokens,
            work.clamp,
            None if work.model_scope is None else self.session.scopes[work.model_scope],
            Priority(work.priority),
            work.tenant,
            work.weight,
            work.size,
            work.deadline,
            work.session,
            work.prompt_tokens,
        )

    def _answer(self, refusal: m.Refusal | None = None, standing: m.StandingValues | None = None) -> m.Answer:
        return m.Answer(self.n, refusal, standing, None, same=False, place=0, feed=0, grant=None, blocked=None, pending=False)

    def _refusal(self, error: Exception) -> m.Refusal:
        if isinstance(error, LimitExceeded):
            number = self.session.numbers.get(id(error.scope), 0)
            return m.Refusal("limit", number, error.resource, error.limit, error.used, error.requested, error.wait, error.never)
        if isinstance(error, QueueFull):
            return m.Refusal("full", wait=error.retry_after, flag=error.tenant)
        if isinstance(error, QueueTimeout):
            return m.Refusal("timeout", wait=error.waited)
        return m.Refusal("replica")


def _report(lease: Lease, report: m.Report | None) -> None:
    if report is None:
        return
    if report.first_at is not None:
        lease.first_byte(report.first_at)
    if report.outcome is not None:
        lease.settle(Outcome(report.outcome), report.retry_after)
    if report.suspect:
        lease.suspect()


def values_of(standing: Standing) -> m.StandingValues:
    return (
        standing.request_limit,
        standing.request_remaining,
        standing.request_reset,
        standing.token_limit,
        standing.token_remaining,
        standing.token_reset,
    )
