"""The two caches as whoever deletes from them sees them, from a worker: `caches.both` is where their owner is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from caches.both import Both
from gateway.dispatch.session import Session
from gateway.dispatch.similar import CallOwner

_encode = msgspec.msgpack.encode
_decode = msgspec.msgpack.decode

DeleteTalk = tuple[str, str | None]
FeedbackTalk = tuple[str, str, float]


class RemoteBoth:
    """Nothing is said again to another owner, for the first may have obeyed before it went."""

    def __init__(self, call: CallOwner) -> None:
        self._call = call

    async def delete(self, id: str, tenant: str | None) -> bool:  # noqa: A002 - the name of the field it is
        """Raises ApiError."""
        return await self._said("cache-delete", (id, tenant))

    async def feedback(self, tenant: str, request_id: str, score: float) -> bool:
        """Raises ApiError."""
        return await self._said("cache-feedback", (tenant, request_id, score))

    async def _said(self, verb: str, talk: Any) -> bool:
        return _decode(await self._call(verb, _encode(talk), once=True), type=bool)


def both_calls(both: Both) -> dict[str, Callable[[Session, bytes], Awaitable[bytes]]]:
    """The owner's side, by verb."""

    async def delete(_: Session, payload: bytes) -> bytes:
        return _encode(await both.delete(*_decode(payload, type=DeleteTalk)))

    async def feedback(_: Session, payload: bytes) -> bytes:
        return _encode(await both.feedback(*_decode(payload, type=FeedbackTalk)))

    return {f"cache-{verb.__name__}": verb for verb in (delete, feedback)}
