"""How long one client waits for an answer that others may share: the work behind it may go on for them.

Rules of this file
- A client that goes while the work waits for a slot is told `queue_timeout`, and when to come back; later that the model did not
  answer in time, or in a stream that had begun that it took too long. Its SDK's own timeout counts for the wait alone, a deadline
  to the end.
- What has to be asked of the owner for that is asked before the client is let go: meanwhile the answer may begin.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from types import TracebackType

from caches.flight import Seat
from gateway.call import Failures
from gateway.dispatch.types import Question, WorkAsk
from gateway.errors import ApiError
from gateway.exchange import Work
from gateway.job import Job
from gateway.metrics import Metrics
from gateway.reply import Head
from gateway.streaming import broken
from limits.waiting import QueueTimeout

_SOON = 1.0  # seconds, where the owner does not say


def leaves(job: Job) -> float:
    """When to tell a client that there is no slot, a little before it goes."""
    patience = job.patience
    return math.inf if patience == math.inf else job.arrived + patience - min(max(0.05 * patience, 0.2), 2.0)


class Patience:
    """One client's, from taking its seat on. Raises QueueTimeout and ApiError 504. `total`: seconds that any answer may take."""

    __slots__ = ("_clock", "_ends", "_job", "_last", "_metrics", "_now", "_question", "_seat", "_seconds", "_task", "_timers")

    def __init__(
        self, job: Job, question: Question, seat: Seat, total: float, metrics: Metrics, clock: Callable[[], float]
    ) -> None:
        self._job = job
        self._question = question
        self._seat = seat
        self._ends = job.arrived + min(total, job.wishes.deadline or total)
        self._metrics = metrics
        self._now = clock
        self._clock = asyncio.timeout(None)
        self._timers: list[asyncio.TimerHandle] = []
        self._task: asyncio.Task[None] | None = None
        self._last = False  # its time is over
        self._seconds: float | None = None  # until it had better come back

    async def __aenter__(self) -> None:
        await self._clock.__aenter__()
        loop, now, until = asyncio.get_running_loop(), self._now(), leaves(self._job)
        self._timers.append(loop.call_later(self._ends - now, self._over))
        if until < self._ends:
            self._timers.append(loop.call_later(until - now, self._look))

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for timer in self._timers:
            timer.cancel()
        if self._task is not None:
            self._task.cancel()
        try:
            await self._clock.__aexit__(kind, error, trace)
        except TimeoutError:
            raise self._verdict() from None

    def _over(self) -> None:
        self._last = True
        self._look()

    def _look(self) -> None:
        if self._task is not None and not self._task.done():
            return
        if self._may_wait():
            self._task = asyncio.get_running_loop().create_task(self._ask())
        elif self._last:
            self._go()

    def _may_wait(self) -> bool:
        """For a slot. Of an answer that another process makes it is not known here before that begins."""
        flight = self._seat.flight
        return not flight.begun and (flight.fed or (isinstance(flight.note, Work) and flight.note.queued_at > 0))

    async def _ask(self) -> None:
        seconds = await self._come_back()
        if seconds is not None and self._may_wait():
            self._seconds = seconds
            self._go()
        elif self._last:
            self._go()

    async def _come_back(self) -> float | None:
        """In how many seconds; None: as far as is known it does not wait for a slot."""
        fed, ask = self._seat.flight.fed, self._wanted()
        if ask is not None:
            try:
                return await self._job.admitted.come_back(ask, self._job.key if fed else None)
            except ApiError:
                pass
        return None if fed else _SOON

    def _wanted(self) -> WorkAsk | None:
        plan = self._job.plan
        return self._question.first() if plan is None else plan.ask

    def _go(self) -> None:
        if not self._clock.expired():
            self._clock.reschedule(asyncio.get_running_loop().time())

    def _verdict(self) -> Exception:
        ask = self._wanted()
        if self._seconds is None or ask is None:
            head = self._seat.flight.head
            if self._job.ask.stream and isinstance(head, Head) and head.stream:
                return broken("The model's stream took too long.", timeout=True)
            return Failures(timed_out=True).error()
        self._metrics.queue_refusals.add((ask.model, self._job.wishes.priority.name.lower(), "queue_timeout"))
        return QueueTimeout(self._now() - self._job.arrived, self._seconds)
