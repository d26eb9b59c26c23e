"""Single flight: identical requests that are under way at the same time share one answer.

The first to come is the leader: its seat starts the producer, in a task of its own. The others follow. Nobody's departure
ends a flight but the last one's: then the producer is cancelled, and the leaving seat waits (at most `grace` seconds) until
it has released what it held. A second cancellation of the leaver ends that wait at once; the producer still ends by itself.

Who pays: whatever the producer reserves (tokens, a slot, a replica's lease) it holds in its own task, in scopes of its own,
and on the leader's account, even after the leader has left. A follower has paid for one request and for no tokens.

Who may share: those with the same key. The key holds the tenant, so no flight ever crosses tenants. A subscriber whose wire
format is the flight's own may `follow` piece by piece; any may wait for the `whole`.

What is heard when the producer fails:
- the leader hears the failure itself, as does everybody who was given the head of the answer;
- a failure that is `personal` (the leader's own limit, say) orphans the others: they join again, and the first of them leads;
- any other failure orphans each of them once, so that the leader's bad luck is not theirs; the second time they hear it;
- whom the record could not wait for (see relay) hears `FlightLagged`; who was given nothing yet is orphaned instead.
- a producer that raises `Orphaned` itself never had an answer to give: everybody asks again.
`Orphaned.spent` is handed to the next `join`, which so knows whether the second chance is used up.

A flight may be *fed*: its producer passes on what another process makes. Then nobody here leads: its first subscriber, too, is
a follower. `attend` is for such another process: a follower of what is made here that never starts anything.

A flight that is full, or outgrown (see relay), or would be one too many, is not joined: the request runs alone, unlisted.
Priorities are numbers, the lower the more urgent. A flight has that of its most urgent joiner, and keeps it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Any, Self

from caches.errors import FlightCancelled, FlightLagged, Orphaned
from caches.producer import Flight
from caches.reader import COMPLETE, Outcome, Reader, RecordBounds
from caches.types import Sink

__all__ = ["Flight", "FlightCancelled", "FlightLagged", "Flights", "Orphaned", "RecordBounds", "Seat"]

logger = logging.getLogger("tiergate.caches")
_CLOSING = 1.0  # seconds that a source may take to end after its last piece, when nobody waits for it any more


class Flights:
    """The flights of one process, by key."""

    def __init__(
        self,
        *,
        personal: tuple[type[BaseException], ...] = (),
        bounds: RecordBounds | None = None,
        max_subscribers: int = 10_000,
        max_flights: int = 65_536,
        grace: float = 5.0,
    ) -> None:
        self.personal = personal
        self.closed = False
        self._bounds = bounds or RecordBounds()
        self._max_subscribers = max_subscribers
        self._max_flights = max_flights
        self._grace = grace
        self._flights: dict[bytes, Flight] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None  # asking for it is a system call

    def __len__(self) -> int:
        """Flights that can be joined."""
        return len(self._flights)

    @property
    def tasks(self) -> int:
        """Producers that have not ended, those of unlisted flights included."""
        return len(self._tasks)

    def join(
        self,
        key: bytes | None,
        *,
        stream: bool,
        start: Callable[[Flight], Coroutine[Any, Any, None]],
        priority: int = 0,
        on_raise: Callable[[int], None] | None = None,
        spent: bool = False,
        fed: bool | None = None,
    ) -> Seat:
        """A seat in the flight of `key`, or in a new one that `start` feeds. Nothing happens until the seat is entered.

        `key=None` shares with nobody. `on_raise` is the new flight's hook until the producer sets another. `fed`: `start` passes
        on an answer that another process makes, and this is whether it makes it as a stream.
        """
        return Seat(self, key, stream, start, priority, on_raise, spent, fed)

    def attend(self, key: bytes, *, priority: int = 0) -> Seat:
        """A seat to `follow` the answer that is made here under `key`, in whichever format; entering raises Orphaned if none is.

        It is no second chance that whoever sits there has: it hears every failure but a personal one as it is.
        """
        return Seat(self, key, False, None, priority, None, True, None)

    def flying(self, key: bytes) -> Flight | None:
        """The flight that `attend` would find."""
        known = self._flights.get(key)
        if known is None or known.fed or known.outgrown or self.closed or len(known.readers) >= self._max_subscribers:
            return None
        return known

    async def close(self) -> None:
        """For the end of the process: cancel every producer, wait for them. Who is aboard, or joins, hears `FlightCancelled`."""
        self.closed = True
        tasks = set(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=self._grace)

    def board(self, seat: Seat) -> tuple[Flight, bool]:
        """The flight for a seat, and whether the seat leads it."""
        if self.closed:
            raise FlightCancelled("no more flights start")
        if seat.start is None:
            return self._made_here(seat), False
        known = None if seat.key is None else self._flights.get(seat.key)
        if known is not None and not known.outgrown and len(known.readers) < self._max_subscribers:
            known.raise_priority(seat.priority)
            return known, False
        fed = seat.fed is not None
        flight = Flight(seat.key, self._bounds, stream=bool(seat.fed) if fed else seat.stream, priority=seat.priority)
        flight.fed = fed
        flight.on_raise = seat.on_raise
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        flight.task = self._loop.create_task(seat.start(flight))
        flight.task.add_done_callback(partial(self._landed, flight))
        self._tasks.add(flight.task)  # the loop itself holds tasks only weakly
        if seat.key is not None and (known is None or known.outgrown) and len(self._flights) < self._max_flights:
            self._flights[seat.key] = flight
        return flight, not fed

    def _made_here(self, seat: Seat) -> Flight:
        flight = None if seat.key is None else self.flying(seat.key)
        if flight is None:
            raise Orphaned(spent=seat.spent)
        flight.raise_priority(seat.priority)
        seat.stream = flight.stream
        return flight

    async def abandon(self, flight: Flight) -> None:
        """The last subscriber has left: end the producer, and see it gone."""
        task = flight.task
        if task is None or task.done():
            return
        if flight.closing:
            await asyncio.wait((task,), timeout=_CLOSING)
            if task.done():
                return
        self.unlist(flight)
        task.cancel()
        await asyncio.wait((task,), timeout=self._grace)
        if not task.done():
            logger.warning("a cancelled producer still runs after %.1f s", self._grace)

    def _landed(self, flight: Flight, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self.unlist(flight)
        flight.task = None
        error = FlightCancelled("the producer was cancelled") if task.cancelled() else task.exception()
        if flight.ended:
            if error is not None and not task.cancelled():
                logger.error("a producer failed after its answer was complete", exc_info=error)
            return
        if error is None and not flight.begun:
            error = RuntimeError("a producer returned without an answer")
        if flight.readers:
            flight.trace = None if error is None else error.__traceback__
            flight.finish(error)

    def future(self) -> asyncio.Future[None]:
        """One of the loop that flights run on."""
        return (self._loop or asyncio.get_running_loop()).create_future()

    def unlist(self, flight: Flight) -> None:
        """Nobody joins it any more."""
        if flight.key is not None and self._flights.get(flight.key) is flight:
            del self._flights[flight.key]


@dataclass(slots=True, eq=False, repr=False)
class Seat:
    """One subscriber's part in a flight, from entering to leaving. Ask for `follow` or for `whole`, once."""

    _flights: Flights
    key: bytes | None
    stream: bool
    start: Callable[[Flight], Coroutine[Any, Any, None]] | None
    priority: int
    on_raise: Callable[[int], None] | None
    spent: bool
    fed: bool | None
    leader: bool = False
    flight: Flight = field(init=False)  # from entering on
    _reader: Reader = field(default_factory=Reader)

    async def __aenter__(self) -> Self:
        self.flight, self.leader = self._flights.board(self)
        self.flight.readers[self._reader] = None
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        flight = self.flight
        flight.leave(self._reader)
        if not flight.readers:
            flight.error = flight.trace = None  # nobody will ask, and a traceback keeps the producer's frame alive
            if not flight.ended:
                await self._flights.abandon(flight)

    @property
    def same_wire(self) -> bool:
        """Whether the flight's pieces are in this subscriber's own wire format."""
        return self.stream == self.flight.stream

    async def follow(self, sink: Sink) -> None:
        """Have every piece pushed into `sink`; return when the answer ended and all of it was written."""
        if not self.same_wire:
            raise RuntimeError("a flight in the other wire format has no pieces to follow: wait for the whole")
        self.flight.follow(self._reader, sink)
        await self._end()

    async def whole(self) -> tuple[object, list[bytes]]:
        """Wait for the end; the head and every piece, the usage chunk included."""
        flight = self.flight
        flight.await_whole(self._reader)
        await self._end()
        pieces = flight.pieces
        assert pieces is not None, "a reader for the whole is dropped before the record is cut"
        return flight.head, pieces

    def catch_up(self) -> None:
        """The sink is writable again."""
        self.flight.catch_up(self._reader)

    async def _end(self) -> None:
        reader = self._reader
        if reader.outcome is None:
            waiter = self._flights.future()
            reader.wake = partial(_resolve, waiter)
            await waiter
        if reader.outcome is not COMPLETE:
            raise self._verdict(reader)

    def forsake(self) -> None:
        """What came whole is no answer, and nobody joins it any more. Raises Orphaned, unless the second chance is used up."""
        self._flights.unlist(self.flight)
        if not self.spent:
            raise Orphaned(spent=True)

    def _verdict(self, reader: Reader) -> BaseException:
        """The table of the module's docstring."""
        error = reader.error
        if reader.outcome is Outcome.DROPPED:
            return FlightLagged() if reader.given or self.leader else Orphaned(spent=self.spent)
        assert error is not None
        reader.error = None
        if reader.outcome is Outcome.REFUSED:
            return error
        if reader.outcome is Outcome.SPOILED and not self.leader and not self._flights.closed:
            if isinstance(error, (Orphaned, *self._flights.personal)):
                return Orphaned(spent=self.spent)
            if not self.spent:
                return Orphaned(spent=True)
        return error.with_traceback(self.flight.trace)


def _resolve(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
