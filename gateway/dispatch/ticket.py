"""A request of this worker, whose scopes are held by the owner elsewhere: its ticket, its work, its attempts.

What its scopes say on their way out is put together by the link: see there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Self

import msgspec

from caches.types import Entry
from gateway.dispatch import messages as m
from gateway.dispatch.aging import give_request_back, give_tokens_back, refill
from gateway.dispatch.entries import entry_of
from gateway.dispatch.refused import Away, raise_refusal
from gateway.dispatch.types import Elsewhere, NoReplica, Question, WorkAsk
from gateway.dispatch.work import RemoteWork
from gateway.errors import ApiError
from limits.types import Scope, Standing

if TYPE_CHECKING:
    from gateway.dispatch.link import Link

PATIENCE = 2.0  # seconds that a request waits for an owner that has gone
_SAID = 1.0  # seconds that the owner has to say when to come back
_PEEK = 1.0  # seconds that an answer waits for nothing but headers that say where its client stands
_UNKNOWN = Standing()

_Asked = m.Ask | m.LookUp | m.Begin | m.Next | m.Again
Heard = m.Answer | m.Granted | m.Blocked | m.Another


class RemoteTicket:
    """A request whose scopes are held elsewhere. Before it is entered it says nothing to anybody."""

    __slots__ = (
        "_answer",
        "_asked",
        "_at_once",
        "_away_since",
        "_deadline",
        "_extra",
        "_fresh",
        "_granted",
        "_impatience",
        "_kept",
        "_left",
        "_link",
        "_over",
        "_past",
        "_patience",
        "_question",
        "_refund",
        "_refunded",
        "_report",
        "_said_left",
        "_scopes",
        "_settled",
        "_share",
        "_spent",
        "_standing",
        "_stood",
        "_stream",
        "_waiter",
        "_working",
        "_works",
        "admitted",
        "n",
        "numbers",
        "queued_end",
        "soon",
    )

    def __init__(self, link: Link, scopes: Sequence[Scope], question: Question | None) -> None:
        self._link = link
        self._scopes = scopes
        self._question = question
        self.n = link.next_request()
        self.numbers: tuple[int, ...] = ()
        self.admitted = False
        self.queued_end = False  # an End of it waits to be said
        self.soon = True  # and is not to wait for company
        self._standing = _UNKNOWN
        self._stood = 0.0  # when it stood so
        self._asked: _Asked | None = None  # what is not answered yet
        self._waiter: asyncio.Future[Heard] | None = None
        self._granted: m.Granted | m.Blocked | None = None  # came before anybody waited for it
        self._answer: m.Answer | None = None
        self._at_once: WorkAsk | None = None  # the work that was asked for with the admission
        self._fresh = True  # `_answer`, or the one that is to come, was not acted on
        self._kept: Entry | None = None
        self._share: bytes | None = None
        self._stream = False
        self._impatience: asyncio.TimerHandle | None = None
        self._patience = PATIENCE  # seconds left of it
        self._away_since = 0.0
        self._deadline = float("inf")  # of the work that was asked for last
        self._working: RemoteWork | None = None
        self._works = 0  # the number of the one that runs, or comes next
        self._past: m.HeldWork | None = None  # the one that has just ended
        self._refunded = False  # its request was given back: by a refusal, or by an End that was said
        # What is to be said at the end.
        self._left = self._said_left = False
        self._over = False
        self._refund = False
        self._extra = 0
        self._settled: int | None = None
        self._spent: m.SpentValues | None = None
        self._report: m.Report | None = None

    # -- the dispatcher's protocol

    async def __aenter__(self) -> Self:
        link = self._link
        self.numbers = link.scopes.of(self._scopes)
        link.tickets[self.n] = self
        question, self._question = self._question, None
        look = None if question is None else self._look_of(question)
        answer = await self._admission(m.Ask(self.n, self.numbers, look))
        self._stand(answer.standing)
        if answer.refusal is not None:
            link.tickets.pop(self.n, None)
            raise_refusal(answer.refusal, link.scopes)
        self.admitted = True
        self.soon = answer.soon
        self._answer = answer if look is not None else None
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._left = True
        if self._working is None and self._at_once is not None:  # a grant came, or is to come, for work that nobody took up
            self._over = True
        self._link.leave(self)

    async def _admission(self, ask: m.Ask) -> m.Answer:
        try:
            answer = await self._ask(ask)
        except BaseException as error:
            if isinstance(error, Away) and self._link.away:  # nobody knows of it
                self._link.tickets.pop(self.n, None)
            else:
                self._left = self._over = True
                self._link.leave(self)
            raise
        assert isinstance(answer, m.Answer)
        return answer

    async def look(self, question: Question, *, again: bool = False) -> Entry | None:
        answer = self._answer
        if answer is None or again or not self._fresh:
            self._forgo()
            self._granted, self._fresh, self._works = None, True, 0
            reply = await self._ask(m.LookUp(self.n, self._look_of(question)))
            assert isinstance(reply, m.Answer)
            answer = self._answer = reply
            self._stand(answer.standing)
        if answer.same:
            return self._kept
        if answer.entry is None:
            return None
        entry = entry_of(answer.entry)
        self._link.front.put(entry)
        return entry

    @property
    def away(self) -> str:
        return "" if self._answer is None else self._answer.away

    def elsewhere(self) -> Elsewhere | None:
        self._fresh = False
        answer, share = self._answer, self._share
        if share is None or answer is None or answer.place != 2:
            return None
        return self._link.incoming.intake(share, stream=answer.stream)

    def follow(self) -> None:
        answer, ask, self._at_once = self._answer, self._at_once, None
        if ask is not None and answer is not None and (answer.grant is not None or answer.pending):
            self._over = True
            self._link.leave(self)

    def work(self, ask: WorkAsk) -> RemoteWork:
        return RemoteWork(self, ask)

    async def come_back(self, ask: WorkAsk, share: bytes | None) -> float | None:
        asked = msgspec.msgpack.encode(m.Wait(self._work_of(ask), share))
        return msgspec.msgpack.decode(await self._link.call("come_back", asked, _SAID), type=float | None)

    async def store(self, entry: Entry) -> None:
        """Not when the owner is slow to read: it has more to hear than what could be kept."""
        await self._link.store_entry(entry)

    def refund(self) -> None:
        self.soon = True  # so that the next answer tells of one more
        self._give_back()

    def conclude(self, tokens: int, *, refund: bool) -> None:
        if refund:
            self._give_back()
        self._extra = tokens
        self.soon = self.soon or tokens > 0
        self._age()
        give_tokens_back(self._standing, -tokens)

    def _give_back(self) -> None:
        if not self._refund and not self._refunded:
            self._refund = True
            self._age()
            give_request_back(self._standing)

    def standing(self) -> Standing:
        self._age()
        return self._standing

    async def peek(self) -> None:
        link = self._link
        with suppress(ApiError):
            numbers = link.scopes.of(self._scopes)
            if link.away:
                return
            values = await link.call("standing", msgspec.msgpack.encode(numbers), _PEEK)
            self._stand(msgspec.msgpack.decode(values, type=m.StandingValues))

    # -- its work's

    @property
    def link(self) -> Link:
        return self._link

    @property
    def gone(self) -> bool:
        """Everything was said."""
        return self._left and self._working is None

    @property
    def boarding(self) -> bool:
        """It has still to take its seat among those who share an answer, and is about to."""
        return self._fresh and not self._left

    def _forgo(self) -> None:
        """Work that was asked for with the admission is not taken up; that is said before anything else is asked."""
        if self._at_once is not None:
            self._at_once = None
            self._over = True
            self._link.leave(self)
        self._link.say_end(self)

    async def begin(self, work: RemoteWork, ask: WorkAsk) -> m.Grant:
        """The grant of work, asked for with the admission or now."""
        if self._left:
            return await self._begin_anew(work, ask)
        at_once, self._at_once = self._at_once, None
        self._working = work
        answer = self._answer
        if at_once is ask and answer is not None and not answer.place:
            heard: Heard = answer
            if answer.pending:
                self._asked = m.Begin(self.n, 0, self._work_of(ask), self._share)  # what a successor is asked
                self._link.send(m.Raise(self.n, ask.priority))  # it may have changed since
                heard = self._granted or await self._wait()
        else:
            self._at_once = at_once
            self._forgo()
            self._works += 1
            heard = await self._ask(m.Begin(self.n, self._works, self._work_of(ask), self._share))
        self._granted = None
        return self._grant_of(heard)

    async def _begin_anew(self, work: RemoteWork, ask: WorkAsk) -> m.Grant:
        """Its client has left, but others want the answer. For the owner it ended with that, so it comes as another one."""
        link = self._link
        self._at_once = self._granted = None
        link.say_end(self)
        self.n = link.next_request()
        link.tickets[self.n] = self
        held = self.held(0)
        self._working = work
        self._works += 1
        return self._grant_of(await self._ask(m.Begin(self.n, self._works, self._work_of(ask), self._share, held)))

    def _grant_of(self, heard: Heard) -> m.Grant:
        self.soon = self.soon or isinstance(heard, m.Granted)  # it waited, and so may others
        if not isinstance(heard, m.Another):
            self._stand(heard.standing)
        refusal = heard.blocked if isinstance(heard, m.Answer) else heard.refusal if isinstance(heard, m.Blocked) else None
        if refusal is not None:
            self._refunded = self._refunded or refusal.kind != "replica"
            raise_refusal(refusal, self._link.scopes)
        grant = heard.grant if isinstance(heard, (m.Answer, m.Granted)) else None
        if grant is None:
            raise NoReplica
        self._refunded = False
        return grant

    @property
    def w(self) -> int:
        """The number of the work that runs."""
        return self._works

    async def another(self, report: m.Report) -> m.Another:
        heard = await self._ask(m.Next(self.n, self._works, report))
        assert isinstance(heard, m.Another)
        return heard

    async def again(self, ask: WorkAsk) -> m.Grant:
        """Another slot for the work that runs. Its number changes, so that what is still said of the slot it had is not heard."""
        self._works += 1
        return self._grant_of(await self._ask(m.Again(self.n, self._works, self._work_of(ask), self._share)))

    def give_way(self, w: int) -> bool:
        """Somebody more urgent wants the slot of that work: whether it is given up, if only because it has ended."""
        return w != self._works or self.gone or (self._working is not None and self._working.give_way())

    def finish(self, settled: int | None, spent: m.SpentValues | None, report: m.Report | None, charged: int) -> None:
        """The work is over. What was set aside and not used is back; see `standing`."""
        self._over, self._settled, self._spent, self._report = True, settled, spent, report
        self._past = None if self._working is None else self._working.held()
        self._working = None
        self._age()
        give_tokens_back(self._standing, charged - (settled or 0))
        self._link.leave(self)

    def give_up(self) -> None:
        """Nobody waits for the grant any more."""
        self._over = True
        self._working = None
        self._link.leave(self)

    def refused(self) -> None:
        """There is no work. Where the client has left as well, there is nothing more to say."""
        self._working = None
        if self._said_left:
            self._link.tickets.pop(self.n, None)

    # -- the link's

    def end(self, seq: int) -> tuple[m.End, m.Held | None]:
        """What is to be said, what was held before, and that it was said."""
        end = m.End(seq, self.n, self._over, self._left, self._refund, self._settled, self._report, self._spent, self._extra)
        held = self.held(seq) if self.admitted else None
        self.queued_end = False
        self._refunded = self._refunded or self._refund
        self._over, self._refund, self._settled, self._spent, self._report, self._past = False, False, None, None, None, None
        self._extra = 0
        self._said_left = self._left
        return end, held

    def held(self, ended: int) -> m.Held:
        """What a successor of the owner has to know of. `ended`: it is about what was held before that End."""
        work = self._past if self._working is None else self._working.held()
        if work is None and self._at_once is not None and self._answer is not None and self._answer.grant is not None:
            work = self._prospect(self._at_once, self._answer.grant)
        return m.Held(self.n, self.numbers, self._said_left, self._refunded, self._share, self._stream, work, ended)

    def _prospect(self, ask: WorkAsk, grant: m.Grant) -> m.HeldWork:
        """Work that was granted with the admission, and that nobody has taken up yet."""
        scopes = self._link.scopes
        return m.HeldWork(
            0, ask.model, grant.tokens, scopes.maybe(ask.model_scope), None, "", self._link.clock(), ask.tenant, grant.day
        )

    def hear(self, heard: Heard) -> None:
        if not isinstance(heard, m.Answer) and heard.w != self._works:
            return  # of work that was given up before it was granted
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            if isinstance(self._asked, (m.Ask, m.LookUp)) and not isinstance(heard, m.Answer):
                return  # likewise: what belongs to the answer comes behind it, perhaps in the same read
            waiter.set_result(heard)
        elif isinstance(heard, (m.Granted, m.Blocked)):
            self._granted = heard

    def lose_patience(self, loop: asyncio.AbstractEventLoop) -> None:
        """The owner has gone; what was asked is asked again, but not for ever."""
        if self._waiter is not None and self._impatience is None:
            self._away_since = loop.time()
            self._impatience = loop.call_later(self._patience, self._give_up)

    def past(self, now: float) -> None:
        """The owner says nothing. Who has a deadline of its own waits for it no longer than that."""
        if now > self._deadline:
            self._give_up()

    def ask_again(self) -> None:
        """Another owner is there; what was waited for it is not waited for the next one, too."""
        if self._impatience is not None:
            self._impatience.cancel()
            self._impatience = None
            self._patience = max(0.0, self._patience - (asyncio.get_running_loop().time() - self._away_since))
        if self._waiter is None or self._waiter.done() or self._asked is None:
            return
        self._link.send(self._asked)

    def _give_up(self) -> None:
        if self._impatience is not None:
            self._impatience.cancel()
            self._impatience = None
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(Away())

    async def _ask(self, message: _Asked) -> Heard:
        self._asked = message
        link = self._link
        if not link.away:
            link.send(message)
        return await self._wait()

    async def _wait(self) -> Heard:
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[Heard] = loop.create_future()
        self._waiter = waiter
        if self._link.away:
            self.lose_patience(loop)
        try:
            return await waiter
        finally:
            self._waiter = None
            if self._impatience is not None:
                self._impatience.cancel()
                self._impatience = None

    def _look_of(self, question: Question) -> m.Look:
        link = self._link
        self._share, self._stream = question.share, question.stream
        kept = self._kept = None if question.lookup is None else link.front.get(question.lookup)
        sure = not kept and not question.unsure  # what is kept is most likely good: then no model is asked
        ask = self._at_once = question.first() if sure else None
        return m.Look(
            question.lookup, kept.generation if kept else 0, question.share, question.stream,
            None if ask is None else self._work_of(ask),
        )  # fmt: skip

    def _work_of(self, ask: WorkAsk) -> m.Work:
        self._deadline = ask.deadline
        return m.Work(
            ask.model, ask.tokens, ask.clamp, self._link.scopes.maybe(ask.model_scope), ask.priority,
            ask.tenant, ask.weight, ask.size, ask.deadline, ask.session, ask.prompt_tokens,
            ask.form, ask.most, ask.due, ask.stream, ask.since, ask.leaves, ask.prefix, ask.shared,
            ask.ids, ask.spare,
        )  # fmt: skip

    def _stand(self, values: m.StandingValues | None) -> None:
        if values is not None:
            self._standing, self._stood = Standing(*values), self._link.clock()

    def _age(self) -> None:
        """An answer may be long in coming, and balances refill meanwhile."""
        now = self._link.clock()
        if now > self._stood:
            refill(self._standing, now - self._stood)
            self._stood = now
