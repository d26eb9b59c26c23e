"""One request through an ASGI application, in memory.

The application is our own, and answers at once: its answer is collected whole. What it raises is not caught here, so that
an error of an admin call is answered as any other.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

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


@dataclass(slots=True)
class Call:
    """A request, whole. `sight`: what the process that heard it has seen, where another one answers."""

    method: bytes
    url: bytes
    content_type: bytes
    body: bytes
    sight: bytes = b""


class Loaded:
    """The calls of an application that is made at the start."""

    def __init__(self, make: Callable[[], Application]) -> None:
        self._make = make
        self._application: Application | None = None

    def load(self) -> None:
        self._application = self._make()

    async def answer(self, call: Call, path: str, /) -> Answer:
        """`path` is the request's without query and decorations. Raises ApiError."""
        if self._application is None:
            self.load()
        assert self._application is not None
        return await through(self._application, call, path)


async def through(application: Application, call: Call, path: str) -> Answer:
    """The application's answer."""
    answer = Answer()
    pending = [{"type": "http.request", "body": call.body, "more_body": False}]

    async def receive() -> _Message:
        return pending.pop() if pending else {"type": "http.disconnect"}

    async def send(message: _Message) -> None:
        if message["type"] == "http.response.start":
            answer.status = message["status"]
            answer.content_type = dict(message["headers"]).get(b"content-type", answer.content_type)
        else:
            answer.body += message.get("body", b"")

    await application(_scope(call, path), receive, send)
    return answer


def _scope(call: Call, path: str) -> _Message:
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": call.method.decode("latin-1"),
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode("latin-1", "replace"),
        "query_string": call.url.partition(b"?")[2],
        "root_path": "",
        "headers": [(b"content-type", call.content_type)] if call.content_type else [],
        "client": None,
        "server": None,
        "state": {"sight": call.sight},
    }
