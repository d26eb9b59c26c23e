"""Connections to one server: few, lent by scope, and never given to anybody else in the middle of a command.

- A connection is made by a task of its own, with a deadline of its own. A caller whose deadline is shorter than connecting takes
  (TLS to another zone) misses, and the next one finds it made.
- Whatever ends a scope but its normal end (an error, a deadline, a cancellation) ends the connection: an answer that nobody
  waited for would be taken for the next one's.
- At most `most` connections; who finds none waits in line.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

from redis.asyncio.connection import AbstractConnection


class Pool:
    def __init__(self, make: Callable[[], AbstractConnection], most: int, connect_seconds: float) -> None:
        self._make = make
        self._most = most
        self._connect_seconds = connect_seconds
        self._idle: list[AbstractConnection] = []  # the one that was used last is used first
        self._waiting: deque[asyncio.Future[AbstractConnection]] = deque()
        self._open = 0  # idle or lent
        self._connecting = 0
        self._made: set[asyncio.Task[None]] = set()
        self._ended: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def lend(self) -> AsyncIterator[AbstractConnection]:
        """Raises what connecting raised."""
        connection = self._idle.pop() if self._idle else await self._wait()
        try:
            yield connection
        except BaseException:
            self._end(connection)
            raise
        self._give(connection)

    @property
    def has_idle(self) -> bool:
        return bool(self._idle)

    def end_idle(self) -> None:
        """What failed once is not to fail again for everybody: the next callers connect anew."""
        while self._idle:
            self._end(self._idle.pop())

    async def close(self) -> None:
        """With nothing lent."""
        for task in self._made:
            task.cancel()
        self.end_idle()
        await asyncio.gather(*self._made, *self._ended, return_exceptions=True)

    async def _wait(self) -> AbstractConnection:
        place: asyncio.Future[AbstractConnection] = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        self._grow()
        try:
            return await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled() and place.exception() is None:  # it came, and nobody is here any more
                self._give(place.result())
            raise

    def _give(self, connection: AbstractConnection) -> None:
        while self._waiting:
            place = self._waiting.popleft()
            if not place.done():
                place.set_result(connection)
                return
        self._idle.append(connection)

    def _end(self, connection: AbstractConnection) -> None:
        self._open -= 1
        _spawn(disconnect(connection), self._ended)
        self._grow()

    def _grow(self) -> None:
        while self._connecting < len(self._waiting) and self._open + self._connecting < self._most:
            self._connecting += 1
            _spawn(self._connect(), self._made)

    async def _connect(self) -> None:
        connection = None
        try:
            connection = self._make()
            async with asyncio.timeout(self._connect_seconds):
                await connection.connect()  # type: ignore[no-untyped-call]
        except BaseException as error:
            self._connecting -= 1
            if connection is not None:
                await disconnect(connection)
            if not isinstance(error, Exception):
                raise
            self._refuse(error)
        else:
            self._connecting -= 1
            self._open += 1
            self._give(connection)

    def _refuse(self, error: Exception) -> None:
        """Who waits learns at once that there is no connection to be had, unless one is lent that may come back."""
        if self._open:
            return
        while self._waiting:
            place = self._waiting.popleft()
            if not place.done():
                place.set_exception(error)


def _spawn(work: Coroutine[Any, Any, None], tasks: set[asyncio.Task[None]]) -> None:
    task = asyncio.get_running_loop().create_task(work)
    tasks.add(task)
    task.add_done_callback(tasks.discard)


async def disconnect(connection: AbstractConnection) -> None:
    with suppress(Exception):  # it is given up either way
        await connection.disconnect()
