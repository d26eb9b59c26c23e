"""A batch request that runs may be told to give its slot to a realtime one, as long as nothing of its answer is there.

What a replica did for it until then is thrown away, and costs its tenant nothing. The rules of who is told are in `limits.lent`.
"""

from __future__ import annotations

import asyncio
from types import TracebackType

from gateway.call import Call
from gateway.dispatch.types import Grant
from gateway.job import Job
from gateway.settle import Ending
from limits.waiting import Priority


class GaveWay(Exception):  # noqa: N818 - it names what happened
    """Its attempt was given up; its slot is to follow."""


class Yielding:
    """While this is entered its task may be interrupted, once: then leaving raises GaveWay. A task that was cancelled by somebody
    else as well stays cancelled.

    It gives way only before its first byte, where nobody more urgent shares its answer, and where no attempt has failed.
    """

    __slots__ = ("_call", "_cancelled", "_grant", "_job", "_ordered", "_task")

    def __init__(self, job: Job, call: Call, grant: Grant) -> None:
        self._job, self._call, self._grant = job, call, grant
        self._ordered = False

    async def __aenter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None, "a request has a task"
        self._task, self._cancelled = task, task.cancelling()
        self._grant.lend(self._order)

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if not self._ordered:
            self._grant.lend(None)
        elif self._task.uncancel() <= self._cancelled and kind is asyncio.CancelledError:
            raise GaveWay from None

    def _order(self) -> bool:
        job, task = self._job, self._task
        if job.work.first_byte_at or job.failures.attempts > 1 or job.failures.failed is not None:
            return False
        if job.wishes.priority is not Priority.BATCH or task.cancelling() > self._cancelled:
            return False
        self._ordered = task.cancel()
        if self._ordered:
            self._call.ending = Ending.PREEMPTED
        return self._ordered


class Spare(Yielding):
    """It gives way whenever it is told to, whatever there is of its answer: no client has any of it."""

    __slots__ = ()

    def _order(self) -> bool:
        if self._task.cancelling() > self._cancelled:
            return False
        self._ordered = self._task.cancel()
        if self._ordered:
            self._call.ending = Ending.PREEMPTED
        return self._ordered
