"""The ASGI application: no framework, a table of routes, and what every request has in common.

What goes wrong before a handler is asked (the key, faults that stand instead of an answer, unknown paths), what the log
remembers, and what becomes of a request whose client has left.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from uvicorn.server import ServerState

from gateway.lab.fake.engine import Engine
from gateway.lab.fake.errors import VLLMError, unknown_model
from gateway.lab.fake.exchange import Cut, Exchange, Receive, Scope, Send
from gateway.lab.fake.faults import Faults
from gateway.lab.fake.log import Entry, Log
from gateway.lab.fake.metrics import Metrics
from gateway.lab.fake.options import Options
from gateway.lab.fake.protocol import Connection
from gateway.lab.fake.reply import Author
from gateway.lab.fake.routes import ROUTES
from gateway.lab.fake.script import Script

_GUARDED = ("/v1", "/v2", "/inference", "/cohere")


class App:
    """A raw ASGI application: no framework, a table of routes."""

    def __init__(self, options: Options, script: Script, notify: Callable[[], None]) -> None:
        self.options = options
        self.metrics = Metrics(options.models[0])
        self.engine = Engine(options, self.metrics, time.monotonic, notify)
        self.author = Author(script, options.tokens, options.seed, guided_json=options.guided_json)
        self.faults = Faults(options.seed)
        self.log = Log()
        self.state = ServerState()
        self._notify = notify
        self._key = f"Bearer {options.api_key}".encode() if options.api_key is not None else None

    def connections(self) -> int:
        return len(self.state.connections)

    def model(self, name: Any) -> tuple[str, str | None]:
        """The name the answer carries, and the adapter if it is one. No name means the first model."""
        if not name or name in self.options.models:
            return self.options.models[0], None
        if name in self.options.lora_modules:
            return name, name
        raise unknown_model(name, self.options.models)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        raw = await _body(receive)
        if raw is None:
            return
        method, path, headers = scope["method"], scope["path"], scope["headers"]
        connection: Connection = scope["extensions"]["connection"]["protocol"]
        if path.startswith("/fake/"):
            entry, fault = Entry(0, 0.0, method, path, headers, raw), None
        else:
            entry = self.log.add(time.time(), method, path, headers, raw)
            fault = self.faults.draw(method, path)
            self._notify()
        x = Exchange(scope, send, connection, entry, fault)
        task = asyncio.current_task()
        connection.departed = task.cancel if task is not None else None
        try:
            await self._handle(x, method, path, raw)
        except asyncio.CancelledError:
            entry.aborted = True  # the client left, or the server stopped; nobody is there to be told
        except Cut:
            pass
        finally:
            connection.departed = None
            entry.ended_at = time.time()
            self._notify()

    async def _handle(self, x: Exchange, method: str, path: str, raw: bytes) -> None:
        if self._key is not None and path.startswith(_GUARDED) and not self._authorized(x):
            await x.json(401, {"error": "Unauthorized"})
            return
        if x.fault is not None and await x.before_headers(x.fault):
            return
        route = ROUTES.get(path)
        if route is None:
            await _nowhere(x, path)
            return
        handler = route.get(method)
        if handler is None:
            allowed = ", ".join(sorted(route)).encode()
            await x.json(405, {"detail": "Method Not Allowed"}, [(b"allow", allowed)])
            return
        try:
            await handler(self, x, raw)
        except VLLMError as error:
            await x.error(error)

    def _authorized(self, x: Exchange) -> bool:
        scheme, _, token = (x.header(b"authorization") or b"").partition(b" ")
        return self._key is not None and scheme.lower() == b"bearer" and b"Bearer " + token == self._key


async def _nowhere(x: Exchange, path: str) -> None:
    """A slash too many or too few is sent to the right place, as the framework of vLLM does; anything else is a 404."""
    other = path.removesuffix("/") if path.endswith("/") else path + "/"
    if other not in ROUTES:
        await x.json(404, {"detail": "Not Found"})
        return
    query: bytes = x.scope["query_string"]
    host = x.header(b"host") or b""
    await x.empty(307, [(b"location", b"http://%b%b%b" % (host, other.encode(), b"?" + query if query else b""))])


async def _body(receive: Receive) -> bytes | None:
    """The whole body; None when the client left while sending it."""
    message = await receive()
    if message["type"] != "http.request":
        return None
    body, more = message.get("body", b""), message.get("more_body", False)
    parts = [body]
    while more:
        message = await receive()
        if message["type"] != "http.request":
            return None
        parts.append(message.get("body", b""))
        more = message.get("more_body", False)
    return body if len(parts) == 1 else b"".join(parts)
