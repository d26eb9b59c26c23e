"""One Redis or Valkey server, asked by scripts: a deadline on every call, a breaker, one log line per change of state.

What a server, or whatever answers in its place, can do never shows but as `ExactStoreAway`.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha1
from typing import Any
from urllib.parse import urlsplit

from redis.asyncio.connection import AbstractConnection, ConnectionPool
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, NoPermissionError, NoScriptError, OutOfMemoryError, ReadOnlyError, ResponseError
from redis.exceptions import ConnectionError as RedisConnectionError

from caches.breaker import Breaker, BreakerOpen, BreakerRules
from caches.errors import ExactStoreAway
from caches.redis.pool import Pool

_log = logging.getLogger("tiergate.cache")
_GRACE = 0.002  # seconds
_SHOWN = 120  # characters of what a server says

Argument = bytes | str | int | float


class Script:
    """Lua, known to the server by its digest once it has seen it. `answer`: the types of what it returns. `writes`: it is of no
    use where nothing may be written.
    """

    __slots__ = ("answer", "digest", "text", "writes")

    def __init__(self, text: str, answer: tuple[type, ...], *, writes: bool = False) -> None:
        self.text = text
        self.answer = answer
        self.writes = writes
        self.digest = sha1(text.encode()).hexdigest()  # noqa: S324 - what the protocol calls a script by

    def check(self, answer: Any) -> list[Any]:
        """Whatever answers in a server's place need not answer a script's answer."""
        if type(answer) is not list or tuple(map(type, answer)) != self.answer:
            raise ResponseError("that is no answer to what was asked")
        return answer


Command = tuple[Script, Sequence[str], Sequence[Argument]]


class Declined(Exception):  # noqa: N818 - it names what happened
    """The server answers, and may be asked, but writes nothing just now. `reason`: one of `caches.types.DECLINES`."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


_DECLINED = {
    "OOM command not allowed": "full",  # no memory left, and told to evict nothing
    "READONLY ": "read-only",  # it is a replica by now
    "MISCONF ": "misconfigured",  # it cannot save what it has
    "NOREPLICAS ": "no replicas",
}


class Server:
    """`deadline`: of one call, connecting included, but a connection that takes longer to make goes on being made."""

    def __init__(
        self,
        url: str,
        *,
        deadline: float,
        connections: int,
        connect_seconds: float,
        clock: Callable[[], float],
        rng: random.Random,
        rules: BreakerRules,
    ) -> None:
        self._deadline = deadline
        self._source = ConnectionPool.from_url(
            url,
            protocol=2,
            retry=Retry(NoBackoff(), 0),
            socket_timeout=None,
            socket_connect_timeout=connect_seconds,
        )
        self._pool = Pool(self.connection, connections, connect_seconds)
        self.place = place_of(url)
        self.away = ""  # why the last call failed: one of `caches.types.AWAY`
        self.breaker = Breaker(clock, rng, rules, self._changed)

    def connection(self) -> AbstractConnection:
        """One that is not connected yet, for who wants it alone."""
        made: AbstractConnection = self._source.make_connection()  # type: ignore[no-untyped-call]
        return made

    async def run(self, script: Script, keys: Sequence[str], *args: Argument, patience: float = 0.0) -> list[Any]:
        """What the script returns. `patience`: a longer deadline. Raises ExactStoreAway and Declined."""
        with self._told():
            async with asyncio.timeout(None) as limit:
                # Where the loop was busy for longer than the deadline, what came meanwhile is read before time is called.
                loop, seconds = asyncio.get_running_loop(), max(self._deadline, patience)
                timer = loop.call_later(seconds, lambda: limit.reschedule(loop.time() + _GRACE))
                try:
                    answer = await self._call((script, keys, args), seconds)
                finally:
                    timer.cancel()
        if answer is None:
            self.away = "timeout"
            raise ExactStoreAway("timeout")
        self.away = ""
        if isinstance(answer, Declined):
            try:
                raise answer
            finally:
                del answer  # it refers to this frame
        return answer

    async def close(self) -> None:
        await self._pool.close()

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            with self.breaker.attempt():
                yield
        except BreakerOpen:
            raise ExactStoreAway("breaker") from None
        except TimeoutError:
            self.away = "timeout"
            if self.breaker.is_open:  # one slow answer says nothing of other connections
                self._pool.end_idle()
            raise ExactStoreAway("timeout") from None
        except Exception as error:  # the edge: what is no Redis can make its client raise anything at all
            self._pool.end_idle()
            self.away = _class_of(error)
            raise ExactStoreAway("failed") from error

    async def _call(self, command: Command, seconds: float) -> list[Any] | Declined | None:
        """None: connecting left too little time to ask. The connection is there for the next one, who would else be as late."""
        latest = asyncio.get_running_loop().time() + seconds / 2
        reused = self._pool.has_idle
        try:
            return await self._once(command, latest)
        except (RedisConnectionError, OSError):
            if not reused:
                raise
        self._pool.end_idle()  # a server ends connections that were idle for long: that is no failure of its
        return await self._once(command, latest)

    async def _once(self, command: Command, latest: float) -> list[Any] | Declined | None:
        async with self._pool.lend() as connection:
            return await ask(connection, *command) if asyncio.get_running_loop().time() <= latest else None

    def _changed(self, error: BaseException | None) -> None:
        if error is None:
            _log.info("%s answers again: exact answers are looked up there", self.place)
        else:
            _log.warning("%s is away, exact answers are neither found nor kept there: %s", self.place, said_by(error))


async def ask(
    connection: AbstractConnection, script: Script, keys: Sequence[str], args: Sequence[Argument]
) -> list[Any] | Declined:
    try:
        try:
            await connection.send_command("EVALSHA", script.digest, len(keys), *keys, *args)
            answer = await connection.read_response()
        except NoScriptError:
            await connection.send_command("EVAL", script.text, len(keys), *keys, *args)
            answer = await connection.read_response()
        return script.check(answer)
    except ResponseError as error:
        declined = _declined(error)
        if declined is None or not script.writes:
            raise
        return declined


def _declined(error: ResponseError) -> Declined | None:
    if isinstance(error, OutOfMemoryError):
        return Declined("full")
    if isinstance(error, ReadOnlyError):
        return Declined("read-only")
    said = str(error)  # older servers pass it on in the middle of a script's error
    return next((Declined(reason) for words, reason in _DECLINED.items() if words in said), None)


def _class_of(error: Exception) -> str:
    if isinstance(error, AuthenticationError | NoPermissionError) or "NOAUTH" in str(error):
        return "password"
    return "connection" if isinstance(error, RedisConnectionError | OSError) else "failed"


def place_of(url: str) -> str:
    """Where that is, without what must not be seen."""
    parts = urlsplit(url)
    return f"redis at {parts.hostname}:{parts.port or 6379}" if parts.hostname else f"redis at {parts.path}"


def said_by(error: BaseException) -> str:
    """For the log: what a server says is bounded, and on one line."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    text = "".join(char if char.isprintable() else " " for char in str(error)[:_SHOWN])
    return f"{type(error).__name__}: {text}"
