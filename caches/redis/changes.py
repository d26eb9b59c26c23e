"""What other gateways change on a shared server, heard at once; and for how long the silence may be believed.

    connect, subscribe ──► everything may have changed ──► messages; every `_PING` seconds a ping, and the server's epoch
                                   ▲                          │  │
                                   └── it is another one ─────┼──┘
    any failure, or silence: nothing is believed ◄────────────┘   again after a while that is drawn at random

A connection that is cut without a word looks like one on which nothing happens. So what was heard counts only for `LEASE`
seconds from when the last ping that was answered was sent: an answer comes behind every message that was published before the
ping, on the same connection. Whoever has changed something on the server and then waits for `LEASE` seconds knows that everybody
has heard of it, or believes nothing any more. That holds for a gateway that is cut off, stopped or too busy to listen.

A server that is wiped (FLUSHALL) says so to nobody. So its epoch (see `epoch`) is asked for as often, by a connection of its own,
for one that is subscribed may ask nothing. That, too, counts for `LEASE` seconds from when it was asked.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from typing import Any

from redis.asyncio.connection import AbstractConnection

from caches.orders import LEASE
from caches.redis.epoch import read_epoch
from caches.redis.pool import disconnect
from caches.redis.server import Server, said_by

_PING = 0.15
_SILENCE = 2.0  # after which a connection is given up
_CONNECT = 1.0
_PAUSES = (0.1, 2.0)  # between attempts: the shortest and the longest
_MOST_PINGS = 64
_LONGEST = 256  # bytes of a message
_log = logging.getLogger("tiergate.cache")


class Changes:
    """`heard` is called with the id of an entry that another gateway has stored, replaced or deleted; None: anything may have
    changed. `clock` must never be set.
    """

    def __init__(
        self,
        server: Server,
        channel: str,
        me: bytes,
        heard: Callable[[str | None], None],
        clock: Callable[[], float],
        rng: random.Random,
    ) -> None:
        self._server = server
        self._channel = channel
        self._me = me
        self._heard = heard
        self._clock = clock
        self._rng = rng
        self._until = float("-inf")  # to be believed, as far as messages go
        self._lasts = float("-inf")  # likewise, as far as the epoch goes
        self._epoch: bytes | None = None
        self._pings: dict[bytes, float] = {}  # sent, and not answered yet
        self._number = 0
        self._pause = _PAUSES[0]
        self._cut = False  # and said so
        self._task: asyncio.Task[None] | None = None

    @property
    def believed(self) -> bool:
        """Whether all that happened up to `LEASE` seconds ago has been heard."""
        return self._clock() < min(self._until, self._lasts)

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            try:
                await self._listen()
            except Exception as error:  # noqa: BLE001 - the edge: what is no Redis can make its client raise anything at all
                self._tell(error)
            finally:
                self._until = self._lasts = float("-inf")
            await asyncio.sleep(self._pause * self._rng.uniform(0.5, 1.0))
            self._pause = min(_PAUSES[1], self._pause * 2)

    async def _listen(self) -> None:
        self._pings.clear()
        self._epoch = None
        connection, other = self._server.connection(), self._server.connection()
        async with AsyncExitStack() as stack:
            stack.push_async_callback(disconnect, connection)
            stack.push_async_callback(disconnect, other)
            async with asyncio.timeout(_CONNECT):
                await connection.connect()  # type: ignore[no-untyped-call]
                await connection.send_command("SUBSCRIBE", self._channel)
                await connection.read_response()
                await other.connect()  # type: ignore[no-untyped-call]
                await self._compare(other)
            self._tell(None)
            await _first(self._read(connection), self._ping(connection), self._watch(other))

    async def _read(self, connection: AbstractConnection) -> None:
        while True:
            async with asyncio.timeout(_SILENCE):
                self._take(await connection.read_response())

    async def _watch(self, connection: AbstractConnection) -> None:
        while True:
            await asyncio.sleep(_PING)
            async with asyncio.timeout(_SILENCE):
                await self._compare(connection)

    async def _compare(self, connection: AbstractConnection) -> None:
        """The first epoch is another one, too: what was kept until now was kept by hearsay."""
        asked = self._clock()
        epoch = await read_epoch(connection)
        if epoch != self._epoch:
            self._epoch = epoch
            self._heard(None)
        self._lasts = asked + LEASE

    async def _ping(self, connection: AbstractConnection) -> None:
        while True:
            self._number += 1
            name = b"%d" % self._number
            if len(self._pings) < _MOST_PINGS:
                self._pings[name] = self._clock()
            await connection.send_command("PING", name, check_health=False)
            await asyncio.sleep(_PING)

    def _take(self, message: Any) -> None:
        match message:
            case [b"pong", bytes() as name]:
                sent = self._pings.pop(name, None)
                if sent is not None:
                    self._until = max(self._until, sent + LEASE)
            case [b"message", _, bytes() as text] if len(text) <= _LONGEST:
                kind, who, which = text[:1], text[1:9], text[9:]
                if who != self._me:
                    self._heard(which.decode("utf-8", "replace") if kind == b"c" and which else None)
            case _:
                raise ValueError("that is no message")

    def _tell(self, error: Exception | None) -> None:
        if error is None:
            self._pause = _PAUSES[0]
            if self._cut:
                _log.info("%s: changes are heard again", self._server.place)
        elif not self._cut:
            _log.warning("%s: changes are not heard, nothing is served from memory: %s", self._server.place, said_by(error))
        self._cut = error is not None


async def _first(*work: Coroutine[Any, Any, None]) -> None:
    """Until one of them ends, and as that one does; the others are ended."""
    tasks = [asyncio.get_running_loop().create_task(each) for each in work]
    try:
        ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        ended.pop().result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
