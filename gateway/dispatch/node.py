"""The owner: one process that holds what decisions rest on, for every worker of the machine."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from itertools import count
from os import urandom
from typing import Any

import msgspec

from backends.replica import Replica
from caches.types import Entry
from gateway.dispatch import messages as m
from gateway.dispatch.case import Case
from gateway.dispatch.fault import encoded
from gateway.dispatch.feeds import Feeds
from gateway.dispatch.local import LocalDispatcher
from gateway.dispatch.roster import Roster, spec_of_known
from gateway.dispatch.session import Session
from gateway.errors import ApiError
from gateway.fleet import ADMIN, CONFIG, Fleet
from limits.types import Scope
from limits.vault import Vault

_log = logging.getLogger("tiergate.dispatch")
_MOST_SCOPES = 65_536
_ROSTER_SECONDS = 0.2
_POLL_SECONDS = 1.0
_GATHER_SECONDS = 0.3

Calls = Mapping[str, Callable[[Session, bytes], Awaitable[bytes]]]


class Node:
    """`calls` are what workers may ask beside requests; `counts` takes what a worker has counted."""

    def __init__(
        self,
        local: LocalDispatcher,
        fleet: Fleet,
        vault: Vault,
        *,
        calls: Calls,
        counts: Callable[[str, bytes], Sequence[str]],
        forget: Callable[[str], None],
        heirs: int = 0,
    ) -> None:
        """`heirs`: so many workers may hold what a predecessor of this process had granted."""
        self.local = local
        self.roster = Roster(fleet, local.lanes)
        self.feeds = Feeds()
        self.epoch = urandom(8).hex()
        self.berths: dict[bytes, Case] = {}  # who makes the answer of a key, that others may share
        self.sessions: set[Session] = set()
        self._heirs = heirs
        self._guests: list[Session] = []  # who wait for the heirs
        self._met: set[str] = set()  # workers that have said Hello to this process
        self._fleet = fleet
        self._vault = vault
        self._calls = calls
        self._counts = counts
        self._forget = forget
        self._scopes: dict[Scope, Scope] = {}
        self._polls = count(1)
        self._tasks: set[asyncio.Task[None]] = set()
        self._restored = False

    # -- sessions

    def session(self) -> Session:
        """For a worker that connects."""
        return Session(self)

    def welcome(self, session: Session, hello: m.Hello) -> bool:
        """Whether it is this worker's first connection to this process."""
        first = hello.worker not in self._met
        self._met.add(hello.worker)
        self.sessions.add(session)
        if hello.epoch and hello.epoch != self.epoch and not self._restored:
            self._restored = True
            self._restore(hello.roster)
        return first

    def admit(self, session: Session) -> None:
        """Welcome it. No worker may ask for anything new before all have told what they hold: it might be given twice."""
        if not self._heirs:
            session.welcome()
            return
        if not self._guests:
            asyncio.get_running_loop().call_later(_GATHER_SECONDS, self._open)
        self._guests.append(session)
        if len({guest.worker for guest in self._guests if guest in self.sessions}) >= self._heirs:
            self._open()

    def _open(self) -> None:
        self._heirs = 0
        guests, self._guests = self._guests, []
        for session in guests:
            session.welcome()

    def left(self, session: Session) -> None:
        self.sessions.discard(session)
        self.feeds.left(session)
        if session.worker:
            self._forget(session.worker)

    def vacate(self, case: Case) -> None:
        """Its work is over: the next request of its key makes the answer anew."""
        if case.share is not None and self.berths.get(case.share) is case:
            del self.berths[case.share]

    def scope(self, scope: Scope) -> Scope:
        """The one object for equal scopes of all workers: the ledger is quicker with an object that it knows."""
        known = self._scopes.get(scope)
        if known is None:
            if len(self._scopes) >= _MOST_SCOPES:
                self._scopes.clear()
            known = self._scopes[scope] = scope
        return known

    # -- what lasts

    def commit(self) -> None:
        """What was decided so far outlives this process."""
        self.local.limiter.commit()

    def heard(self, worker: str) -> int:
        return self._vault.mark(bytes.fromhex(worker).ljust(16, b"\0"))

    def hear(self, worker: str, seq: int) -> None:
        self._vault.set_mark(bytes.fromhex(worker).ljust(16, b"\0"), seq)

    # -- what workers send

    def store(self, entry: Entry) -> None:
        self.spawn(self._store(entry))

    async def _store(self, entry: Entry) -> None:
        await self.local.exact.put(entry)

    def absorb(self, session: Session, counts: bytes) -> None:
        only = self._counts(session.worker, counts)
        if only:
            session.send(m.Poll(0, "only", msgspec.msgpack.encode(only)))

    def call(self, session: Session, call: m.Call) -> None:
        if call.verb == "ping":
            session.channel.tell(m.encode(m.Reply(call.id, b"", b"")))
        else:
            self.spawn(self._answer(session, call))

    async def _answer(self, session: Session, call: m.Call) -> None:
        try:
            payload, fault = await self._calls[call.verb](session, call.payload), b""
        except ApiError as error:
            payload, fault = b"", encoded(error)
        except Exception:  # noqa: BLE001 - the edge of a call: its fault must be seen, and not end the dispatcher
            _log.exception("a call of worker %d failed", session.number)
            payload, fault = b"", encoded(ApiError(500, "internal_error", "The gateway failed on this request."))
        if call.verb == "admin":
            self.tell_roster()  # what the operator has changed outlives this process before he hears that it is done
        session.send(m.Reply(call.id, payload, fault))

    async def poll(self, verb: str, payload: bytes = b"", but: Session | None = None) -> list[tuple[Session, bytes]]:
        """Ask every worker; those that answer in time."""
        sessions = [session for session in self.sessions if session is not but]
        asked = [asyncio.ensure_future(session.poll(verb, payload)) for session in sessions]
        if not asked:
            return []
        await asyncio.wait(asked, timeout=_POLL_SECONDS)
        answers = []
        for session, answer in zip(sessions, asked, strict=True):
            if answer.done() and not answer.cancelled() and answer.exception() is None:
                answers.append((session, answer.result()))
            else:
                answer.cancel()
        return answers

    def next_poll(self) -> int:
        return next(self._polls)

    # -- the roster

    def serial(self, replica: Replica) -> int | None:
        """By which number the workers know it: they are told now if they do not, ahead of who is granted it."""
        if not self.roster.seen(replica):
            self.tell_roster()
        return self.roster.serial(replica)

    def tell_roster(self) -> None:
        changed, gone = self.roster.changes()
        if changed or gone:
            message = m.Roster(changed, gone)
            for session in self.sessions:
                session.send(message)

    async def run(self) -> None:
        """For ever: tell the workers which replicas there are."""
        while True:
            await asyncio.sleep(_ROSTER_SECONDS)
            self.tell_roster()

    def _restore(self, known: list[m.Known]) -> None:
        """What the operator and discovery had changed under a predecessor of this process, as a worker was told."""
        named = {(one.model, one.name): one for one in known}
        for (model, name), one in named.items():
            if not self._fleet.has(model):
                continue
            with suppress(ApiError):
                if name not in self._fleet.members(model) and one.source != CONFIG:
                    self._fleet.add(model, spec_of_known(one), source=one.source, at_start=True)
                if one.held:
                    self._fleet.drain(model, name)
                if one.up:
                    self._fleet.members(model)[name].replica.up = True
        for model in self.local.lanes:
            if self._fleet.has(model):
                for name, member in list(self._fleet.members(model).items()):
                    if member.source == CONFIG and (model, name) not in named:
                        self._fleet.leave(model, name)
        _log.info("a worker told of %d replicas, %d of them added by hand", len(known), sum(k.source == ADMIN for k in known))

    # -- the process

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        for session in list(self.sessions):
            session.channel.abort()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
