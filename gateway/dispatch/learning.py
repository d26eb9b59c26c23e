"""What can be learned of requests, from a worker to the owner, who writes it down; and feedback, to whoever knows the request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from typing import Any, Protocol

import msgspec

from gateway.dispatch import messages as m
from gateway.dispatch.session import Session
from gateway.dispatch.similar import CallOwner
from gateway.errors import ApiError

_MOST = 64 * 1024  # bytes of a line
_encode = msgspec.msgpack.encode
_decode = msgspec.msgpack.decode

RatedTalk = tuple[str, str, float]


class Hears(Protocol):
    def heard(self, tenant: str, request_id: str, score: float) -> bool: ...


class RemoteLearning:
    """Told behind the requests: nothing waits, and what an owner that is away does not hear is lost."""

    def __init__(self, call: CallOwner, spawn: Callable[[Coroutine[Any, Any, None]], None]) -> None:
        self._call = call
        self._spawn = spawn

    def note(self, line: bytes) -> None:
        self._spawn(self._say("learned", line))

    def elsewhere(self, tenant: str, request_id: str, score: float) -> None:
        talk: RatedTalk = tenant, request_id, score
        self._spawn(self._say("rated", _encode(talk)))

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
        for session in list(sessions()):
            if session is not asking:
                session.send(m.Poll(0, "rated", payload))
        return b""

    return {"learned": learned, "rated": rated}


def hear_rated(hears: Hears) -> Callable[[bytes], None]:
    """What a worker does when the owner passes feedback on."""

    def rated(payload: bytes) -> None:
        with suppress(msgspec.MsgspecError):
            hears.heard(*_decode(payload, type=RatedTalk))

    return rated
