"""Where a caller stands, some time after its owner told it: what refilled, and what was given back, since then.

Rules of this file
- A balance follows from its limit, its burst and the seconds until it is full; what remains is worked out from those.
- What the owner told is the tightest of several scopes. Which one is the tightest is not looked at again.
"""

from __future__ import annotations

import math

from limits.types import Standing

_SLOP = 1e-6  # seconds, and a part of a request or token: what rounding may lose


def refill(standing: Standing, seconds: float) -> None:
    if standing.request_reset:
        _set_requests(standing, standing.request_reset - seconds)
    if standing.token_reset:
        _set_tokens(standing, standing.token_reset - seconds)


def give_tokens_back(standing: Standing, tokens: int) -> None:
    """What a settlement changes, as far as it is known here; less than none: they are charged."""
    if tokens and standing.token_limit and standing.token_reset is not None:
        _set_tokens(standing, standing.token_reset - tokens * 60 / standing.token_limit)


def give_request_back(standing: Standing) -> None:
    if standing.request_limit and standing.request_reset is not None:
        _set_requests(standing, standing.request_reset - 60 / standing.request_limit)


def _set_requests(standing: Standing, reset: float) -> None:
    standing.request_reset, standing.request_remaining = _at(standing.request_limit, standing.request_burst, reset)


def _set_tokens(standing: Standing, reset: float) -> None:
    standing.token_reset, standing.token_remaining = _at(standing.token_limit, standing.token_burst, reset)


def _at(limit: int | None, burst: int | None, reset: float) -> tuple[float, int]:
    """Seconds until full, to the microsecond, as the owner counts; and what remains."""
    reset = max(0.0, round(reset, 6))
    return reset, max(0, math.floor((burst or 0) - (reset - _SLOP) * (limit or 0) / 60 + _SLOP)) if reset else burst or 0
