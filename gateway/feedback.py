"""`POST /v1/feedback`: how good an answer was, by whoever was given it.

Each one is on the log, with the request's id, for whoever learns from logs. An answer of the semantic cache with a bad score is
never served for that question again, be it from there or from the exact cache. A good score loosens nothing: no caller may
widen what the others are served.
"""

from __future__ import annotations

from typing import Annotated, Protocol

import msgspec

from gateway.auth import Principal
from gateway.errors import ApiError
from gateway.exchange import Exchange

_MOST = 4096


class Feedback(msgspec.Struct, forbid_unknown_fields=True):
    request_id: Annotated[str, msgspec.Meta(min_length=1, max_length=128)]
    score: Annotated[float, msgspec.Meta(ge=0, le=1)]


class Deletes(Protocol):
    """Both caches: see `caches.both`."""

    async def delete(self, id: str, tenant: str | None) -> bool: ...  # noqa: A002 - the name of the field it is

    async def feedback(self, tenant: str, request_id: str, score: float) -> bool: ...


_read = msgspec.json.Decoder(Feedback).decode


async def give(both: Deletes, principal: Principal, x: Exchange, body: bytes) -> bytes:
    """Raises ApiError 400 and 413. `applied`: it changes what the caches serve."""
    if len(body) > _MOST:
        raise ApiError(413, "body_too_large", f"Feedback has at most {_MOST} bytes.")
    try:
        said = _read(body)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        message = 'Send {"request_id": the answer\'s x-request-id, "score": a number from 0 to 1}, and nothing else.'
        raise ApiError(400, "invalid_feedback", message) from None
    x.feedback = (said.request_id, said.score)
    applied = await both.feedback(principal.tenant, said.request_id, said.score)
    return msgspec.json.encode({"request_id": said.request_id, "score": said.score, "applied": applied})
