"""What can be learned of requests, from a worker to the owner, who writes it down; and feedback, to whoever knows the request."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from typing import Any, Protocol

import msgspec

from gateway.dispatch.session import Session
from gateway.dispatch.similar import CallOwner
from gateway.errors import ApiError

_MOST = 64 * 1024  # bytes of a line
_SECONDS = 1.0  # that a worker has to say whether it knows a request
_encode = msgspec.msgpack.encode
_decode = msgspec.msgpack.decode

RatedTalk = tuple[str, str, float]


class Hears(Protocol):
    def heard(self, tenant: str, request_id: str, score: float) -> bool | None: ...


class RemoteLearning:
    """Lines are told behind the requests: nothing waits, and what an owner that is away does not hear is lost."""

    def __init__(self, call: CallOwner, spawn: Callable[[Coroutine[Any, Any, None]], None]) -> None:
        self._call = call
        self._spawn = spawn

    def note(self, line: bytes) -> None:
        self._spawn(self._say("learned", line))

    async def elsewhere(self, tenant: str, request_id: str, score: float) -> bool:
        talk: RatedTalk = tenant, request_id, score
        try:
            return _decode(await self._call("rated", _encode(talk), once=True), type=bool)
        except ApiError:
            return False

    async def _say(self, verb: str, payload: bytes) -> None:
        with suppress(ApiError):
            await self._call(verb, payload, once=True)


def learning_calls(
    note: Callable[[bytes], None], sessions: Callable[[], Iterable[Session]]
) -> dict[str, Callable[[Session, bytes], Awaitable[bytes]]]:
    """The owner's side, by verb."""

    async def learned(_: Session, payload: bytes) -> bytes:
        if len(payload) <= _MOST and b"\n" not in payload:
            note(payload)
        return b""

    async def rated(asking: Session, payload: bytes) -> bytes:
        _decode(payload, type=RatedTalk)
        others = [_labelled(session, payload) for session in sessions() if session is not asking]
        return _encode(any(await asyncio.gather(*others)))

    return {"learned": learned, "rated": rated}


async def _labelled(session: Session, payload: bytes) -> bool:
    """Whether that worker has made a label of it."""
    try:
        async with asyncio.timeout(_SECONDS):
            return await session.poll("rated", payload)
    except (TimeoutError, ConnectionError):
        return False


def hear_rated(hears: Hears) -> Callable[[bytes], bool]:
    """What a worker does when the owner passes feedback on: whether that is a label."""

    def rated(payload: bytes) -> bool:
        try:
            return bool(hears.heard(*_decode(payload, type=RatedTalk)))
        except msgspec.MsgspecError:
            return False

    return rated
