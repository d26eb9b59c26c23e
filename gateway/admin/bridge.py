"""One request through an ASGI application, in memory.

The application is our own, and answers at once: its answer is collected whole. What it raises is not caught here, so that
an error of an admin call is answered as any other.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from gateway.errors import ApiError
from gateway.http1 import Request

MAX_BODY = 1024 * 1024

_Message = MutableMapping[str, Any]
Application = Callable[
    [_Message, Callable[[], Awaitable[_Message]], Callable[[_Message], Awaitable[None]]],
    Awaitable[None],
]
"""An ASGI 3 application: scope, receive, send."""


@dataclass(slots=True)
class Answer:
    """A whole answer."""

    status: int = 500
    content_type: bytes = b"application/json"
    body: bytes = b""


async def call(application: Application, request: Request, path: str) -> Answer:
    """The application's answer. `path` is the request's without query and decorations. Raises ApiError 413, 408 and 400."""
    body = await request.body()
    if len(body) > MAX_BODY:
        raise ApiError(413, "body_too_large", f"The body of an admin call has at most {MAX_BODY} bytes.")
    answer = Answer()
    pending = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> _Message:
        return pending.pop() if pending else {"type": "http.disconnect"}

    async def send(message: _Message) -> None:
        if message["type"] == "http.response.start":
            answer.status = message["status"]
            answer.content_type = dict(message["headers"]).get(b"content-type", answer.content_type)
        else:
            answer.body += message.get("body", b"")

    await application(_scope(request, path), receive, send)
    return answer


def _scope(request: Request, path: str) -> _Message:
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": request.method.decode("latin-1"),
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode("latin-1", "replace"),
        "query_string": request.url.partition(b"?")[2],
        "root_path": "",
        "headers": request.headers,
        "client": None,
        "server": None,
        "state": {},
    }
