"""One call of a script as the server reads it, and what went wrong as people and metrics are told."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from urllib.parse import urlsplit

from redis.exceptions import AuthenticationError, NoPermissionError
from redis.exceptions import ConnectionError as RedisConnectionError

from limits.redis.scripts import Script

_SHOWN = 120  # characters of what a server says


class Call:
    """`answer`: of what is only said there is none to wait for. `size`: the bytes that the script returns. `tries`: how often it
    was refused.
    """

    __slots__ = ("answer", "data", "script", "sent", "size", "tries", "words")

    def __init__(
        self, script: Script, words: Sequence[bytes], size: int = 0, answer: asyncio.Future[bytes] | None = None
    ) -> None:
        self.script = script
        self.words = words
        self.size = size
        self.answer = answer
        self.data = _packed((b"EVALSHA", script.digest, *words))
        self.sent = 0.0
        self.tries = 0

    def spell_out(self) -> None:
        """The server does not know the script, or not any more."""
        self.data = _packed((b"EVAL", self.script.text.encode(), *self.words))


def _packed(words: Sequence[bytes]) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join([b"$%d\r\n%b\r\n" % (len(word), word) for word in words])


def class_of(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "timeout"
    said = str(error)
    if isinstance(error, AuthenticationError | NoPermissionError) or "NOAUTH" in said or "Authentication required" in said:
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
