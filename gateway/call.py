"""What is sent to a model's replicas for a request, and what it failed with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import msgspec

from gateway.config import Timeouts
from gateway.endpoints import Endpoint
from gateway.errors import ApiError, BackendAnswer
from gateway.exchange import Work
from gateway.refusals import waiting
from gateway.retry_after import when
from gateway.settle import Ending
from limits.density import Density

Preempt = Literal["never", "requeue", "refuse"]
"""What becomes of a batch request whose slot a realtime one gets."""


@dataclass(frozen=True, slots=True)
class Station:
    """A model as every process that serves it knows it. Its replicas and its queue are the dispatcher's.

    Each process learns its `density` for itself.
    """

    name: str
    timeouts: Timeouts
    engine_priority: bool = False  # the engine schedules by `priority`
    preempt: Preempt = "never"
    default_max_tokens: int = 1024
    prefixed: bool = False  # its balance wants to know what a prompt begins with
    token_timeout: float | None = None  # seconds for token ids of a prompt; None: nobody wants them
    density: Density = field(default_factory=Density)


@dataclass(slots=True)
class Call:
    """What is sent for one request to one model, and what is known of how it went."""

    request_id: str
    endpoint: Endpoint
    headers: bytes  # header lines that pass on from the client
    body: bytes
    model: str  # as the backend calls it
    stream: bool
    deadline: float  # absolute, the loop's clock
    work: Work
    impatient: bool = False  # the deadline is the client's own wish
    ending: Ending = Ending.NOT_SENT
    usage: int | None = None
    deltas: int = 0


class Failures(msgspec.Struct):
    """What the attempts of one request failed with, over all pools that were tried. Most requests have none."""

    limited: BackendAnswer | None = None
    timed_out: bool = False
    attempts: int = 0
    last: str = ""
    failed: tuple[str, str] | None = None  # the last attempt's model, and the reason
    retry_after: str | None = None
    lacking: bool = False  # the last attempt's backend does not do such a thing, and says so

    def error(self) -> ApiError:
        """Rule 3."""
        if self.limited is not None:  # a copy: what is raised refers to its frames, and these to us
            kept = BackendAnswer(self.limited.status, self.limited.content_type, self.limited.answer, self.limited.headers)
            kept.outcome = self.limited.outcome
            return kept
        if self.timed_out:
            message = "The model did not answer in time. Long answers are best streamed."
            return ApiError(504, "upstream_timeout", message, outcome="timeout")
        if not self.attempts:
            message = "No replica of this model is ready. Please try again shortly."
            return ApiError(503, "no_replica_ready", message, kind="overloaded_error", headers=waiting(1.0), outcome="rejected")
        if self.lacking:
            message = f"The backends of this model do not do this: {self.last}. It is forwarded as it is, not translated."
            return ApiError(501, "not_implemented", message, headers={"x-should-retry": "false"})
        message = f"Every attempt to reach this model failed; the last one: {self.last}."
        return ApiError(502, "upstream_error", message, headers=when(self.retry_after) if self.retry_after else None)


class AttemptFailed(Exception):  # noqa: N818 - it is an outcome, told to `gateway.forward` only
    """One replica could not serve; nothing was sent to the client."""

    def __init__(self, reason: str, message: str, *, broke_after_send: bool = False, stands: ApiError | None = None) -> None:
        """`stands`: the answer, unless another replica serves."""
        super().__init__(message)
        self.reason = reason
        self.broke_after_send = broke_after_send
        self.stands = stands


class Unserved(Exception):  # noqa: N818 - as above
    """No replica of the pool could serve; nothing was sent to the client."""


class ContextOverflow(BackendAnswer):
    """The backend's 400 for a prompt that is longer than its context: a model with more room may still answer."""
