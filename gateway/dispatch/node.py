"""The owner: one process that holds what decisions rest on, for every worker of the machine."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
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
from gateway.dispatch.gathering import Gathering
from gateway.dispatch.hearing import Hearing
from gateway.dispatch.local import LocalDispatcher
from gateway.dispatch.roster import Roster, spec_of_known
from gateway.dispatch.session import Session
from gateway.errors import ApiError, internal_error
from gateway.fleet import ADMIN, CONFIG, Fleet
from gateway.refusals import REFUSALS, refusal
from limits.types import Scope
from limits.vault import Vault

_log = logging.getLogger("tiergate.dispatch")
_MOST_SCOPES = 65_536
_MOST_DEPARTED = 64
_ROSTER_SECONDS = 0.2
_STILL_SECONDS = 1.0  # without a turn of `run`
_WAKING_SECONDS = 0.05
_SILENCE = 5.0  # seconds
_POLL_SECONDS = 1.0
_JUST_NOW = 0.1  # seconds: longer than a limits store is waited for, if nothing else is said
_ENDS_SECONDS = 0.05  # that a refusal may wait for workers to say what they have not said

Calls = Mapping[str, Callable[[Session, bytes], Awaitable[bytes]]]


class Node:
    """`calls` are what workers may ask beside requests; `counts` takes what a worker has counted."""

    def __init__(
        self,
        local: LocalDispatcher,
        fleet: Fleet,
        vault: Vault,
        *,
        config: str,
        workers: int,
        calls: Calls,
        counts: Callable[[str, bytes], Sequence[str]],
        forget: Callable[[str], None],
    ) -> None:
        self.local = local
        local.hear = Hearing(self._hear_ends).all
        self.roster = Roster(fleet, local.lanes)
        self.feeds = Feeds(self)
        self.epoch = urandom(8).hex()
        self.berths: dict[bytes, Case] = {}  # who makes the answer of a key, that others may share
        self.sessions: set[Session] = set()
        self.ended = float("-inf")  # when a request last did, on the loop's clock
        self._fleet = fleet
        self._vault = vault
        self.config = config
        self._calls = calls
        self._counts = counts
        self._forget = forget
        self._scopes: dict[Scope, Scope] = {}
        self._heard: dict[bytes, int] = {}  # Ends of workers by name, since the last commit
        self._storing: list[Entry] = []
        self._polls = count(1)
        self._tasks: set[asyncio.Task[None]] = set()
        self._restored = False
        self.gathering = Gathering(workers)
        self._expected = workers
        self._ticked = 0.0  # when `run` had its last turn
        self._woke = float("-inf")
        self._departed: dict[str, None] = {}  # workers without a connection
        self.closing = False  # a successor takes over what runs

    # -- sessions

    def session(self) -> Session:
        """For a worker that connects."""
        return Session(self)

    def welcome(self, session: Session, hello: m.Hello) -> None:
        self._departed.pop(hello.worker, None)
        self.tell_roster()
        if hello.epoch and hello.epoch != self.epoch and not self._restored:
            self._restored = True
            self._restore(hello.roster, same_config=hello.config == self.config)
            self.tell_roster()
        self.sessions.add(session)

    def left(self, session: Session) -> None:
        self.sessions.discard(session)
        self.feeds.left(session)
        if session.worker:
            self._forget(session.worker)
            if all(other.worker != session.worker for other in self.sessions):  # else it is back already
                self._departed[session.worker] = None
        while len(self._departed) > _MOST_DEPARTED:  # it will not come back
            oldest = next(iter(self._departed))
            self.hear(bytes.fromhex(oldest), 0)
            del self._departed[oldest]

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
        """What was decided so far outlives this process, and with it, in one batch, how far workers were heard."""
        heard = self._heard
        if heard:
            for worker, seq in heard.items():
                self._vault.set_mark(worker, seq)
            heard.clear()
        self.local.limiter.commit()

    def heard(self, worker: bytes) -> int:
        """The last End that was heard of the worker of this name."""
        return self._heard.get(worker) or self._vault.mark(worker)

    def hear(self, worker: bytes, seq: int) -> None:
        self._heard[worker] = seq

    # -- what workers send

    def store(self, entry: Entry) -> None:
        """With whatever else comes in this tick."""
        self._storing.append(entry)
        if len(self._storing) == 1:
            self.spawn(self._store())

    async def _store(self) -> None:
        storing, self._storing = self._storing, []
        for entry in storing:
            await self.local.exact.put(entry)

    def absorb(self, session: Session, counts: bytes) -> None:
        only = self._counts(session.worker, counts)
        if only:
            session.send(m.Poll(0, "only", msgspec.msgpack.encode(only)))

    def call(self, session: Session, call: m.Call) -> None:
        if call.verb == "ping":
            session.send(m.Reply(call.id, b"", b""))
        else:
            self.spawn(self._answer(session, call))

    async def _answer(self, session: Session, call: m.Call) -> None:
        try:
            payload, fault = await self._calls[call.verb](session, call.payload), b""
        except ApiError as error:
            payload, fault = b"", encoded(error)
        except REFUSALS as error:
            payload, fault = b"", encoded(refusal(error))
        except Exception:  # noqa: BLE001 - the edge of a call: its fault must be seen, and not end the dispatcher
            _log.exception("a call of worker %d failed", session.number)
            payload, fault = b"", encoded(internal_error())
        if call.verb == "admin":
            self.tell_roster()  # what the operator has changed outlives this process before he hears that it is done
        session.send(m.Reply(call.id, payload, fault))

    async def poll(self, verb: str) -> None:
        """Have every worker do something; returns when all have, but for those that take too long."""
        await self._poll(verb, self.sessions, _POLL_SECONDS)

    async def _hear_ends(self) -> bool:
        """Have every worker tell of what has ended. False where nobody but one request holds anything, and nobody else did when a
        store elsewhere was asked.
        """
        holding = [session for session in self.sessions if session.cases]
        if len(holding) < 2 and sum(len(session.cases) for session in holding) < 2:
            return asyncio.get_running_loop().time() - self.ended < _JUST_NOW
        await self._poll("ends", holding, _ENDS_SECONDS)
        return True

    async def _poll(self, verb: str, sessions: Iterable[Session], seconds: float) -> None:
        asked = [session.poll(verb) for session in sessions]
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await asyncio.gather(*asked, return_exceptions=True)

    def next_poll(self) -> int:
        return next(self._polls)

    # -- the roster

    def serial(self, replica: Replica) -> int | None:
        """By which number the workers know it: they are told now if they do not, ahead of who is granted it."""
        known = self.roster.serial(replica)
        if known is None:
            self.tell_roster()
            known = self.roster.serial(replica)
        return known

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
            self.stood_still()
            self._ticked = asyncio.get_running_loop().time()
            self._cut_silent(self._ticked)
            self.tell_roster()

    def _cut_silent(self, now: float) -> None:
        """A worker says something every half second. One that does not stands still: what it holds is for others, until it comes
        back, on another connection, and tells of what it still has.
        """
        if now - self._woke < _SILENCE:  # it was this process
            return
        for session in list(self.sessions):
            if now - session.spoke > _SILENCE:
                _log.error("worker %d has said nothing for %.0f s: its connection is cut", session.number, now - session.spoke)
                session.channel.abort()

    def stood_still(self) -> bool:
        """Whether this process has just come to itself. What it reads now may be of connections that were given up meanwhile."""
        loop = asyncio.get_running_loop()
        still = self._ticked > 0 and loop.time() - self._ticked > _STILL_SECONDS
        if still and loop.time() - self._woke > _STILL_SECONDS:
            self._woke = loop.time()
            self.gathering = Gathering(self._expected, again=True)
            loop.call_later(_STILL_SECONDS, self.gathering.end)
        return still or loop.time() - self._woke < _WAKING_SECONDS

    def _restore(self, known: list[m.Known], *, same_config: bool) -> None:
        """What the operator and discovery had changed under a predecessor of this process, as a worker was told.

        What the config has and the worker was not told of had been taken out by hand, unless the config is another one now.
        """
        named = {(one.model, one.name): one for one in known}
        for (model, name), one in named.items():
            if not self._fleet.has(model):
                continue
            with suppress(ApiError):
                if name not in self._fleet.members(model) and one.source != CONFIG:
                    self._fleet.add(model, spec_of_known(one), source=one.source, at_start=True)
                member = self._fleet.members(model).get(name)
                if member is None or member.spec.url != one.url:
                    continue
                if one.held:
                    self._fleet.drain(model, name)
                if one.up:
                    member.replica.up = True
        for model in self.local.lanes:
            if same_config and self._fleet.has(model):
                for name, member in list(self._fleet.members(model).items()):
                    if member.source == CONFIG and (model, name) not in named:
                        self._fleet.leave(model, name)
        _log.info("a worker told of %d replicas, %d of them added by hand", len(known), sum(k.source == ADMIN for k in known))

    # -- the process

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def hand_over(self) -> None:
        """Write what a successor goes on from: what runs stays charged, for it is adopted; who waits for a slot will ask it anew,
        so nothing stays set aside for that. `close` is to follow at once.
        """
        while waiting := [case for session in self.sessions for case in session.cases.values() if case.queued]:
            for case in waiting:
                case.cancel()
            await asyncio.gather(*(case.task for case in waiting if case.task is not None), return_exceptions=True)
        self.commit()

    async def close(self) -> None:
        self.closing = True
        for session in list(self.sessions):
            session.channel.abort()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
