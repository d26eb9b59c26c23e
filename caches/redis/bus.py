"""A channel that several gateways speak and listen on, through one Redis or Valkey server: small messages, none of them kept.

    connect, subscribe ──► messages, in the order in which they were sent; what is said here comes back like everybody's
    any failure, an answer that takes too long, or silence: cut ──► again after a while that is drawn at random, and
    longer each time until a message was heard

While it is cut nothing is asked of the server but to connect, ever less often. Who speaks regularly and hears himself knows
that he hears everybody. One log line a change of state.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any, Final

from redis.asyncio.connection import AbstractConnection, ConnectionPool
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ResponseError

from caches.redis.pool import disconnect
from caches.redis.server import place_of, said_by

_CONNECT: Final = 1.0  # seconds
_SILENCE: Final = 1.0  # without a message, not even one of its own
_ANSWER: Final = 0.5  # to one that was said
_PAUSES: Final = (0.1, 2.0)  # between attempts: the shortest and the longest
CHANNEL: Final = "tiergate:1:between:"
"""What the names of channels begin with; messages of another format have another number."""
_log = logging.getLogger("tiergate.between")


class Bus:
    """`heard` is given every message on the channel, and must not raise. Who uses it speaks more often than once in a second."""

    def __init__(self, url: str, channel: str, heard: Callable[[bytes], None], rng: random.Random) -> None:
        self._source = ConnectionPool.from_url(
            url, protocol=2, retry=Retry(NoBackoff(), 0), socket_timeout=None, socket_connect_timeout=_CONNECT
        )
        self._channel = channel
        self._heard = heard
        self._rng = rng
        self._speaks: AbstractConnection | None = None
        self._failed: asyncio.Future[None] | None = None
        self._pause = _PAUSES[0]
        self._cut = False  # and said so
        self.place = place_of(url)
        self.listeners = 0  # to what was said last, this one included; since it connected
        self.connected = 0  # times
        self.away = "connecting"  # why nobody is heard; empty: they are

    async def run(self) -> None:
        """For ever."""
        while True:
            try:
                await self._listen()
            except Exception as error:  # noqa: BLE001 - the edge: what is no Redis can make its client raise anything at all
                self._tell(error)
            finally:
                self._speaks = None
            await asyncio.sleep(self._pause * self._rng.uniform(0.5, 1.0))
            self._pause = min(_PAUSES[1], self._pause * 2)

    @property
    def open(self) -> bool:
        return self._speaks is not None

    async def say(self, message: bytes) -> None:
        """To everybody, this gateway included; to nobody while it is cut. One at a time."""
        connection, failed = self._speaks, self._failed
        if connection is None or failed is None:
            return
        try:
            async with asyncio.timeout(_ANSWER):
                await connection.send_command("PUBLISH", self._channel, message, check_health=False)
                self.listeners = _count(await connection.read_response())
        except Exception as error:  # noqa: BLE001 - the edge, as above
            self._speaks = None
            if not failed.done():
                failed.set_exception(error)

    async def _listen(self) -> None:
        async with AsyncExitStack() as stack:
            listens, speaks = await self._connected(stack), await self._connected(stack)
            async with asyncio.timeout(_CONNECT):
                await listens.send_command("SUBSCRIBE", self._channel)
                await listens.read_response()
            self._failed = asyncio.get_running_loop().create_future()
            self._speaks, self.listeners = speaks, 0
            self.connected += 1
            await self._until_one(self._read(listens), self._failed)

    async def _connected(self, stack: AsyncExitStack) -> AbstractConnection:
        connection: AbstractConnection = self._source.make_connection()  # type: ignore[no-untyped-call]
        stack.push_async_callback(disconnect, connection)
        async with asyncio.timeout(_CONNECT):
            await connection.connect()  # type: ignore[no-untyped-call]
        return connection

    async def _read(self, connection: AbstractConnection) -> None:
        while True:
            async with asyncio.timeout(_SILENCE):
                message: Any = await connection.read_response()
            match message:
                case [b"message", _, bytes() as said]:
                    if self.away:
                        self._tell(None)
                    self._heard(said)
                case _:
                    raise ValueError("that is no message")

    async def _until_one(self, reads: Any, failed: asyncio.Future[None]) -> None:
        task = asyncio.get_running_loop().create_task(reads)
        try:
            await asyncio.wait([task, failed], return_when=asyncio.FIRST_COMPLETED)
            (failed if failed.done() else task).result()
        finally:
            failed.cancel()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def _tell(self, error: Exception | None) -> None:
        if error is None:
            self._pause = _PAUSES[0]
            if self._cut:
                _log.info("%s: other gateways are heard again", self.place)
        elif not self._cut:
            _log.warning("%s: other gateways are not heard, each chooses by what it knows: %s", self.place, said_by(error))
        self._cut = error is not None
        self.away = "" if error is None else "timeout" if isinstance(error, TimeoutError) else "connection"


def _count(answer: object) -> int:
    if not isinstance(answer, int):
        raise ResponseError("that is no answer to what was said")
    return answer
