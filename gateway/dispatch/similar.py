"""The semantic cache, from a worker: its owner has the vectors, the embedder and what was learned.

One message a question, beside those of its admission; none where a request has no part in it. An owner that is away is a miss.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import msgspec

from caches.semantic.types import Asked, Found, Grey, Semantic, Shown
from caches.types import Entry
from gateway.dispatch.entries import MOST_KEPT
from gateway.dispatch.session import Session
from gateway.errors import ApiError

_encode = msgspec.msgpack.encode
_decode = msgspec.msgpack.decode
_TRAVEL = 0.5  # seconds, on the way to the owner and back

StandsTalk = tuple[str, bytes, str, str, str]
LearnTalk = tuple[Asked, str, float, bool, float]


class CallOwner(Protocol):
    async def __call__(self, verb: str, payload: bytes = b"", seconds: float = 30.0, *, once: bool = False) -> bytes:
        """Raises ApiError."""


class RemoteSemantic:
    """`seconds`: what the owner may take for what a client waits for, by its own deadlines."""

    def __init__(self, call: CallOwner, seconds: float) -> None:
        self._call = call
        self._seconds = seconds + _TRAVEL

    async def look(self, asked: Asked) -> Found:
        return await self._found("semantic-look", asked)

    async def take(self, asked: Asked, grey: Grey) -> Found:
        return await self._found("semantic-take", (asked, grey))

    async def _found(self, verb: str, talk: Any) -> Found:
        try:
            return _decode(await self._call(verb, _encode(talk), self._seconds), type=Found)
        except ApiError:
            return Found(away="dispatcher")

    async def keep(self, asked: Asked, entry: Entry) -> None:
        if len(entry.body) <= MOST_KEPT:
            await self._say("semantic-keep", (asked, entry))

    async def stands(self, hit: str, body: bytes, maker: str, tenant: str, request_id: str) -> bool:
        return await self._said("semantic-stands", (hit, body, maker, tenant, request_id))

    async def heard(self, asked: Asked) -> bool:
        return await self._said("semantic-heard", asked)

    async def _said(self, verb: str, talk: Any) -> bool:
        try:
            return _decode(await self._call(verb, _encode(talk), self._seconds), type=bool)
        except ApiError:
            return False

    async def compare(self, asked: Asked, id: str, answer: bytes) -> Shown:  # noqa: A002 - the protocol's
        try:
            return _decode(await self._call("semantic-compare", _encode((asked, id, answer))), type=Shown)
        except ApiError:
            return Shown(None)

    async def learn(self, asked: Asked, id: str, score: float, *, right: bool, weight: float) -> None:  # noqa: A002 - the protocol's
        await self._say("semantic-learn", (asked, id, score, right, weight))

    async def _say(self, verb: str, talk: Any) -> None:
        try:
            await self._call(verb, _encode(talk), once=True)
        except ApiError:
            return  # what was to be kept or learned is lost, and nobody waits for it


def semantic_calls(semantic: Semantic) -> dict[str, Callable[[Session, bytes], Awaitable[bytes]]]:
    """The owner's side, by verb."""

    async def look(_: Session, payload: bytes) -> bytes:
        return _encode(await semantic.look(_decode(payload, type=Asked)))

    async def take(_: Session, payload: bytes) -> bytes:
        return _encode(await semantic.take(*_decode(payload, type=tuple[Asked, Grey])))

    async def keep(_: Session, payload: bytes) -> bytes:
        await semantic.keep(*_decode(payload, type=tuple[Asked, Entry]))
        return b""

    async def compare(_: Session, payload: bytes) -> bytes:
        return _encode(await semantic.compare(*_decode(payload, type=tuple[Asked, str, bytes])))

    async def learn(_: Session, payload: bytes) -> bytes:
        asked, id_, score, right, weight = _decode(payload, type=LearnTalk)
        await semantic.learn(asked, id_, score, right=right, weight=weight)
        return b""

    async def stands(_: Session, payload: bytes) -> bytes:
        return _encode(await semantic.stands(*_decode(payload, type=StandsTalk)))

    async def heard(_: Session, payload: bytes) -> bytes:
        return _encode(await semantic.heard(_decode(payload, type=Asked)))

    return {f"semantic-{verb.__name__}": verb for verb in (look, take, stands, heard, keep, compare, learn)}
