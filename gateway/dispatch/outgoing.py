"""Answers that this worker makes, on their way to clients of other workers.

A worker that wants one has a seat in the flight, as a client of this worker's own has: it keeps the work going as long as it
listens, reads at its own pace, and holds up nobody.

Whose line tells the tokens: this worker's, while a client of its own is aboard or has told them. If none is, the worker that
is told of the end first gets them with it (`reported` is then False there).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import cast

import msgspec

from caches.errors import FlightLagged, Orphaned
from caches.flight import Flight, Flights, Seat
from gateway.dispatch import messages as m
from gateway.dispatch.facts import facts_of
from gateway.dispatch.fault import encoded
from gateway.dispatch.feeds import GONE, LAGGED, WINDOW
from gateway.errors import ApiError, internal_error
from gateway.exchange import Work
from gateway.refusals import REFUSALS, refusal
from gateway.reply import Head

_log = logging.getLogger("tiergate.dispatch")
_MOST_TICKS = 100
_PATIENCE = 6.0  # seconds that a feed waits for its subscriber, once a dispatcher has gone

Send = Callable[[msgspec.Struct], None]


class Outgoing:
    """`boarding` tells of one of this worker's requests, by its number, that it is about to take its seat in a flight."""

    def __init__(self, flights: Flights, send: Send, boarding: Callable[[int], bool]) -> None:
        self._flights = flights
        self._send = send
        self._boarding = boarding
        self._feeds: dict[int, tuple[Outlet, asyncio.Task[bytes]]] = {}
        self._losses = 0

    def __len__(self) -> int:
        return len(self._feeds)

    def said(self, message: m.Subscribe | m.Credit | m.Unsubscribe) -> None:
        outlet, task = self._feeds.get(message.feed, (None, None))
        if isinstance(message, m.Subscribe):
            self._asked(outlet, message)
        elif isinstance(message, m.Credit):
            if outlet is not None:
                outlet.credit(message.taken)
        elif outlet is not None and outlet.end is not None:
            del self._feeds[message.feed]
        elif task is not None:
            task.cancel()

    def welcomed(self) -> None:
        """There is an owner, and subscribers will ask it for the rest."""
        for outlet, _ in self._feeds.values():
            if outlet.lost:
                self._send(m.Offer(outlet.number))

    def lost(self) -> None:
        """The owner has gone, and nobody hears us until there is another one, and the subscribers have found it."""
        self._losses += 1
        for outlet, _ in self._feeds.values():
            outlet.lost = self._losses
        if self._feeds:
            asyncio.get_running_loop().call_later(_PATIENCE, self._give_up, self._losses)

    def _give_up(self, loss: int) -> None:
        for number, (outlet, task) in list(self._feeds.items()):
            if outlet.lost == loss and not task.cancel():
                del self._feeds[number]

    def _asked(self, outlet: Outlet | None, message: m.Subscribe) -> None:
        if outlet is not None and message.had is not None:
            outlet.again(message.had)
        elif outlet is not None:
            outlet.urge(message.priority)
        elif message.had is not None:
            self._send(m.FeedEnd(message.feed, b"", GONE))
        else:
            self._begin(message)

    async def idle(self) -> None:
        """Returns when nothing is on its way: before that, the end of this process breaks streams of others."""
        while self._feeds:  # noqa: ASYNC110 - once, at the end of the process
            await asyncio.sleep(0.02)

    def _begin(self, asked: m.Subscribe) -> None:
        outlet = Outlet(asked.feed, self._send, asked.priority)
        task = asyncio.get_running_loop().create_task(self._run(outlet, asked))
        task.add_done_callback(partial(self._ended, outlet))
        self._feeds[asked.feed] = outlet, task

    async def _run(self, outlet: Outlet, asked: m.Subscribe) -> bytes:
        return await self._pass_on(outlet, asked.share) if await self._found(asked) else GONE

    def _ended(self, outlet: Outlet, task: asyncio.Task[bytes]) -> None:
        """Also when nobody there listens any more: it is told how far the work came, all the same. It is kept until it was
        passed on; amid a loss it is said when somebody asks again.
        """
        fault = GONE if task.cancelled() else task.result()
        outlet.end = m.FeedEnd(outlet.number, _account(outlet.flight), fault)
        if task.cancelled():
            del self._feeds[outlet.number]
        if not outlet.lost or task.cancelled():
            self._send(outlet.end)

    async def _found(self, asked: m.Subscribe) -> bool:
        """Whether there is such a flight, in the format that the owner told of it. It may be made only in the next ticks."""
        for _ in range(_MOST_TICKS):
            flight = self._flights.flying(asked.share)
            if flight is not None:
                return flight.stream == asked.stream
            if not self._boarding(asked.n):
                break
            await asyncio.sleep(0)
        return False

    async def _pass_on(self, outlet: Outlet, share: bytes) -> bytes:
        """Everything, until it ends; why it is not whole."""
        try:
            async with self._flights.attend(share, priority=outlet.priority) as seat:
                outlet.take(seat)
                await seat.follow(outlet)
                await outlet.emptied()
        except Orphaned:
            return GONE
        except FlightLagged:
            return LAGGED
        except ApiError as error:
            return encoded(error)
        except REFUSALS as error:
            return encoded(refusal(error))
        except Exception:  # noqa: BLE001 - the edge of a feed, as of a request: those who lead tell of the same one
            _log.exception("an answer for another worker failed")
            return encoded(internal_error())
        return b""


