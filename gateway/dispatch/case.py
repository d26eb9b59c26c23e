"""One request of a worker, in the owner's process: the task that holds its scopes.

The task waits for what the worker says next. What must not wait for its turn (a priority that is raised, a first byte, an end
before anything was granted) is obeyed when it comes.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING

from backends.lease import Lease
from gateway.dispatch import messages as m
from gateway.dispatch.entries import MOST_KEPT, kept_of
from gateway.dispatch.local import LocalTicket, LocalWork
from gateway.dispatch.types import NoReplica, WorkAsk
from limits.types import LimitExceeded, LimitsAway, Standing
from limits.waiting import Priority, QueueFull, QueueTimeout, Spent, WaitTooLong

if TYPE_CHECKING:
    from gateway.dispatch.session import Session

_log = logging.getLogger("tiergate.dispatch")
_LARGE = 64 * 1024  # bytes of a cached answer from which on a worker is sent no more than it reads
_BLOCKS = (LimitExceeded, LimitsAway, QueueFull, QueueTimeout, NoReplica)
TO_A_CASE = (m.LookUp, m.Begin, m.Next, m.Again, m.Keep, m.Raise, m.First)
_MOST_COUNT = 1 << 40  # tokens that are believed
_SHORT = 4  # times less than its burst is little
ASKS = (m.LookUp, m.Begin, m.Next, m.Again)  # what a worker waits for an answer to
_Waited = m.LookUp | m.Begin | m.Next | m.Again | m.End


class Case:
    """One request of a worker, and what is held for it."""

    __slots__ = (
        "_answered",
        "_begun",
        "_ended",
        "_inbox",
        "_lease",
        "_makes",
        "_scope",
        "_seqs",
        "_w",
        "_wait",
        "_waiter",
        "left",
        "n",
        "session",
        "share",
        "stream",
        "task",
        "ticket",
    )

    def __init__(self, session: Session, n: int) -> None:
        self.session = session
        self.n = n
        self.share: bytes | None = None  # it makes the answer that others of this key may share
        self.stream = False  # and makes it as one
        self.left = False  # its client is done
        self.task: asyncio.Task[None] | None = None
        self.ticket: LocalTicket | None = None
        self._w = 0
        self._begun = False  # its task has had its first turn
        self._answered = False  # its worker knows that it is admitted
        self._makes = False  # it has work that its worker has not said to be over
        self._scope: LocalWork | None = None
        self._lease: Lease | None = None
        self._inbox: list[_Waited] = []  # never more than a few
        self._waiter: asyncio.Future[None] | None = None
        self._wait = True  # something is being found out or waited for: an End is not waited for, it interrupts
        self._ended: m.End | None = None  # what interrupted
        self._seqs: list[int] = []  # Ends that are obeyed when the scopes of the work are left

    def ask(self, ask: m.Ask) -> None:
        self.task = asyncio.get_running_loop().create_task(self._run(ask))

    def adopt(self, held: m.Held, *, lost: bool) -> None:
        """Hold again what a predecessor of this process had granted, or (`lost`) this process itself, on another connection."""
        self._wait = False
        self.task = asyncio.get_running_loop().create_task(self._resume(held, lost=lost))

    @property
    def queued(self) -> bool:
        """It waits for its first slot, maybe with tokens set aside."""
        return self._scope is not None and not self._scope.granted and self.task is not None and not self.task.done()

    @property
    def waits(self) -> bool:
        """For what its work needs."""
        return self._scope is not None and self._wait

    def cancel(self) -> None:
        if self.task is not None:
            self.task.cancel()

    # -- what comes in

    def post(self, message: _Waited | m.Raise | m.First | m.Keep) -> None:
        if isinstance(message, m.Raise):
            self._raise(message.priority)
        elif isinstance(message, m.First):
            if self._lease is not None:
                self._lease.first_byte(message.at)
            self._keep()
        elif isinstance(message, m.Keep):
            if message.w == self._w:
                self._keep()
        elif isinstance(message, m.End):
            self._makes = self._makes and not message.over
            if message.left and not self._makes:  # now: who asks behind it for the same answer makes it anew
                self.session.node.vacate(self)
            if self._wait and self._ended is None:
                self._interrupt(message)
            else:
                self._put(message)
        else:
            self._put(message)

    def _put(self, message: _Waited) -> None:
        self._inbox.append(message)
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def _interrupt(self, end: m.End) -> None:
        if end.over:
            self._ended = end
            if self._begun:  # else it sees for itself: a task that is cancelled before its first turn never has one
                self.cancel()
        elif end.left:  # others want the answer
            self.left = True
            self._refund(end)
            if self.ticket is not None:
                self.session.node.spawn(self.ticket.leave())
            self.session.heard(end.seq)

    def _keep(self) -> None:
        if self._scope is not None and self._scope.lent:
            self._scope.keep()

    def _yield(self) -> bool:
        """Its slot is wanted back. The worker alone knows whether something of the answer is there, and says so if it is."""
        self.session.send(m.Yield(self.n, self._w))
        return True

    def _raise(self, priority: Priority) -> None:
        if self._scope is not None:
            self._scope.raise_priority(priority)
        for message in self._inbox:
            if isinstance(message, (m.Begin, m.Again)):  # not begun yet
                message.work.priority = min(message.work.priority, priority)

    async def _next(self) -> _Waited:
        inbox = self._inbox
        while not inbox:
            waiter = self._waiter = asyncio.get_running_loop().create_future()
            try:
                await waiter
            finally:
                self._waiter = None
        return inbox.pop(0)

    # -- its life

    async def _run(self, ask: m.Ask) -> None:
        self._begun = True
        session = self.session
        scopes = [session.scopes[number] for number in ask.scopes]
        try:
            async with session.node.local.admit(scopes) as ticket:
                self.ticket = ticket
                try:
                    if self._ended is None:
                        await self._look(ticket, ask.look)
                        await self._go_on(ticket)
                finally:
                    if not self._answered and self._ended is None:  # its worker knows nothing of it, and asks again
                        ticket.refund()
        except (LimitExceeded, LimitsAway) as refused:
            if self.ticket is None:
                standing = session.node.local.limiter.standing(scopes)
                session.send(m.Answer(self.n, self._refusal(refused), values_of(standing)))
        except asyncio.CancelledError:
            if self._ended is None:
                raise
        except Exception:  # noqa: BLE001 - the edge of a request: its fault must be seen, and not be another's
            _log.exception("a request of worker %d failed in the dispatcher", session.number)
            session.send(m.Answer(self.n, m.Refusal("fault")))
        finally:
            self._close()

    async def _resume(self, held: m.Held, *, lost: bool) -> None:
        session, self._begun, self._answered = self.session, True, True
        try:
            scopes = [session.scopes[number] for number in held.scopes]
            async with session.node.local.adopt(scopes, refunded=held.refunded) as ticket:
                self.ticket, self.stream = ticket, held.stream
                if held.left:
                    self.left = True
                    await ticket.leave()
                goes_on = held.work is not None and held.work.model in session.node.local.lanes
                if held.work is not None and goes_on:
                    await self._resume_work(ticket, held.work, held.share, lost=lost)
                await self._go_on(ticket, owed=not goes_on)
        except Exception:  # noqa: BLE001 - the edge of a request, as above
            _log.exception("a request of worker %d could not be taken over", session.number)
        finally:
            self._close()

    async def _resume_work(self, ticket: LocalTicket, held: m.HeldWork, share: bytes | None, *, lost: bool) -> None:
        node, self._w, self._makes = self.session.node, held.w, True
        if share is not None:
            self._take_berth(share)
        scope = None if held.model_scope is None else self.session.scopes[held.model_scope]
        replica = None if held.serial is None else node.roster.named(held.model, held.replica)
        work = ticket.resume(held, scope, replica, lost=lost)
        async with work as grant:
            refusal = await self._attempts(ticket, grant, work.resumed(), None, resumed=True)
        self._scope = None
        if refusal is not None:
            self._blocked(ticket, refusal, None)

    async def _go_on(self, ticket: LocalTicket, *, owed: bool = False) -> None:
        """What the worker says between two works. `owed`: it has something to say even of a request whose client has left."""
        while True:
            self._heard()
            if self.left and not owed and not self._inbox:
                return
            owed = self._wait = False
            message = await self._next()
            self._wait = True
            if isinstance(message, m.End):
                await self._obey(message)
            elif any(isinstance(later, m.End) and later.over for later in self._inbox):
                continue  # nobody waits for it any more, so it must not wait for anything
            elif isinstance(message, m.Begin):
                await self._work(ticket, message.w, message.work, message.share, None)
            elif isinstance(message, m.Again):  # the config is another one now
                self._w = message.w
                self._blocked(ticket, NoReplica(), None)
            elif isinstance(message, m.Next):  # likewise
                self.session.send(unknown(message))
            elif isinstance(message, m.LookUp):
                await self._look(ticket, message.look)

    def _close(self) -> None:
        session = self.session
        if self._ended is not None:
            self._seqs.append(self._ended.seq)
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
        if self.ticket is None:
            return
        if end.extra:
            self.ticket.conclude(_count(end.extra), refund=end.refund)
        elif end.refund:
            self.ticket.refund()

    # -- the cache, and who shares

    async def _look(self, ticket: LocalTicket, look: m.Look | None) -> None:
        node, answer = self.session.node, m.Answer(self.n)
        if look is not None and look.lookup is not None:
            entry = await node.local.exact.get(look.lookup)
            if entry is not None and entry.generation != look.have and len(entry.body) > _LARGE:
                await self.session.room()
                entry = await node.local.exact.get(look.lookup)  # as it is now
            answer.away = node.local.exact.away or ""
            if entry is not None and len(entry.body) <= MOST_KEPT:
                answer.same = entry.generation == look.have
                answer.entry = None if answer.same else kept_of(entry)
        if look is not None and not answer.same and answer.entry is None:
            if look.share is not None:
                self.stream = look.stream
                self._place(look.share, answer)
            if not answer.place and look.work is not None:
                await self._work(ticket, 0, look.work, look.share, answer)
                return
        self._stand(answer, ticket)
        self._say(answer)

    def _stand(self, answer: m.Answer, ticket: LocalTicket) -> None:
        standing = ticket.standing()
        answer.standing = values_of(standing)
        answer.soon = ticket.crowded() or _short(standing, 0 if answer.grant is None else answer.grant.tokens)

    def _place(self, share: bytes, answer: m.Answer) -> None:
        node = self.session.node
        maker = node.berths.get(share)
        if maker is None or maker is self:
            return
        if maker.session is self.session:
            answer.place = 1
        elif node.feeds.room(maker.session, self.session):
            answer.place, answer.stream = 2, maker.stream

    def _take_berth(self, share: bytes) -> None:
        """Its worker says that it makes this answer: the latest of a worker is right, and of others the one that was first."""
        berths = self.session.node.berths
        maker = berths.get(share)
        if maker is None or maker.session is self.session:
            berths[share], self.share = self, share

    # -- work

    async def _work(self, ticket: LocalTicket, w: int, work: m.Work, share: bytes | None, answer: m.Answer | None) -> None:
        """Tokens, a slot and replicas, until the worker says that it is over. `answer`: has still to be given."""
        node = self.session.node
        self._w = w
        if work.model not in node.local.lanes:  # the config is another one now
            self._blocked(ticket, NoReplica(), answer)
            return
        self._makes = True
        if share is not None:
            self._take_berth(share)
        scope = self._scope = ticket.work(self._ask_of(work))
        scheduler = node.local.lanes[work.model].scheduler
        if answer is not None and (scheduler.full or scheduler.places.counted):
            scope.on_wait = partial(self._pend, ticket, answer)
        try:
            async with scope as grant:
                grant.lend(self._yield)
                refusal = await self._attempts(ticket, grant, await grant.attempt(), answer)
            if refusal is not None:
                self._blocked(ticket, refusal, None)
        except _BLOCKS as refused:
            node.vacate(self)
            self._makes = False
            if isinstance(refused, (QueueFull, QueueTimeout)) and not self.left:  # so that the client is told how it stands then
                ticket.refund()
            self._blocked(ticket, refused, answer)
        except asyncio.CancelledError:
            if self._ended is None or await self._interrupted(self._ended):
                raise
        finally:
            self._scope = self._lease = None

    async def _interrupted(self, end: m.End) -> bool:
        """Obey the End that ended a wait; whether the connection has ended, too."""
        self._ended = None
        task = asyncio.current_task()
        lost = task is not None and task.uncancel()
        await self._obey(end)
        return bool(lost)

    async def _attempts(
        self, ticket: LocalTicket, grant: LocalWork, lease: Lease | None, answer: m.Answer | None, *, resumed: bool = False
    ) -> QueueFull | QueueTimeout | None:
        """One replica after the other; the refusal, if it gave its slot up and got no other. `resumed`: the worker knows of the
        first, which it asks already.
        """
        known, told = resumed, resumed
        message: m.Next | m.Again | m.End
        while True:
            async with lease or nullcontext():
                self._lease = lease
                if not known:
                    self._granted(ticket, grant, lease, answer, told=told)
                message = await self._word(grant)
                self._lease = None
                if not isinstance(message, m.Again):
                    _report(lease, message.report)
            if isinstance(message, m.End):
                break
            told = isinstance(message, m.Next)
            if isinstance(message, m.Again):
                try:
                    await self._again(grant, message)
                except (QueueFull, QueueTimeout) as refused:
                    if not self.left:
                        ticket.refund()
                    return refused
                except asyncio.CancelledError:
                    if self._ended is None or await self._interrupted(self._ended):
                        raise
                    return None
            known, answer = False, None
            lease = await grant.attempt()
        await self._settle(grant, message)
        return None

    async def _again(self, grant: LocalWork, message: m.Again) -> None:
        """Another slot, in place of the one that it gave up."""
        self._w, self._scope = message.w, grant
        if message.share is not None:
            self._take_berth(message.share)
        try:
            await grant.again(self._ask_of(message.work))
        except (QueueFull, QueueTimeout):
            self.session.node.vacate(self)
            self._makes = False
            raise

    async def _settle(self, grant: LocalWork, end: m.End) -> None:
        if end.settled is not None:
            grant.settle(end.settled, spent_of(end.spent))
        await self._obey(end)

    async def _word(self, grant: LocalWork) -> m.Next | m.Again | m.End:
        """What the worker says of its attempt.

        What a worker has used that is gone is not known, see `Reservation.lose`, unless the worker comes back on another
        connection and says what it was.
        """
        self._wait = False
        while True:
            try:
                message = await self._next()
            except asyncio.CancelledError:
                grant.lose(successor=self.session.node.closing)
                raise
            if isinstance(message, (m.Next, m.Again)) or (isinstance(message, m.End) and message.over):
                self._wait = True
                return message
            if isinstance(message, m.End):
                await self._obey(message)
                self._heard()

    def _pend(self, ticket: LocalTicket, answer: m.Answer) -> None:
        """It has to wait in line. Its worker hears that at once: it may leave again, and others may want the same answer."""
        answer.pending, answer.standing = True, values_of(ticket.standing())
        self._say(answer)

    def _granted(
        self, ticket: LocalTicket, grant: LocalWork, lease: Lease | None, answer: m.Answer | None, *, told: bool
    ) -> None:
        node = self.session.node
        serial, first, doubted = None, False, False
        if lease is not None:
            serial, first, doubted = node.serial(lease.replica), grant.wants_first_byte(lease), lease.doubted
        if told:
            self.session.send(m.Another(self.n, self._w, serial, first, doubted))
            return
        granted = m.Grant(grant.tokens, grant.queued, serial, first, grant.day, doubted)
        if answer is None or answer.pending:
            self.session.send(m.Granted(self.n, self._w, granted, values_of(ticket.standing())))
        else:
            answer.grant = granted
            self._stand(answer, ticket)
            answer.soon = answer.soon or grant.crowded()
            self._say(answer)

    def _blocked(self, ticket: LocalTicket, refused: Exception, answer: m.Answer | None) -> None:
        refusal, standing = self._refusal(refused), values_of(ticket.standing())
        if answer is None or answer.pending:
            self.session.send(m.Blocked(self.n, self._w, refusal, standing))
        else:
            answer.blocked, answer.standing = refusal, standing
            self._say(answer)

    def _ask_of(self, work: m.Work) -> WorkAsk:
        return WorkAsk(
            work.model,
            work.tokens,
            work.clamp,
            None if work.model_scope is None else self.session.scopes[work.model_scope],
            work.priority,
            work.tenant,
            work.weight,
            work.size,
            work.deadline,
            work.session,
            _count(work.prompt_tokens),
            work.form,
            work.most,
            work.due,
            work.stream,
            work.since,
            work.leaves,
            work.prefix,
            work.shared,
            work.ids,
            work.spare,
        )

    def _say(self, answer: m.Answer) -> None:
        self._answered = True
        self.session.send(answer)

    def _refusal(self, error: Exception) -> m.Refusal:
        if isinstance(error, LimitExceeded):
            number = self.session.numbers.get(id(error.scope), 0)
            return m.Refusal(
                "limit", number, error.resource, error.limit, error.used, error.requested, error.wait, error.never, error.until
            )
        if isinstance(error, LimitsAway):
            return m.Refusal("away")
        if isinstance(error, WaitTooLong):
            return m.Refusal("wait", wait=error.retry_after, flag=error.tenant, seconds=error.expected, most=error.most)
        if isinstance(error, QueueFull):
            return m.Refusal("full", wait=error.retry_after, flag=error.tenant)
        if isinstance(error, QueueTimeout):
            return m.Refusal("timeout", wait=error.retry_after, seconds=error.waited)
        return m.Refusal("replica")


def unknown(message: m.LookUp | m.Begin | m.Next | m.Again) -> m.Answer | m.Another | m.Blocked:
    """What is said to a question about what is not held here: nobody is left to wait for a word that never comes."""
    if isinstance(message, m.LookUp):
        return m.Answer(message.n)
    if isinstance(message, m.Next):
        return m.Another(message.n, message.w, None, False, False)
    return m.Blocked(message.n, message.w, m.Refusal("replica"), None)


def _report(lease: Lease | None, report: m.Report | None) -> None:
    if lease is None or report is None:
        return
    if report.first_at is not None:
        lease.first_byte(report.first_at)
    if report.outcome is not None:
        lease.settle(report.outcome, report.after)
    if report.suspect:
        lease.suspect()


def spent_of(values: m.SpentValues | None) -> Spent | None:
    if values is None:
        return None
    prompt, output, whole, cached = values
    return Spent(_count(prompt), _count(output), whole, None if cached is None else _count(cached))


def _count(tokens: int) -> int:
    return min(max(tokens, 0), _MOST_COUNT)


def _short(standing: Standing, tokens: int) -> bool:
    """Whether the next request, of as many tokens, may well be refused for what this one gives back."""
    burst, remaining = standing.token_burst, standing.token_remaining
    return burst is not None and remaining is not None and (remaining < tokens or remaining * _SHORT < burst)


def values_of(standing: Standing) -> m.StandingValues:
    return (
        standing.request_limit,
        standing.request_remaining,
        standing.request_reset,
        standing.token_limit,
        standing.token_remaining,
        standing.token_reset,
        standing.request_burst,
        standing.token_burst,
    )
