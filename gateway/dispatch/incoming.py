"""Answers that other workers make, on their way to clients of this one.

Each is a flight here like any other, but that nobody leads it: all of its clients follow.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from itertools import count
from os import urandom
from typing import Any

import msgspec

from caches.errors import FlightLagged, Orphaned
from caches.flight import Flight
from gateway.dispatch import messages as m
from gateway.dispatch.facts import learn
from gateway.dispatch.fault import decoded, encoded
from gateway.dispatch.feeds import GONE, LAGGED, WINDOW, broken
from gateway.exchange import Work
from gateway.reply import Head

_PATIENCE = 5.0  # seconds that it may take until a feed whose dispatcher has gone goes on: a pause is better than a break
_RETRY = 0.05  # until its maker, too, has found the next one
_LAST_WORD = 1.0  # seconds that the maker has for it, once nobody here listens any more
_CREDIT = WINDOW // 4  # bytes that are worth a word
_LOST = encoded(broken("The dispatcher that passed this answer on has gone."))


class Incoming:
    """Feeds are numbered here, from anywhere: no two workers ever have the same number."""

    def __init__(self, send: Callable[[msgspec.Struct], None]) -> None:
        self.send = send
        self._numbers = count(int.from_bytes(urandom(5)) << 20)
        self._feeds: dict[int, Intake] = {}

    def intake(self, share: bytes, *, stream: bool) -> Intake:
        return Intake(self, share, stream=stream)

    def add(self, intake: Intake) -> int:
        number = next(self._numbers)
        self._feeds[number] = intake
        return number

    def __len__(self) -> int:
        return len(self._feeds)

    def remove(self, number: int) -> None:
        del self._feeds[number]

    def said(self, message: m.FeedHead | m.Piece | m.FeedEnd) -> None:
        feed = self._feeds.get(message.feed)
        if feed is not None:
            feed.said(message)

    def lost(self) -> None:
        """The owner has gone. What it passed on goes on where it stopped if there is another one soon."""
        for feed in self._feeds.values():
            feed.interrupt()

    def welcomed(self) -> None:
        """There is an owner."""
        for feed in self._feeds.values():
            feed.again()


class Intake:
    """An answer that is made elsewhere (`gateway.dispatch.types.Elsewhere`), and the brake of the flight that passes it on."""

    __slots__ = (
        *("_feeds", "_flight", "_had", "_number", "_over", "_parts", "_patience", "_paused", "_share", "_taken", "_work"),
        "stream",
    )

    def __init__(self, feeds: Incoming, share: bytes, *, stream: bool) -> None:
        self.stream = stream
        self._feeds = feeds
        self._share = share
        self._number = 0
        self._flight: Flight | None = None  # while somebody listens
        self._work = Work()
        self._over: asyncio.Future[bytes] | None = None
        self._parts: list[bytes] = []  # of a piece that is not whole
        self._taken = 0  # bytes that the maker has not been told of
        self._paused = False
        self._had = 0  # messages of the answer
        self._patience: asyncio.TimerHandle | None = None  # while it has to go on elsewhere

    def feed(self, flight: Flight) -> Coroutine[Any, Any, None]:
        self._flight = flight
        flight.note = self._work
        flight.on_raise = self._ask
        return self._run(flight)

    async def _run(self, flight: Flight) -> None:
        over = self._over = asyncio.get_running_loop().create_future()
        self._number = self._feeds.add(self)
        flight.flow = self
        self._ask(flight.priority)
        try:
            fault = await over
        except asyncio.CancelledError:
            self._flight = None
            if over.cancelled():
                await self._last_word()
            raise
        finally:
            self._feeds.remove(self._number)
            self._calm()
            flight.flow = None
        if fault:
            raise _failure(fault, begun=flight.begun)
        flight.end()

    async def _last_word(self) -> None:
        """What the work came to is known to whoever leaves last: its tokens may be for its line to tell."""
        self._feeds.send(m.Unsubscribe(self._number))
        over = self._over = asyncio.get_running_loop().create_future()
        await asyncio.wait((over,), timeout=_LAST_WORD)

    def _ask(self, priority: int) -> None:
        """Also for a class that is more urgent than the one that was asked for."""
        if self._number:
            self._feeds.send(m.Subscribe(self._number, self._share, 0, self.stream, priority))

    # -- what the maker says

    def said(self, message: m.FeedHead | m.Piece | m.FeedEnd) -> None:
        if isinstance(message, m.FeedEnd):
            if message.fault == GONE and self._patience is not None:  # the maker has not found the next dispatcher yet
                asyncio.get_running_loop().call_later(_RETRY, self.again, self._patience)
                return
            if message.work:
                learn(self._work, message.work)
            self.end(message.fault)
            return
        self._had += 1
        self._calm()
        if isinstance(message, m.Piece):
            self._piece(message)
        else:
            learn(self._work, message.work)
            if self._flight is not None and not self._flight.begun and self._over is not None and not self._over.done():
                self._flight.begin(Head(message.status, message.content_type, message.stream))

    def interrupt(self) -> None:
        """What was on its way is lost."""
        self._calm()
        self._taken = 0  # the maker counts anew
        self._patience = asyncio.get_running_loop().call_later(_PATIENCE, self._give_up)

    def again(self, amid: asyncio.TimerHandle | None = None) -> None:
        """Ask the next dispatcher for the rest; not if it is not `amid` the same loss any more. Asked twice, it comes twice."""
        if self._patience is None or amid not in (None, self._patience):
            return
        priority = 0 if self._flight is None else self._flight.priority
        self._feeds.send(m.Subscribe(self._number, self._share, 0, self.stream, priority, self._had))
        if self._flight is None:
            self._feeds.send(m.Unsubscribe(self._number))

    def _give_up(self) -> None:
        self._patience = None
        self.end(_LOST)

    def _calm(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def end(self, fault: bytes) -> None:
        if self._over is not None and not self._over.done():
            self._over.set_result(fault)

    def _piece(self, piece: m.Piece) -> None:
        flight = self._flight
        if flight is None or self._over is None or self._over.done():
            return
        if not flight.begun:  # its head was lost with a dispatcher: whoever waits asks anew
            self.end(GONE)
            return
        self._taken += len(piece.data)
        if piece.more or self._parts:
            self._parts.append(piece.data)
        if not piece.more:
            data = piece.data
            if self._parts:
                data, self._parts = b"".join(self._parts), []
            if piece.last and not self._work.finished:
                self._work.finished = True
                flight.last()
            flight.write(data, piece.usage_only)
        if self._taken >= _CREDIT and not self._paused:
            self._credit()

    def _credit(self) -> None:
        taken, self._taken = self._taken, 0
        self._feeds.send(m.Credit(self._number, taken))

    # -- the flight's brake

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False
        if self._taken:
            self._credit()


def _failure(fault: bytes, *, begun: bool) -> Exception:
    """What the flight here fails with, so that its clients hear what the maker's own followers do."""
    if fault == LAGGED:
        return FlightLagged()
    if fault == GONE:
        return broken("The answer that this one shared has gone.") if begun else Orphaned(spent=False)
    return decoded(fault)