class Outlet:
    """The sink of one feed: it says what it is given, as far as there is credit, and keeps it until it is taken."""

    line = None  # pipes have no chunks
    __slots__ = (
        *("_first", "_rest", "_rest_usage", "_room", "_said", "_send", "_taken", "_waiter"),
        *("end", "flight", "lost", "number", "priority", "seat"),
    )

    def __init__(self, number: int, send: Send, priority: int) -> None:
        self.number = number
        self.priority = priority
        self.seat: Seat | None = None
        self.flight: Flight | None = None
        self.lost = 0  # in which of the losses it was, while nobody has asked for the rest
        self.end: m.FeedEnd | None = None
        self._send = send
        self._said: deque[m.FeedHead | m.Piece] = deque()  # and not known to have come
        self._first = 0  # the number of the first of them
        self._taken = 0  # bytes of them that have come
        self._room = WINDOW
        self._rest = b""  # of a piece that there was not enough credit for
        self._rest_usage = False
        self._waiter: asyncio.Future[None] | None = None

    @property
    def writable(self) -> bool:
        return self._room > 0 and not self._rest

    def take(self, seat: Seat) -> None:
        self.seat, self.flight = seat, seat.flight

    def urge(self, priority: int) -> None:
        """Somebody more urgent waits there."""
        self.priority = min(priority, self.priority)
        if self.flight is not None:
            self.flight.raise_priority(priority)

    def begin(self, head: object) -> None:
        facts = facts_of(self._work, reported=True)
        begun = cast(Head, head)
        self._say(m.FeedHead(self.number, begun.status, begun.content_type, begun.stream, facts))

    def write(self, data: bytes, usage_only: bool) -> None:
        size = len(data)
        if size <= self._room:
            self._room -= size
            self._say(m.Piece(self.number, data, usage_only, False, self._work.finished))
        else:
            self._rest, self._rest_usage = data, usage_only
            self._push()

    def credit(self, taken: int) -> None:
        self._room += taken
        self._taken += taken
        self._forget()
        self._go_on()

    def again(self, had: int) -> None:
        """After a loss: say what has not come."""
        said, self.lost, self._taken = self._said, 0, 0
        while self._first < had and said:
            said.popleft()
            self._first += 1
        self._room = WINDOW - sum(map(_size, said))
        for message in said:
            self._send(message)
        if self.end is not None:
            self._send(self.end)
        self._go_on()

    def _go_on(self) -> None:
        if self._rest:
            self._push()
        if self.writable and self.seat is not None:
            if self._waiter is not None and not self._waiter.done():
                self._waiter.set_result(None)
            self.seat.catch_up()

    async def emptied(self) -> None:
        """Returns when nothing is left over."""
        while self._rest:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter

    @property
    def _work(self) -> Work:
        assert self.flight is not None, "written to by its flight"
        return cast(Work, self.flight.note)

    def _push(self) -> None:
        part, self._rest = self._rest[: self._room], self._rest[self._room :]
        if part:
            self._room -= len(part)
            self._say(m.Piece(self.number, part, self._rest_usage, bool(self._rest), self._work.finished))

    def _say(self, message: m.FeedHead | m.Piece) -> None:
        """Amid a loss when its turn comes: the next dispatcher may know of the feed before `again` does, and would pass it on
        ahead of what was lost.
        """
        self._said.append(message)
        if not self.lost:
            self._send(message)

    def _forget(self) -> None:
        """What has come."""
        said = self._said
        while self._taken > 0 and said:
            self._taken -= _size(said.popleft())
            self._first += 1


def _size(message: m.FeedHead | m.Piece) -> int:
    return len(message.data) if isinstance(message, m.Piece) else 0


def _account(flight: Flight | None) -> bytes:
    """What the work came to, and whether its tokens are the other's to tell."""
    work = None if flight is None else flight.note
    if flight is None or not isinstance(work, Work):
        return b""
    theirs = work.settled and not work.reported and all(isinstance(reader.sink, Outlet) for reader in flight.readers)
    facts = facts_of(work, reported=not theirs)
    work.reported = work.reported or theirs
    return facts
