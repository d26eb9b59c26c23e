"""What the library raised, as what an OpenAI server would have done: an answer with a status, or a connection that failed.

The library's exceptions are told by their names, so that this can be read and tested without it. Their classes alone say
too little: a refused connection is raised as an InternalServerError. So the causes behind one are looked at first.

    the way broke                      ConnectFailed, ConnectionBroken, UpstreamTimeout: another replica or the fallback may serve
    the provider answered an error     its status; the caller's table of statuses decides
    the library itself stumbled        501: neither the provider's health nor the client's request is known to be at fault

Rules: text of the library or the provider is shown only where a client needs it, for what is wrong with its own request,
and then without anything that looks like a key, and without the addresses; the exception itself is never kept or chained,
since its frames hold the key.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from backends.errors import ConnectFailed, ConnectionBroken, UpstreamError, UpstreamTimeout

_log = logging.getLogger("tiergate.litellm")

STUMBLED = 501
BY_STATUS = 0
"""The exception carries the provider's own status."""

STATUSES: dict[str, int] = {
    "APIConnectionError": STUMBLED,  # also what the library makes of every fault of its own
    "APIError": BY_STATUS,
    "APIResponseValidationError": 502,
    "AuthenticationError": 401,
    "BadGatewayError": 502,
    "BadRequestError": BY_STATUS,
    "BlockedPiiEntityError": 400,
    "BudgetExceededError": 429,
    "CallerCredentialAuthenticationError": 401,
    "CallerCredentialRateLimitError": 429,
    "ContentPolicyViolationError": 400,
    "ContextWindowExceededError": 400,
    "EndpointNotSupportedByModelError": 404,
    "GuardrailRaisedException": 400,
    "ImageFetchError": 400,
    "InternalServerError": 500,
    "InvalidRequestError": 400,
    "JSONSchemaValidationError": 502,
    "LiteLLMUnknownProvider": 404,
    "MalformedRequestFieldError": 400,
    "MidStreamFallbackError": BY_STATUS,
    "MockException": BY_STATUS,
    "ModelNotMappedError": 404,
    "ModifyResponseException": STUMBLED,
    "NotFoundError": 404,
    "OpenAIError": STUMBLED,
    "PaymentRequiredError": 403,
    "PermissionDeniedError": 403,
    "RateLimitError": 429,
    "RejectedRequestError": 400,
    "SensitiveDataRouteException": STUMBLED,
    "ServiceUnavailableError": 503,
    "Timeout": 504,
    "UnprocessableEntityError": 422,
    "UnsupportedEndpointError": 404,
    "UnsupportedParamsError": 400,
    "VectorStoreSearchError": 400,
}
_NO_WAY = frozenset({"ClientConnectorDNSError", "ClientConnectorError", "ConnectError", "ConnectionRefusedError", "gaierror"})
_BROKEN = frozenset(
    {
        "ClientPayloadError", "CloseError", "ConnectionResetError", "ReadError", "RemoteProtocolError",
        "ServerDisconnectedError", "WriteError",
    }
)  # fmt: skip
_LATE = frozenset(
    {"APITimeoutError", "PoolTimeout", "ReadTimeout", "SocketTimeoutError", "Timeout", "TimeoutError", "WriteTimeout"}
)
_ANSWERED = "HTTPStatusError"
_UNPAID = 402  # the operator's account, nothing that the client could pay
_DEEPEST = 16
_LONGEST = 1_000
_OVERFLOW = "context_length_exceeded"
_PREFIX = re.compile(r"^(?:(?:litellm\.)?\w+(?:Error|Exception)(?::| -)\s*)+")
_SECRET = re.compile(
    r"(?i:bearer)\s+\S+"
    r"|\b(?:sk|pk|rk|gsk|xai|hf)[-_][A-Za-z0-9_\-*.]{6,}"
    r"|\bAIza[\w\-]{10,}|\b(?:AKIA|ASIA)[A-Z0-9]{8,}|\beyJ[\w\-]+\.[\w\-.]+"
    r"|\bhttps?://\S+"
    r"|(?i:\b(?:api[-_]?key|access[-_]?key|secret|token|password|authorization)\b[\"']?\s*[:=]\s*[\"']?)[^\s\"',}]+"
)
_SAYINGS = {
    401: "The provider refuses the gateway's key.",
    403: "The provider denies the gateway this model.",
    404: "The provider does not know this model.",
    429: "The provider's rate limit is reached.",
    500: "The provider failed.",
    STUMBLED: "The request could not be translated for the provider, or its answer not be read.",
    502: "The provider's answer was not usable.",
    503: "The provider is overloaded.",
    504: "The provider did not answer in time.",
}
_KINDS = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}


