"""`POST /v1/feedback`: how good an answer was, by whoever was given it.

Each one is on the log, with the request's id, for whoever learns from logs. An answer of the semantic cache with a bad score is
never served for that question again, be it from there or from the exact cache. A good score loosens nothing: no caller may
widen what the others are served.
"""

from __future__ import annotations

from typing import Annotated, Protocol

import msgspec

from caches.semantic.ids import exact_of
from caches.semantic.types import Semantic
from gateway.auth import Principal
from gateway.errors import ApiError
from gateway.exchange import Exchange

_MOST = 4096


class Feedback(msgspec.Struct, forbid_unknown_fields=True):
    request_id: Annotated[str, msgspec.Meta(min_length=1, max_length=128)]
    score: Annotated[float, msgspec.Meta(ge=0, le=1)]


class DeleteEntry(Protocol):
    async def delete_entry(self, entry: str, tenant: str | None) -> bool:
        """Of the exact cache."""


_read = msgspec.json.Decoder(Feedback).decode


async def give(semantic: Semantic, exact: DeleteEntry, principal: Principal, x: Exchange, body: bytes) -> bytes:
    """Raises ApiError 400 and 413. `applied`: it changes what the caches serve."""
    if len(body) > _MOST:
        raise ApiError(413, "body_too_large", f"Feedback has at most {_MOST} bytes.")
    try:
        said = _read(body)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        message = 'Send {"request_id": the answer\'s x-request-id, "score": a number from 0 to 1}.'
        raise ApiError(400, "invalid_feedback", message) from None
    x.feedback = (said.request_id, said.score)
    served = await semantic.feedback(principal.tenant, said.request_id, said.score)
    applied = bool(served) and said.score < 0.5
    if applied and (alias := exact_of(served)):
        await exact.delete_entry(alias, principal.tenant)
    return msgspec.json.encode({"request_id": said.request_id, "score": said.score, "applied": applied})
