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

_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}


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
        outcome: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.param = param
        self.kind = kind or _TYPES.get(status) or ("invalid_request_error" if status < 500 else "server_error")
        self.headers = dict(headers or {})
        self.outcome = outcome or ("client_error" if status < 500 else "upstream_error")

    def body(self) -> bytes:
        """`{"error": {"message", "type", "param", "code"}}`, all four keys, always."""
        return msgspec.json.encode(
            {"error": {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}}
        )


class BackendAnswer(ApiError):  # noqa: N818 - it is the answer
    """An error answer of a backend that passes on as it is: its own bytes, status and content type."""

    def __init__(self, status: int, content_type: bytes, answer: bytes, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(status, "backend_error", f"the backend answered {status}", headers=headers)
        self.content_type = content_type
        self.answer = answer

    def body(self) -> bytes:
        return self.answer