@dataclass(frozen=True, slots=True)
class Refusal:
    """The answer that an OpenAI server would have given."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes


def refusal(status: int, message: str, *, param: str | None = None, code: str | None = None, after: str | None = None) -> Refusal:
    kind = _KINDS.get(status, "invalid_request_error" if status < 500 else "server_error")
    body = msgspec.json.encode({"error": {"message": message, "type": kind, "param": param, "code": code}})
    headers = [(b"content-type", b"application/json")]
    return Refusal(status, [*headers, (b"retry-after", after.encode())] if after else headers, body)


def failure_of(error: Exception, secrets: Collection[str]) -> Refusal | UpstreamError:
    """What became of an attempt. `secrets` are texts that no message may hold."""
    if isinstance(error, UpstreamError):
        return error
    chain = list(_chain(error))
    causes = {type(one).__name__ for one in chain}
    if _ANSWERED not in causes:
        if "ConnectTimeout" in causes or "ConnectionTimeoutError" in causes:
            return UpstreamTimeout("connect", sent=False)
        if causes & _NO_WAY:
            return ConnectFailed("no connection to the provider")
        if causes & _BROKEN:
            return ConnectionBroken("the connection to the provider broke")
        if causes & _LATE:
            return UpstreamTimeout("provider", sent=True)  # a timer of the library's own: the request's is ours to keep
    return _refused(_meant(error), chain, secrets)


def broken(error: Exception) -> UpstreamError:
    """The same, for a stream that has begun."""
    found = failure_of(error, ())
    return found if isinstance(found, UpstreamError) else ConnectionBroken("the provider ended it with an error")


def _refused(error: BaseException, chain: list[BaseException], secrets: Collection[str]) -> Refusal:
    status = _status(error)
    told = _told(chain)
    if status == STUMBLED and told:  # an error event in a stream, which the library takes for a fault of its own
        code = told.get("code")
        status = code if isinstance(code, int) and 400 <= code < 600 else 500
    if status == STUMBLED:
        _log.warning("litellm stumbled over a request: %s", ", from ".join(type(one).__name__ for one in chain))
    if status not in (400, 413, 422):
        after = _retry_after(chain) if status in (429, 503) else None
        return refusal(status, _SAYINGS.get(status, "The provider refused the request."), after=after)
    overflow = type(error).__name__ == "ContextWindowExceededError" or told.get("code") == _OVERFLOW
    said = told.get("message")
    message = _scrubbed(said if isinstance(said, str) else _PREFIX.sub("", str(error)), secrets)
    param, code = told.get("param"), told.get("code")
    return refusal(
        status,
        message,
        param=_scrubbed(param, secrets) if isinstance(param, str) else None,
        code=_OVERFLOW if overflow else _scrubbed(code, secrets) if isinstance(code, str) else None,
    )


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The exception and what led to it, nearest first."""
    one: BaseException | None = error
    for _ in range(_DEEPEST):
        if one is None:
            return
        yield one
        inner = getattr(one, "original_exception", None)
        one = inner if isinstance(inner, BaseException) else one.__cause__ or one.__context__


def _meant(error: BaseException) -> BaseException:
    """What a wrapper of the library wraps."""
    for _ in range(_DEEPEST):
        inner = getattr(error, "original_exception", None)
        if not isinstance(inner, Exception):
            break
        error = inner
    return error


def _status(error: BaseException) -> int:
    known = next((STATUSES[kind.__name__] for kind in type(error).__mro__ if kind.__name__ in STATUSES), STUMBLED)
    if known != BY_STATUS:
        return known
    own = getattr(error, "status_code", None)
    if own == _UNPAID:
        return 403
    return own if isinstance(own, int) and 400 <= own < 600 else 500


def _told(chain: list[BaseException]) -> dict[str, Any]:
    """The provider's own `error` object, where an exception kept it."""
    bodies = (getattr(one, "body", None) for one in chain)
    body = next((body for body in bodies if isinstance(body, dict)), {})
    inner = body.get("error")
    return inner if isinstance(inner, dict) else body


def _retry_after(chain: list[BaseException]) -> str | None:
    for one in chain:
        headers = getattr(getattr(one, "response", None), "headers", None) or getattr(one, "litellm_response_headers", None)
        value = headers.get("retry-after") if isinstance(headers, Mapping) else None
        if isinstance(value, str) and 0 < len(value) <= 40 and value.isascii() and value.isprintable():
            return value
    return None


def _scrubbed(text: str, secrets: Collection[str]) -> str:
    text = text[: 4 * _LONGEST]
    for secret in secrets:
        text = text.replace(secret, "***")
    return _SECRET.sub("***", text)[:_LONGEST]
