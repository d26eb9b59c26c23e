"""What an error answer of a replica says: of the request, of the replica, or of the operator's configuration.

The rules are those of `gateway.forward`.
"""

from __future__ import annotations

from typing import Any, NoReturn

from backends.replica import Replica
from backends.types import Outcome
from gateway.call import AttemptFailed, Call, ContextOverflow
from gateway.dispatch.types import Attempt
from gateway.errors import ApiError, BackendAnswer
from gateway.relay import json_object
from gateway.retry_after import seconds
from gateway.settle import Ending

LACKING = "501"
"""Why an attempt failed whose backend does no such thing."""

_SERVERS = 500  # statuses from here on are the replica's fault, whatever their meaning
_MOVE_ON = frozenset({408, 429})
_PASSED_ON = frozenset({400, 413, 422})
_PLAIN = frozenset({"chat", "completions"})  # what every backend has: a 404 there is of a wrong path
_MISCONFIGURED = frozenset({*range(300, 400), 401, 402, 403, 404, 405, 407, 410})  # by nothing that a client can send
_OVERFLOW = (b"maximum context length", b"context_length_exceeded", b"exceed_context_size", b"context size", b"max_model_len")


def refuse(
    call: Call,
    lease: Attempt,
    status: int,
    body: bytes,
    content_type: bytes = b"application/json",
    after: str | None = None,
) -> NoReturn:
    """Tell its replica, and raise AttemptFailed where another one may do better, else ApiError. `after`: its `retry-after`."""
    call.ending = Ending.FAILED
    said = status
    if status in (404, 405) and call.endpoint.name not in _PLAIN and _is_no_route(status, body):
        status = 501
    outcome = outcome_of(status, named_a_time=after is not None)
    lease.settle(outcome, seconds(after) if outcome is Outcome.REFUSED and after is not None else 0.0)
    if status in _MOVE_ON or status >= _SERVERS:
        raise AttemptFailed(str(status), f"it answered {said}{_said(body, lease.replica)}")
    if lease.doubted and outcome is Outcome.FAULTED:
        raise AttemptFailed(str(status), f"it answered {status}", stands=_fault(status, body, content_type))
    if status in _PASSED_ON:
        call.ending = Ending.REFUSED
    raise _fault(status, body, content_type)  # kept in no name: it refers to this frame


def outcome_of(status: int, *, named_a_time: bool = False) -> Outcome:
    """What an error status says of its replica."""
    if status == 429 or (status == 503 and named_a_time):
        return Outcome.REFUSED
    if status == 501:  # "not implemented" is said of requests, and any client can send one
        return Outcome.FAULTED
    if status in _MOVE_ON or status >= _SERVERS or status in _MISCONFIGURED:
        return Outcome.FAILED
    return Outcome.FAULTED


def _fault(status: int, body: bytes, content_type: bytes) -> ApiError:
    """What the client is told of an answer that is no failure of its replica's."""
    if status not in _PASSED_ON:
        message = f"A backend refuses the gateway with status {status}: the operator has to check its key, name and path."
        return ApiError(502, "backend_misconfigured", message)
    overflow = status == 400 and any(words in body for words in _OVERFLOW)
    return (ContextOverflow if overflow else BackendAnswer)(status, content_type, body)


def _is_no_route(status: int, body: bytes) -> bool:
    """Whether a backend's 404 or 405 is about its path, and not about the model that was asked for."""
    return status == 405 or b"model" not in body.lower()


def status_of(error: dict[str, Any]) -> int:
    """The status that an error under a 200 stands for: its own code where that is one, else 500."""
    code = error.get("code")
    if isinstance(code, str) and len(code) == 3 and code.isascii() and code.isdigit():
        code = int(code)
    return code if isinstance(code, int) and not isinstance(code, bool) and 400 <= code < 600 else 500


def _said(body: bytes, replica: Replica) -> str:
    """What a backend's error body says, shortened and without the key that it was asked with, for a message of ours."""
    if replica.authorization is not None:
        body = body.replace(replica.authorization.removeprefix(b"Bearer "), b"***")
    payload = json_object(body)
    error = None if payload is None else payload.get("error", payload)
    message = error.get("message", error.get("detail")) if isinstance(error, dict) else error
    return f" ({message[:300]})" if isinstance(message, str) else ""
