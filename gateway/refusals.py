"""One table: what the leaves raise, and what the client is told. Each entry says whose fault it is and whether to come back."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from caches.errors import CacheAway, ExactStoreAway, FlightCancelled, FlightLagged
from gateway.errors import ApiError
from limits.types import BURST, LimitExceeded, LimitsAway
from limits.waiting import Preempted, QueueFull, QueueTimeout, WaitTooLong
from routing.types import EndpointNotServed, ModelNotAllowed, UnknownModel, UnknownTier

_UNITS = {"requests": "requests per minute", "tokens": "tokens per minute", "parallel": "parallel requests"}
_PERIODS = {"daily_budget": "daily", "monthly_budget": "monthly"}
_MAX_WAIT = 60.0  # SDKs that obey retry-after hold a worker that long; past it a retry is not worth waiting for


def waiting(seconds: float) -> dict[str, str]:
    """`retry-after` (whole seconds, never sooner than needed) and `retry-after-ms`."""
    headers = {"retry-after": str(max(1, math.ceil(seconds))), "retry-after-ms": str(max(1, math.ceil(seconds * 1000)))}
    if seconds > _MAX_WAIT:
        headers["x-should-retry"] = "false"
    return headers


def _budget(error: LimitExceeded) -> ApiError:
    """A budget is used up: until its period ends no retry helps. Nobody is told to wait for hours, a minute is worth it."""
    scope, period = error.scope, _PERIODS[error.resource]
    whose = f"{scope.kind} {scope.name or scope.id}"
    end = datetime.fromtimestamp(error.until, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    figures = f"limit {error.limit} tokens, used {error.used}, requested {error.requested}"
    message = f"The {period} budget of {whose} does not hold this request: {figures}. The period ends at {end}."
    if error.never:
        message += " This request is larger than the whole budget." if error.limit else " This budget allows nothing."
    headers = waiting(error.wait) if 0 < error.wait <= _MAX_WAIT else {}
    headers["x-should-retry"] = "false"
    return ApiError(429, "insufficient_quota", message, kind="insufficient_quota", headers=headers, outcome="limited")


def _limit(error: LimitExceeded) -> ApiError:
    if error.budget:
        return _budget(error)
    scope, unit = error.scope, _UNITS[error.resource]
    whose = f"{scope.kind} {scope.name or scope.id}"
    figures = f"limit {error.limit} {unit}{_at_once(error)}, used {error.used}, requested {error.requested}"
    if error.never:
        message = f"This request can never fit the limit of {whose}: {figures}. Ask for fewer tokens (`max_tokens`, `n`)."
        return ApiError(400, "request_too_large", message, headers={"x-should-retry": "false"}, outcome="limited")
    message = f"Rate limit of {whose} reached: {figures}. Please try again in {math.ceil(error.wait * 1000) / 1000:g}s."
    code = "concurrency_limit_exceeded" if error.resource == "parallel" else "rate_limit_exceeded"
    return ApiError(429, code, message, kind=error.resource, headers=waiting(error.wait), outcome="limited")


def _at_once(error: LimitExceeded) -> str:
    """How much of the limit may be used at once, where that is not a minute of it."""
    scope = error.scope
    return "" if error.resource == "parallel" or scope.burst == BURST else f" and {scope.at_once(error.limit)} at once"


def _limits_away(_: LimitsAway) -> ApiError:
    message = "The gateway cannot tell just now how much you may ask. Please try again shortly."
    return ApiError(503, "limits_away", message, kind="overloaded_error", headers=waiting(1.0), outcome="rejected")


def _full(error: QueueFull) -> ApiError:
    if error.tenant:
        message = "Your requests fill your share of the queue of this model. Please try again later."
        return ApiError(429, "queue_share_full", message, headers=waiting(error.retry_after), outcome="rejected")
    message = "The queue of this model is full. Please try again later."
    return ApiError(503, "queue_full", message, kind="overloaded_error", headers=waiting(error.retry_after), outcome="rejected")


def _too_long(error: WaitTooLong) -> ApiError:
    figures = f"this one would wait about {error.expected:.0f}s and may wait {error.most:.1f}s. Please try again later."
    headers = waiting(error.retry_after)
    if error.tenant:
        message = f"You have more requests waiting for this model than your share serves in time: {figures}"
        return ApiError(429, "wait_too_long", message, headers=headers, outcome="rejected")
    message = f"More requests wait for this model than it serves in time: {figures}"
    return ApiError(503, "wait_too_long", message, kind="overloaded_error", headers=headers, outcome="rejected")


def _queued_too_long(error: QueueTimeout) -> ApiError:
    message = f"No slot of this model came free within {error.waited:.1f}s."
    return ApiError(503, "queue_timeout", message, kind="overloaded_error", headers=waiting(error.retry_after), outcome="timeout")


def _preempted(_: Preempted) -> ApiError:
    message = "Your batch request gave its slot to a more urgent one, before anything was answered. Please try again."
    headers = {**waiting(1.0), "x-should-retry": "true"}
    return ApiError(503, "preempted", message, kind="overloaded_error", headers=headers, outcome="rejected")


def _unknown_model(error: UnknownModel) -> ApiError:
    return ApiError(404, "model_not_found", f"The model `{error.requested[:128]}` does not exist.", param="model")


def _not_allowed(error: ModelNotAllowed) -> ApiError:
    return ApiError(403, "model_not_allowed", f"This key may not call the model `{error.requested[:128]}`.", param="model")


def _not_served(error: EndpointNotServed) -> ApiError:
    message = f"The model `{error.model}` does not serve {error.endpoint}."
    return ApiError(404, "endpoint_not_served", message, param="model")


def _unknown_tier(error: UnknownTier) -> ApiError:
    return ApiError(400, "unknown_tier", str(error), param="x-tiergate-tier")


def _lagged(_: FlightLagged) -> ApiError:
    message = "The answer was read so slowly that it could not be kept for you any longer."
    return ApiError(503, "read_too_slowly", message, headers=waiting(1.0), outcome="broken_stream")


def _cancelled(_: FlightCancelled) -> ApiError:
    message = "The gateway shut down before this answer was complete."
    return ApiError(503, "shutting_down", message, headers=waiting(1.0), outcome="rejected")


def _cache_away(error: CacheAway) -> ApiError:
    said = str(error)
    message = f"{said[:1].upper()}{said[1:]}. Ask again when it is back."
    return ApiError(503, "cache_store_away", message, headers=waiting(1.0), outcome="rejected")


TABLE: Mapping[type[Exception], Callable[[Any], ApiError]] = {
    CacheAway: _cache_away,
    ExactStoreAway: _cache_away,
    FlightCancelled: _cancelled,
    FlightLagged: _lagged,
    LimitExceeded: _limit,
    LimitsAway: _limits_away,
    Preempted: _preempted,
    QueueFull: _full,
    QueueTimeout: _queued_too_long,
    WaitTooLong: _too_long,
    UnknownModel: _unknown_model,
    ModelNotAllowed: _not_allowed,
    EndpointNotServed: _not_served,
    UnknownTier: _unknown_tier,
}
"""Every exception with which a leaf refuses a request."""

REFUSALS: tuple[type[Exception], ...] = tuple(TABLE)

REFUSED: tuple[type[Exception], ...] = (ApiError, *REFUSALS)
"""Everything that ends a request with an answer that says why."""

PERSONAL: tuple[type[Exception], ...] = (LimitExceeded, LimitsAway, Preempted, QueueFull, QueueTimeout)
"""Refusals that concern the request that met them, not others who wait for the same answer."""


def refusal(error: Exception) -> ApiError:
    """The answer for what a leaf raised."""
    return TABLE[type(error)](error)
