"""What can go wrong with a request, whose fault it is, and what the client is told.

Every failure that reaches a client is an `ApiError`: a status, a type, a code of ours, and a message that names
what to do. The leaves raise their own exceptions; `gateway.refusals` turns each into one of these.

    ApiError
    ├── invalid_request   400 404 405 408 411 413 414 415 417 422 431   the client's: change the request
    ├── authentication    401          the client's: change the key
    ├── permission        403          the operator's policy
    ├── rate_limit        429          wait, as told
    ├── unavailable       503 529      wait, as told
    └── upstream          502 504      the fleet's: retry may help
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from gateway.endpoints import Dialect
from gateway.outcomes import RequestOutcome

_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}
_MESSAGES_TYPES = {**_TYPES, 413: "request_too_large", 503: "overloaded_error"}


class ApiError(Exception):
    """An answer that is an error. `headers` are extra response headers; `outcome` is its label in the metrics."""

    content_type = b"application/json"

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        param: str | None = None,
        kind: str | None = None,
        headers: Mapping[str, str] | None = None,
        outcome: RequestOutcome | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.param = param
        self.kind = kind or _TYPES.get(status) or ("invalid_request_error" if status < 500 else "server_error")
        self.headers = dict(headers or {})
        self.outcome: RequestOutcome = outcome or ("client_error" if status < 500 else "upstream_error")

    def header_lines(self) -> bytes:
        """The extra headers, as they are written."""
        return "".join(f"{name}: {value}\r\n" for name, value in self.headers.items()).encode("ascii", "backslashreplace")

    def body(self, dialect: Dialect = Dialect.OPENAI) -> bytes:
        """`{"error": {"message", "type", "param", "code"}}`, all four keys, always; in Anthropic's shape where that is spoken."""
        error = {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}
        if dialect is not Dialect.MESSAGES:
            return msgspec.json.encode({"error": error})
        kind = _MESSAGES_TYPES.get(self.status) or ("invalid_request_error" if self.status < 500 else "api_error")
        return msgspec.json.encode({"type": "error", "error": {**error, "type": kind}})

    def event(self, dialect: Dialect) -> bytes:
        """The last event of a stream that cannot go on, as clients of that API read it."""
        if dialect is Dialect.MESSAGES:
            return b"event: error\ndata: %b\n\n" % self.body(dialect)
        if dialect is not Dialect.RESPONSES:
            return b"data: %b\n\n" % self.body()
        error = {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}
        named = {"type": "error", "code": self.code, "message": self.message, "param": self.param, "error": error}
        return b"event: error\ndata: %b\n\n" % msgspec.json.encode(named)


class BackendAnswer(ApiError):  # noqa: N818 - it is the answer
    """An error answer of a backend that passes on as it is: its own bytes, status and content type."""

    def __init__(self, status: int, content_type: bytes, answer: bytes, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(status, "backend_error", f"the backend answered {status}", headers=headers)
        self.content_type = content_type
        self.answer = answer

    def body(self, dialect: Dialect = Dialect.OPENAI) -> bytes:  # noqa: ARG002 - it speaks the backend's
        return self.answer

    def event(self, dialect: Dialect) -> bytes:
        """Its bytes line by line, so that they are one event; what is no JSON is told in our own words."""
        try:
            msgspec.json.decode(self.answer, type=dict[str, msgspec.Raw])
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            return ApiError(self.status, self.code, self.message).event(dialect)
        name = b"" if dialect is Dialect.OPENAI else b"event: error\n"
        return name + b"".join([b"data: %b\n" % line for line in self.answer.splitlines() if line]) + b"\n"


def internal_error() -> ApiError:
    """The answer to a request that met a fault of ours."""
    return ApiError(500, "internal_error", "The gateway failed on this request.")
