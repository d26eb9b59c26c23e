"""A worker, as the owner sees it: its connection, and what it holds.

Rules of this file
1. A request has a task here (a `Case`), and the task holds its scopes: admission, tokens, slot, lease. When the connection
   ends every task of it is cancelled, so a worker that dies leaves nothing behind.
2. What a worker was told is in the vault before it is told (`Channel`'s `before_flush`).
3. An End counts once. They are numbered, the vault remembers how many were heard, and a worker repeats the others after a
   restart of the dispatcher.
4. Nothing that a worker says can end more than its own connection.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import TYPE_CHECKING

import msgspec

from gateway.dispatch import messages as m
from gateway.dispatch.case import ASKS, TO_A_CASE, Case, unknown
from gateway.dispatch.channel import Channel
from gateway.dispatch.entries import entry_of
from limits.types import Scope

if TYPE_CHECKING:
    from gateway.dispatch.node import Node

_log = logging.getLogger("tiergate.dispatch")
_LATER = 0.02  # seconds
_ACK_SECONDS = 0.05  # at least, from one Ack to the next
_PATIENCE = 1.0  # an Ack is for a restart, and the next answer takes it along


class Session:
    """One worker's connection."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.worker = ""  # names the process; empty before its Hello
        self.number = 0
        self.pid = 0
        self._name = b""  # the same in the vault
        self.spoke = asyncio.get_running_loop().time()  # when it last said anything
        self.cases: dict[int, Case] = {}
        self.scopes: dict[int, Scope] = {}
        self.numbers: dict[int, int] = {}  # of scopes, by the identity of those in `scopes`
        self.channel = Channel(
            self._frames, self._closed, on_writable=self._writable, before_flush=node.commit, patience=_PATIENCE
        )
        self._late: list[bytes] = []
        self._turn = asyncio.Lock()
        self._room = asyncio.Event()
        self._heard = 0
        self._early: set[int] = set()  # Ends that were done with before one that came earlier
        self._acked = 0.0  # when
        self._polls: dict[int, asyncio.Future[bool]] = {}

    def send(self, message: msgspec.Struct) -> None:
        self.channel.send(m.encode(message))

    async def room(self) -> None:
        """Returns when it has read what it was sent, to one caller at a time.

        So many large answers are sent as fast as they are read, and no faster, or its connection would be cut for them.
        """
        async with self._turn:
            while not self.channel.writable and not self.channel.closed:
                self._room.clear()
                await self._room.wait()

    def _writable(self) -> None:
        self._room.set()

    # -- what it says

    def _frames(self, frames: list[bytes]) -> None:
        """After this process stood still, a moment later: if the worker has given it up, its connection ends before that."""
        self.spoke = asyncio.get_running_loop().time()
        if self._late or self.node.stood_still():
            if not self._late:
                asyncio.get_running_loop().call_later(_LATER, self._go_on)
            self._late += frames
        else:
            self._obey(frames)

    def _go_on(self) -> None:
        late, self._late = self._late, []
        if not self.channel.closed:
            self._obey(late)

    def _obey(self, frames: list[bytes]) -> None:
        for frame in frames:
            try:
                self._message(m.from_worker(frame))
            except (msgspec.MsgspecError, KeyError, ValueError) as error:
                _log.error("worker %d said what is not understood (%s): its connection is cut", self.number, error)
                self.channel.abort()
                return

    def _message(self, message: m.FromWorker) -> None:
        if isinstance(message, m.Ask):
            self._start(message.n).ask(message)
        elif isinstance(message, m.End):
            case = self.cases.get(message.n)
            if case is None:
                self.heard(message.seq)
            else:
                case.post(message)
        elif isinstance(message, TO_A_CASE):
            case = self.cases.get(message.n)
            if case is None and isinstance(message, m.Begin) and message.held is not None:
                case = self._start(message.n)
                case.adopt(message.held, lost=False)
            if case is not None:
                case.post(message)
            elif isinstance(message, ASKS):
                self.send(unknown(message))
        elif isinstance(message, m.Scopes):
            self.learn(message.added)
        elif isinstance(message, m.Store):
            self.node.store(entry_of(message.entry))
        elif isinstance(message, m.Counts):
            self.node.absorb(self, message.payload)
        elif isinstance(message, m.Call):
            self.node.call(self, message)
        elif isinstance(message, m.Return):
            waiting = self._polls.pop(message.id, None)
            if waiting is not None and not waiting.done():
                waiting.set_result(message.told)
        elif isinstance(message, m.Hello):
            self._hello(message)
        else:
            self.node.feeds.said(self, message)

    def _start(self, n: int) -> Case:
        if n in self.cases:
            raise ValueError(f"request {n} is there already")
        case = self.cases[n] = Case(self, n)
        return case

    def learn(self, added: list[m.ScopeTerms]) -> None:
        for terms in added:
            made = Scope(
                terms.id, terms.kind, terms.rpm, terms.tpm, terms.max_parallel, terms.name, terms.burst, terms.day, terms.month
            )
            scope = self.node.scope(made)
            self.scopes[terms.number] = scope
            self.numbers[id(scope)] = terms.number

    def _hello(self, hello: m.Hello) -> None:
        self._name = bytes.fromhex(hello.worker)
        self._heard = self.node.heard(self._name)  # ValueError: no such name can be
        self.worker, self.number, self.pid = hello.worker, hello.number, hello.pid
        self.learn(hello.scopes)
        self.node.welcome(self, hello)
        for held in _unheard(hello.held, self._heard):
            self._start(held.n).adopt(held, lost=hello.epoch == self.node.epoch)
        self.node.gathering.hello(hello.worker, knew_another=hello.epoch not in ("", self.node.epoch), answer=self._welcome)

    def _welcome(self) -> None:
        self.send(m.Welcome(self.node.epoch, self._heard, self.node.config, self.node.roster.everybody()))

    # -- what it has ended

    def heard(self, seq: int) -> None:
        """An End was obeyed. They may be done with out of order; what is remembered is up to where none is missing."""
        if seq <= self._heard:
            return
        now = self.node.ended = asyncio.get_running_loop().time()
        early = self._early
        if seq != self._heard + 1:
            early.add(seq)
            return
        self._heard = seq
        while early and self._heard + 1 in early:
            self._heard += 1
            early.remove(self._heard)
        self.node.hear(self._name, self._heard)
        if now >= self._acked + _ACK_SECONDS:
            self._acked = now
            self.channel.tell(m.encode(m.Ack(self._heard)))

    # -- what it is asked

    async def poll(self, verb: str, payload: bytes = b"") -> bool:
        """What came of it, when the worker has done it. ConnectionError when it goes before that."""
        number = self.node.next_poll()
        waiting: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._polls[number] = waiting
        self.send(m.Poll(number, verb, payload))
        try:
            return await waiting
        finally:
            self._polls.pop(number, None)

    def _closed(self) -> None:
        self._room.set()
        for case in list(self.cases.values()):
            case.cancel()
        for waiting in self._polls.values():
            if not waiting.done():
                waiting.set_exception(ConnectionError("the worker has gone"))
        self.node.left(self)


def _unheard(held: list[m.Held], heard: int) -> list[m.Held]:
    """Of each request what was held before the first End that was not heard; nothing of those whose last one was."""
    found: dict[int, m.Held] = {}
    for one in sorted(held, key=lambda each: each.ended or sys.maxsize):
        if not one.ended or one.ended > heard:
            found.setdefault(one.n, one)
    return list(found.values())
