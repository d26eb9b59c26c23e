"""The owner elsewhere, as a worker sees it.

Rules of this file
1. A request asks once, and says once that it is over. What its scopes say on their way out is put together: an End leaves
   with the next question, or within a few milliseconds; at once where the owner said that others may wait for it, or asks
   for it, as it does before a limit refuses. It is there to be asked for before the client has the last of its answer.
2. What was asked and not answered is asked again when the connection is back, within `PATIENCE`; after that the request is
   refused. What was granted stays granted: the next owner is told of it (`Held`).
3. An End is kept until the owner has it in writing (`Ack`), and repeated to the next owner if it had not.
4. What a worker keeps of the exact cache is served only when the owner says that it is the present one: each question names
   the generation at hand.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from os import getpid, urandom

import msgspec

from backends.replica import Replica
from caches.flight import Flights
from caches.types import Entry
from gateway.dispatch import messages as m
from gateway.dispatch.channel import Channel, connect
from gateway.dispatch.entries import MOST_KEPT, kept_of
from gateway.dispatch.fault import decoded
from gateway.dispatch.front import Front
from gateway.dispatch.incoming import Incoming
from gateway.dispatch.numbers import ScopeNumbers
from gateway.dispatch.outgoing import Outgoing
from gateway.dispatch.refused import Away
from gateway.dispatch.roster import Replicas
from gateway.dispatch.ticket import PATIENCE, RemoteTicket
from gateway.dispatch.types import Question
from gateway.errors import ApiError
from limits.types import Scope

_log = logging.getLogger("tiergate.dispatch")
_COMPANY = 0.005  # seconds that an End may wait for a message to go with, when nobody is known to wait for it
_RETRY = 0.02  # between two attempts to connect
_LOOK = 0.5  # between two looks whether the owner still speaks
_LAST_WORD = 1.0  # seconds for the owner to hear what is said at the end
_HUSH = 1.0  # seconds without a word after which the deadlines of requests are looked at here, as the owner may not
_SILENCE = 3.0  # seconds without a word, while one is due, that end a connection


@dataclass(slots=True)
class _Pending:
    """A call that is not answered. `once`: it is not made again to another owner."""

    call: m.Call
    answer: asyncio.Future[bytes]
    patience: asyncio.Timeout
    once: bool


class Link:
    """A worker's connection to the owner, made again whenever it is lost.

    `verbs` are what the owner may ask for; `on_welcome` is called whenever one has answered.
    """

    def __init__(
        self,
        path: str,
        *,
        number: int,
        replicas: Replicas,
        front: Front,
        clock: Callable[[], float],
    ) -> None:
        self.replicas = replicas
        self.front = front
        self.clock = clock
        self.scopes = ScopeNumbers()
        self.tickets: dict[int, RemoteTicket] = {}
        self.incoming = Incoming(self.say)
        self.outgoing: Outgoing | None = None
        self.away = True
        self._path = path
        self._number = number
        self._config = ""
        self.verbs: Mapping[str, Callable[[bytes], bool | None]] = {}
        self.on_welcome: Callable[[], None] = lambda: None
        self._name = urandom(8).hex()
        self._epoch = ""
        self._channel = self._make_channel()
        self._lost = asyncio.Event()
        self._welcomed = asyncio.Event()
        self._requests = count(1)
        self._ends = count(1)
        self._kept: deque[tuple[m.End, m.Held | None]] = deque()  # with what was held before each
        self._leaving: list[RemoteTicket] = []
        self._timer = False
        self._calls: dict[int, _Pending] = {}
        self._call_numbers = count(1)
        self._spoke = 0.0

    def share(self, flights: Flights) -> None:
        """Answers that are made here are for the clients of other workers, too."""
        self.outgoing = Outgoing(flights, self.say, self._boarding)

    async def served_others(self) -> None:
        """Returns when nothing is made here any more for the clients of other workers."""
        if self.outgoing is not None:
            await self.outgoing.idle()

    # -- what requests use

    def admit(self, scopes: Sequence[Scope], question: Question | None = None) -> RemoteTicket:
        return RemoteTicket(self, scopes, question)

    def several(self, model: str) -> bool:
        return model in self.replicas.several

    def hearing(self, model: str) -> bool:
        return model in self.replicas.hearing

    def engines(self, model: str) -> Sequence[Replica]:
        return self.replicas.engines(model)

    async def store_entry(self, entry: Entry) -> None:
        """As `RemoteTicket.store`."""
        if len(entry.body) <= MOST_KEPT:
            self.offer(m.Store(kept_of(entry)))

    async def first_to_renew(self, key: bytes) -> bool:
        try:
            return bool(msgspec.msgpack.decode(await self.call("renew", key, once=True)))
        except ApiError:
            return False  # somebody will ask again

    async def renewed(self, key: bytes) -> None:
        with suppress(ApiError):
            await self.call("renewed", key)

    async def call(self, verb: str, payload: bytes = b"", seconds: float = 30.0, *, once: bool = False) -> bytes:
        """Something that is no request of a model. Raises ApiError: what the owner says, or 503 when it stays away.

        `once`: it is not said again to another owner, for the first may have obeyed before it went.
        """
        number = next(self._call_numbers)
        waiting: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        call = m.Call(number, verb, payload)
        try:
            async with asyncio.timeout(PATIENCE if self.away else seconds) as patience:
                self._calls[number] = _Pending(call, waiting, patience, once)
                if not self.away:
                    self.send(call)
                return await waiting
        except TimeoutError:
            raise Away from None
        finally:
            self._calls.pop(number, None)

    async def say_all(self) -> None:
        """Returns when the owner has heard everything that was to be said, or is away: then the process may end."""
        self._say_ends()
        if not self.away:
            with suppress(ApiError):
                await self.call("ping", seconds=_LAST_WORD)

    def next_request(self) -> int:
        return next(self._requests)

    # -- what is said

    def send(self, message: msgspec.Struct) -> None:
        """Say it in this tick, and everything that has waited for company."""
        if self._leaving:
            self._say_ends()
        channel = self._channel
        new = self.scopes.new()
        if new:
            channel.send(m.encode(m.Scopes(new)))
        channel.send(m.encode(message))

    def say(self, message: msgspec.Struct) -> None:
        """Say it, if there is anybody to hear it now."""
        if not self.away:
            self.send(message)

    def tell(self, message: msgspec.Struct) -> None:
        """Say it when it suits."""
        if not self.away:
            self._channel.tell(m.encode(message))

    def offer(self, message: msgspec.Struct) -> None:
        """Say it when it suits, unless the owner is behind with reading."""
        if self._channel.writable:
            self.tell(message)

    def leave(self, ticket: RemoteTicket) -> None:
        """There is something to say of the ticket's end: soon, for there may be more."""
        if not ticket.queued_end:
            ticket.queued_end = True
            self._leaving.append(ticket)
        if ticket.soon:
            self._say_ends()
        elif not self._timer:
            self._timer = True
            asyncio.get_running_loop().call_later(_COMPANY, self._out_of_company)

    def say_end(self, ticket: RemoteTicket) -> None:
        """Say it now: something else is about to be said of the same request."""
        if ticket.queued_end:
            self._say_ends()  # and those of others before it: what they held was given up earlier

    def _out_of_company(self) -> None:
        self._timer = False
        if self._leaving:
            self._say_ends()

    def _say_ends(self) -> None:
        leaving, self._leaving = self._leaving, []
        for ticket in leaving:
            self._say(ticket)

    def _say(self, ticket: RemoteTicket) -> None:
        end, held = ticket.end(next(self._ends))
        self._kept.append((end, held))
        if not self.away:
            self._channel.send(m.encode(end))
        if ticket.gone:
            self.tickets.pop(ticket.n, None)

    # -- the connection

    async def run(self) -> None:
        """For ever: connect, and connect again."""
        try:
            while True:
                await self._connected()
                await self._lost.wait()
        finally:
            self._say_ends()
            self._channel.close()

    async def welcomed(self) -> None:
        """Returns when the owner has answered for the first time."""
        await self._welcomed.wait()

    async def watch(self) -> None:
        """For ever: an owner that says nothing while an answer is due has hung, and is as good as gone."""
        loop = asyncio.get_running_loop()
        while True:
            slept = loop.time()
            await asyncio.sleep(_LOOK)
            if self._channel.closed or loop.time() - slept > 2 * _LOOK:  # it was this process that stood still
                continue
            silent = loop.time() - self._spoke
            if silent > _HUSH:
                now = self.clock()
                for ticket in self.tickets.values():
                    ticket.past(now)
            if silent > _SILENCE:
                _log.error("the dispatcher has said nothing for %.1f s: its connection is cut", silent)
                self._channel.abort()
            elif silent > _LOOK / 2:
                self._channel.send(m.encode(m.Call(0, "ping", b"")))

    def _make_channel(self) -> Channel:
        return Channel(self._frames, self._closed, patience=_COMPANY)

    async def _connected(self) -> None:
        self._lost.clear()
        while True:
            with suppress(OSError):
                self._channel = await connect(self._path, self._make_channel)
                break
            await asyncio.sleep(_RETRY)
        self._spoke = asyncio.get_running_loop().time()
        self._say_ends()
        held = self._held()
        if not self.tickets and not held:
            self.scopes.forget()
        known, scopes = list(self.replicas.known.values()), self.scopes.everybody()
        hello = m.Hello(self._name, self._number, getpid(), self._epoch, self._config, known, scopes, held)
        self._channel.send(m.encode(hello))

    def _held(self) -> list[m.Held]:
        """What this worker was granted: what it holds now, and what it held before each End that may not have been heard."""
        now = [ticket.held(0) for ticket in self.tickets.values() if ticket.admitted]
        return [*(held for _, held in self._kept if held is not None), *now]

    def _closed(self) -> None:
        self.away = True
        self.incoming.lost()
        if self.outgoing is not None:
            self.outgoing.lost()
        self._lost.set()
        loop = asyncio.get_running_loop()
        for ticket in self.tickets.values():
            ticket.lose_patience(loop)
        for pending in self._calls.values():
            if pending.once:
                if not pending.answer.done():
                    pending.answer.set_exception(Away())
            elif not pending.patience.expired():
                pending.patience.reschedule(min(pending.patience.when() or 0.0, loop.time() + PATIENCE))

    def _welcome(self, welcome: m.Welcome) -> None:
        if welcome.epoch != self._epoch:
            self._epoch = welcome.epoch
            self._config = welcome.config
            self.front.clear()
        self.replicas.replace(welcome.roster)
        self._acked(welcome.heard)
        for end, _ in self._kept:
            self._channel.send(m.encode(end))
        self.away = False
        self._welcomed.set()
        if self.outgoing is not None:
            self.outgoing.welcomed()
        self.incoming.welcomed()
        self.on_welcome()
        for ticket in self.tickets.values():
            ticket.ask_again()
        for pending in self._calls.values():
            self._channel.send(m.encode(pending.call))

    def _acked(self, seq: int) -> None:
        kept = self._kept
        while kept and kept[0][0].seq <= seq:
            kept.popleft()

    # -- what it says

    def _frames(self, frames: list[bytes]) -> None:
        self._spoke = asyncio.get_running_loop().time()
        for frame in frames:
            try:
                self._message(m.from_dispatcher(frame))
            except msgspec.MsgspecError as error:
                _log.error("the dispatcher said what is not understood (%s): its connection is cut", error)
                self._channel.abort()
                return

    def _message(self, message: m.FromDispatcher) -> None:
        if isinstance(message, (m.Answer, m.Granted, m.Blocked, m.Another)):
            ticket = self.tickets.get(message.n)
            if ticket is not None:
                ticket.hear(message)
        elif isinstance(message, m.Yield):
            ticket = self.tickets.get(message.n)
            if ticket is not None and not ticket.give_way(message.w):
                self.send(m.Keep(message.n, message.w))
        elif isinstance(message, (m.Piece, m.FeedHead, m.FeedEnd)):
            self.incoming.said(message)
        elif isinstance(message, (m.Subscribe, m.Credit, m.Unsubscribe)):
            if self.outgoing is not None:
                self.outgoing.said(message)
        elif isinstance(message, m.Ack):
            self._acked(message.seq)
        elif isinstance(message, m.Roster):
            self.replicas.change(message.changed, message.gone)
        elif isinstance(message, m.Reply):
            self._replied(message)
        elif isinstance(message, m.Poll):
            self._polled(message)
        elif isinstance(message, m.Welcome):
            self._welcome(message)

    def _polled(self, poll: m.Poll) -> None:
        told = None
        if poll.verb == "ends":
            self._say_ends()
        else:
            told = self.verbs[poll.verb](poll.payload)
        self._channel.send(m.encode(m.Return(poll.id, bool(told))))

    def _replied(self, reply: m.Reply) -> None:
        pending = self._calls.get(reply.id)
        if pending is None:
            return
        waiting = pending.answer
        if waiting.done():
            return
        if reply.fault:
            waiting.set_exception(decoded(reply.fault))
        else:
            waiting.set_result(reply.payload)

    def _boarding(self, n: int) -> bool:
        ticket = self.tickets.get(n)
        return ticket is not None and ticket.boarding
