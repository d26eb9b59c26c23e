"""What the owner refused, raised again where the request is; and what a request is told that found no owner."""

from __future__ import annotations

from typing import NoReturn, Protocol, cast

from gateway.dispatch.messages import Refusal
from gateway.dispatch.types import NoReplica
from gateway.errors import ApiError, internal_error
from gateway.refusals import waiting
from limits.types import LimitExceeded, LimitsAway, Resource, Scope
from limits.waiting import QueueFull, QueueTimeout, WaitTooLong


class Scopes(Protocol):
    def scope(self, number: int) -> Scope | None: ...


class Away(ApiError):  # noqa: N818 - it says what happened
    """The owner was gone, and did not come back in time."""

    def __init__(self) -> None:
        message = "The gateway decides nothing just now: its dispatcher does not answer. Please try again shortly."
        super().__init__(503, "dispatcher_away", message, kind="overloaded_error", headers=waiting(1.0), outcome="rejected")


def raise_refusal(refusal: Refusal, scopes: Scopes) -> NoReturn:
    """Raises what the leaf raised there."""
    if refusal.kind == "limit":
        scope = scopes.scope(refusal.scope) or Scope("unknown", "limit")
        raise LimitExceeded(
            scope,
            cast(Resource, refusal.resource),
            limit=refusal.limit,
            used=refusal.used,
            requested=refusal.requested,
            wait=refusal.wait,
            never=refusal.flag,
            until=refusal.until,
        )
    if refusal.kind == "away":
        raise LimitsAway
    if refusal.kind == "wait":
        raise WaitTooLong(tenant=refusal.flag, retry_after=refusal.wait, expected=refusal.seconds, most=refusal.most)
    if refusal.kind == "full":
        raise QueueFull(tenant=refusal.flag, retry_after=refusal.wait)
    if refusal.kind == "timeout":
        raise QueueTimeout(refusal.seconds, refusal.wait)
    if refusal.kind == "replica":
        raise NoReplica
    raise internal_error()
