"""`POST /v1/feedback`: how good an answer was, by whoever was given it.

Each one is on the log, with the request's id, for whoever learns from logs; where `routing.learning` is on it
says how good the tier was that answered. An answer of the semantic cache with a bad score is never served for that question
again, be it from there or from the exact cache. A good score loosens nothing: no caller may widen what the others are served.
"""

from __future__ import annotations

from typing import Annotated, Literal, Protocol

import msgspec

from gateway.auth import Principal
from gateway.errors import ApiError
from gateway.exchange import Exchange

_MOST = 4096


class Feedback(msgspec.Struct, forbid_unknown_fields=True):
    request_id: Annotated[str, msgspec.Meta(min_length=1, max_length=128)]
    score: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    thumb: Literal["up", "down"] | None = None


class Rated(Protocol):
    """Whoever learns from what answers were worth."""

    async def rated(self, tenant: str, request_id: str, score: float) -> bool: ...


class Deletes(Protocol):
    """Both caches: see `caches.both`."""

    async def delete(self, id: str, tenant: str | None) -> bool: ...  # noqa: A002 - the name of the field it is

    async def feedback(self, tenant: str, request_id: str, score: float) -> bool: ...


_read = msgspec.json.Decoder(Feedback).decode


async def give(both: Deletes, learning: Rated, principal: Principal, x: Exchange, body: bytes) -> bytes:
    """Raises ApiError 400 and 413. `applied`: it changes what the caches serve; `labelled`: it is a label to learn from."""
    if len(body) > _MOST:
        raise ApiError(413, "body_too_large", f"Feedback has at most {_MOST} bytes.")
    try:
        said = _read(body)
        score = _score(said)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        message = (
            'Send {"request_id": the answer\'s x-request-id, "score": a number from 0 to 1}, and nothing else; in place of the'
            ' score "thumb" may be "up" or "down".'
        )
        raise ApiError(400, "invalid_feedback", message) from None
    x.feedback = (said.request_id, score)
    labelled = await learning.rated(principal.tenant, said.request_id, score)
    applied = await both.feedback(principal.tenant, said.request_id, score)
    return msgspec.json.encode({"request_id": said.request_id, "score": score, "applied": applied, "labelled": labelled})


def _score(said: Feedback) -> float:
    """Raises ValueError where it says none, or two."""
    if (said.score is None) == (said.thumb is None):
        raise ValueError("a score or a thumb")
    return said.score if said.score is not None else float(said.thumb == "up")
