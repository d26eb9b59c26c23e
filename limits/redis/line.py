"""One connection to the server, on which many calls are under way at once, and are answered in their order.

    connecting ──► connected ──► a probe is answered in time ──► (a moment that is drawn at random) ──► asked
        ▲                                                                                               │
        └── the connection ends, or is silent for too long          `_FAILURES` failures in a row: not asked any more, only probed

Rules of this file
1. A call that is not answered within the deadline fails, and so does one whose connection ends. What became of it is not known:
   its `undo` is said behind it.
2. What is said (`say`) is not waited for. It is kept until it is answered, and said again on the next connection, before
   anything else. So it must come to the same however often it is heard.
3. Only a probe that is answered in time makes a server one that is asked again: late answers show that it is slow. How long that
   takes is drawn at random, so that many nodes do not come back at one instant.
4. A correction that is refused (no memory, a replica by now) is kept as well, and said again when a probe is answered, for then
   the server takes what is written. What is refused even then, a few times, is forgotten.
5. What is kept is bounded: too much, and the oldest is forgotten.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

from redis.asyncio.connection import AbstractConnection, ConnectionPool
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoScriptError, RedisError, ResponseError

from limits.redis.call import Call, class_of, place_of, said_by
from limits.redis.scripts import ADOPT, ALL, CORRECT, Script
from limits.redis.words import Said

_log = logging.getLogger("tiergate.limits")
_FAILURES = 3
_GRACE = 0.002  # seconds in which what has come is read, before time is called
_CONNECT = 1.0
_SILENCE = 2.0  # after which a connection is given up
_PAUSES = (0.1, 2.0)  # between attempts to connect: the shortest and the longest
_RETURN = 1.0  # at most, from hearing it again to asking it again
_MOST = 16_384  # that may be said and not answered
_AGAIN = (CORRECT, ADOPT)
_TRIES = 3


class Away(Exception):  # noqa: N818 - it names what happened
    """The server did not decide."""


class Line:
    """`changed` hears of every change of `up`."""

    def __init__(self, url: str, *, deadline: float, rng: random.Random, changed: Callable[[], None]) -> None:
        self._deadline = deadline
        self._rng = rng
        self._changed = changed
        self._source = ConnectionPool.from_url(
            url, protocol=2, retry=Retry(NoBackoff(), 0), socket_timeout=None, socket_connect_timeout=_CONNECT
        )
        self.place = place_of(url)
        self.up = False  # a plain attribute, for every request; read it, never set it
        self.reason = "connection"  # why not: one of `limits.types.AWAY`
        self.forgotten = 0  # of what was said
        self._told: str | None = None  # what the log was last told
        self._row = 0
        self._connection: AbstractConnection | None = None
        self._under_way: deque[Call] = deque()
        self._unsaid: deque[Call] = deque()
        self._refused: deque[Call] = deque()
        self._buffer: list[bytes] = []
        self._wake = asyncio.Event()
        self._first = asyncio.Event()
        self._returning: asyncio.TimerHandle | None = None
        self._refusing = False  # the last answer was an error
        self._silent: Call | None = None  # what was not answered when it was last looked at
        self._running: asyncio.Task[None] | None = None
        self._serving: asyncio.Task[None] | None = None
        self._pause = _PAUSES[0]

    async def start(self) -> None:
        """Returns when it is connected, could not be, or when that takes too long."""
        self._running = asyncio.get_running_loop().create_task(self._run())
        with suppress(TimeoutError):
            async with asyncio.timeout(_CONNECT):
                await self._first.wait()

    async def close(self) -> None:
        """What was said is sent first, if it can be."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._deadline):
                while self._connection is not None and self._under_way:  # noqa: ASYNC110 - once, at the end of the process
                    await asyncio.sleep(0.001)
        for task in (self._running, self._serving):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        if self._returning is not None:
            self._returning.cancel()

    @property
    def connected(self) -> bool:
        return self._connection is not None

    # -- asking

    async def ask(
        self,
        script: Script,
        words: Sequence[bytes],
        size: int,
        undo: Callable[[], Iterable[Said]] = tuple,
        *,
        probe: bool = False,
    ) -> bytes:
        """What the script returns, so many bytes. `words`: how many keys, the keys, the arguments. Raises Away."""
        if not (self.up or (probe and self._connection is not None)):
            raise Away
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[bytes] = loop.create_future()
        self._send(Call(script, words, size, answer))
        timer = loop.call_later(self._deadline, self._due, answer)
        try:
            found = await answer
        except BaseException as error:
            for said in undo():
                self.say(*said)
            if isinstance(error, (TimeoutError, RedisError, OSError)):
                raise Away from None
            raise
        finally:
            timer.cancel()
        self._row = 0
        if probe:
            self._heard()
        return found

    def say(self, script: Script, words: Sequence[bytes]) -> None:
        call = Call(script, words)
        if self._connection is not None:
            self._send(call)
        else:
            self._keep(call)

    def _keep(self, call: Call) -> None:
        self._bounded(self._unsaid, call)

    def _bounded(self, kept: deque[Call], call: Call) -> None:
        kept.append(call)
        if len(kept) > _MOST:
            kept.popleft()
            self.forgotten += 1

    def _put_off(self, call: Call) -> None:
        call.tries += 1
        if call.script in _AGAIN and call.tries <= _TRIES:
            self._bounded(self._refused, call)
        else:
            self.forgotten += 1

    def _say_again(self) -> None:
        if self._refused and self._connection is not None:
            refused, self._refused = self._refused, deque()
            for call in refused:
                self._send(call)

    def _send(self, call: Call) -> None:
        call.sent = asyncio.get_running_loop().time()
        self._under_way.append(call)
        self._buffer.append(call.data)
        self._wake.set()

    def _due(self, answer: asyncio.Future[bytes]) -> None:
        """Where the loop was busy for longer than the deadline, what came meanwhile is read before time is called."""
        asyncio.get_running_loop().call_later(_GRACE, self._too_late, answer)

    def _too_late(self, answer: asyncio.Future[bytes]) -> None:
        if not answer.done():
            answer.set_exception(TimeoutError())
            self._failed(TimeoutError())

    # -- how it stands

    def _failed(self, error: BaseException) -> None:
        self._row += 1
        if self._returning is not None:
            self._returning.cancel()
            self._returning = None
        if not self.up or self._row >= _FAILURES:
            self._away(error)

    def _away(self, error: BaseException) -> None:
        self.reason = class_of(error)
        if self._told != "away":
            self._told = "away"
            _log.warning("%s is away, limits are decided without it: %s", self.place, said_by(error))
        if self.up:
            self.up = False
            self._changed()

    def _heard(self) -> None:
        self._say_again()
        if self.up or self._returning is not None:
            return
        if self._told is None:
            self._back()
        else:
            self._returning = asyncio.get_running_loop().call_later(self._rng.uniform(0.0, _RETURN), self._back)

    def _back(self) -> None:
        self._returning = None
        if self._told == "away":
            _log.info("%s answers again: limits are decided there", self.place)
        self._told, self._row, self.up, self.reason = "up", 0, True, ""
        self._changed()

    def check(self) -> None:
        """To be called now and then: a connection on which nothing comes, or only errors, is given up: another one may lead to
        another server.

        Not before the second look: where it was this process that stood still, answers are there and were not read yet.
        """
        first = self._under_way[0] if self._under_way else None
        silent = first is not None and first is self._silent
        if self._serving is not None and (silent or (self._refusing and not self.up)):
            self._serving.cancel()
        late = first is not None and asyncio.get_running_loop().time() - first.sent > _SILENCE
        self._silent = first if late else None

    # -- the connection

    async def _run(self) -> None:
        while True:
            serving = self._serving = asyncio.get_running_loop().create_task(self._serve())
            await asyncio.wait([serving])
            error = TimeoutError() if serving.cancelled() else serving.exception() or RedisConnectionError("it has hung up")
            self._end(error)
            self._first.set()
            await asyncio.sleep(self._pause * self._rng.uniform(0.5, 1.0))
            self._pause = min(_PAUSES[1], self._pause * 2)

    def _end(self, error: BaseException) -> None:
        """Who waits hears that nobody knows; what was said is kept."""
        self._buffer.clear()
        self._row = _FAILURES
        calls, unsaid = self._under_way, self._unsaid
        self._under_way, self._unsaid = deque(), deque()
        for call in calls:
            if call.answer is None:
                self._keep(call)
            elif not call.answer.done():
                call.answer.set_exception(RedisConnectionError("the connection has ended"))
        for call in unsaid:
            self._keep(call)
        self._failed(error)

    async def _serve(self) -> None:
        connection: AbstractConnection = self._source.make_connection()  # type: ignore[no-untyped-call]
        writing: asyncio.Task[None] | None = None
        try:
            async with asyncio.timeout(_CONNECT):
                await connection.connect()  # type: ignore[no-untyped-call]
                for script in ALL:
                    await connection.send_command("SCRIPT", "LOAD", script.text)
                    await connection.read_response(disable_decoding=True)
            self._connection, self._pause, self._refusing = connection, _PAUSES[0], False
            unsaid, self._unsaid = self._unsaid, deque()
            for call in unsaid:
                self._send(call)
            self._first.set()
            writing = asyncio.get_running_loop().create_task(self._write(connection))
            while True:
                self._take(await self._read(connection))
        finally:
            self._connection = None
            if writing is not None:
                writing.cancel()
                await asyncio.gather(writing, return_exceptions=True)
            with suppress(Exception):  # it is given up either way
                await connection.disconnect(nowait=True)

    async def _write(self, connection: AbstractConnection) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            data, self._buffer = self._buffer, []
            if data:
                await connection.send_packed_command(data, check_health=False)

    async def _read(self, connection: AbstractConnection) -> Any:
        try:
            return await connection.read_response(disable_decoding=True)
        except ResponseError as error:
            return error

    def _take(self, answer: Any) -> None:
        if not self._under_way:
            raise RedisConnectionError("an answer to nothing")
        call = self._under_way.popleft()
        if isinstance(answer, NoScriptError):
            call.spell_out()
            self._send(call)
        elif isinstance(answer, bytes) and len(answer) == call.size:
            self._refusing = False
            if call.answer is not None and not call.answer.done():
                call.answer.set_result(answer)
        else:
            error = answer if isinstance(answer, ResponseError) else ResponseError("that is no answer to what was asked")
            self._refusing = True
            if call.answer is None:
                self._put_off(call)
            elif not call.answer.done():
                call.answer.set_exception(error)
            if call.tries <= 1:  # what is refused again is at fault itself
                self._failed(error)
