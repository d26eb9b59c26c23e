"""Requests that are made once more, behind their clients' backs: to see whether a kept answer is right, or to renew it.

They run in tasks of their own, so many at a time; what finds no room is left undone. They go the whole way of a request, in the
lowest class, and what fails is no matter: somebody will ask again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from http import HTTPStatus
from typing import Any, Protocol

from msgspec import structs

from caches.assemble import assemble
from caches.types import Flow
from caches.worth import worth_keeping
from gateway.call import Failures
from gateway.dispatch.types import Dispatcher
from gateway.exchange import Work
from gateway.job import Job
from gateway.refusals import REFUSED
from gateway.relay import Sink, json_object
from gateway.reply import Head
from limits.waiting import Priority

_MOST_TASKS = 64
_MOST_BYTES = 1024 * 1024


class Produce(Protocol):
    """Has a model make the answer, into a sink."""

    def __call__(self, job: Job, sink: Sink, /) -> Coroutine[Any, Any, None]: ...


class Gathered:
    """A sink that keeps what it is given, up to a bound."""

    def __init__(self, most: int = _MOST_BYTES) -> None:
        self.head: Head | None = None
        self.pieces: list[bytes] = []
        self.flow: Flow | None = None
        self.size = 0
        self._most = most

    def begin(self, head: Head) -> None:
        self.head = head

    def write(self, data: bytes, usage_only: bool = False) -> None:  # noqa: ARG002 - the protocol's
        self.size += len(data)
        if self.size <= self._most:
            self.pieces.append(data)

    def last(self) -> None:
        """Nobody waits for it."""

    @property
    def whole(self) -> bool:
        return self.head is not None and self.size <= self._most


class Behind:
    def __init__(self, dispatcher: Dispatcher, clock: Callable[[], float]) -> None:
        self._dispatcher = dispatcher
        self._clock = clock
        self._tasks: set[asyncio.Task[None]] = set()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Returns at once."""
        if len(self._tasks) >= _MOST_TASKS:
            work.close()
            return
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def answer(self, job: Job, produce: Produce, *, paid: bool) -> tuple[Job, bytes] | None:
        """What a model says to it now; None: nothing that could be kept. `paid`: on its tenant's account, else on nobody's."""
        again, sink = _again(job, paid=paid), Gathered()
        again.arrived = self._clock()
        try:
            async with self._dispatcher.admit(again.principal.scopes) as ticket:
                again.ticket = ticket
                await produce(again, sink)
        except REFUSED:
            return None
        head = sink.head
        if not sink.whole or head is None or head.status != HTTPStatus.OK or again.work.broken or again.work.reason == "fallback":
            return None
        body = assemble(job.endpoint.name, sink.pieces) if head.stream else b"".join(sink.pieces)
        answer = None if body is None else json_object(body)
        return None if body is None or answer is None or not worth_keeping(answer) else (again, body)

    async def first_to_renew(self, key: bytes) -> bool:
        """One process of a node renews an answer, the others go on serving it."""
        return await self._dispatcher.first_to_renew(key)

    async def renewed(self, key: bytes) -> None:
        await self._dispatcher.renewed(key)

    async def settled(self) -> None:
        """Returns when nothing runs."""
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _again(job: Job, *, paid: bool) -> Job:
    principal = job.principal
    if not paid:
        principal = replace(principal, scopes=(), model_scopes={})
    return structs.replace(
        job,
        principal=principal,
        wishes=replace(job.wishes, priority=Priority.BATCH, deadline=None),
        work=Work(),
        failures=Failures(),
        ticket=None,
        decision=None,
        plan=None,
        waiting=None,
        shared=False,
        split=None,
        asked=None,
        nearly=None,
    )
