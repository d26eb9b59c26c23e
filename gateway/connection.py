"""One client's connection: HTTP/1.1 read with llhttp (through httptools), one handler at a time, answers written.

Rules of this file
1. A request is handed over when its head is complete; its body is awaited by whoever wants it. Small ones are there by then.
2. One task a request, cancelled when the client goes. Pipelined requests wait their turn and are answered in order.
3. Everything is bounded: head and trailer bytes, body bytes, time to the end of the head, time to the end of the body, time
   that a client may leave our answer unread, requests pipelined. One sweep a second looks at the clocks of all connections:
   no timer is made for a request.
4. Bytes that are no HTTP get a 400 in their turn, and nothing after them is read as a request.
5. Before we close on a client that may still be sending, we say that we are done and take what it sends for a moment:
   closing at once would reset the connection, and the answer would be lost with it.
6. A client that ends its side has left, as nginx, Go and uvicorn see it too: nothing tells it from one that is gone, and a
   model would generate for nobody. What is answered at once (health, metrics, refusals) still reaches it. TLS knows no
   half-closed connection: there a client that ends its side has ended both.
7. HTTP/1.1 lets a server ignore `Upgrade`. We do: the request is served as if it had not asked.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, cast

import httptools

from gateway.clients import Proxies, peer_of
from gateway.errors import ApiError
from gateway.messages import Bounds, Request, Response
from gateway.refusals import waiting

_MAX_URL = 8192
_MAX_PIPELINED = 16  # requests that wait their turn: past it the socket is not read
_PIPELINED_BYTES = 65_536  # of a body whose turn has not come, likewise
_SLICE = 8192  # parsed in one go, whatever it holds: how far those two bounds can be overrun
_DRAIN_BYTES = 64 * 1024 * 1024  # of what nobody wants: clients that write before they read would miss the answer
_DRAIN_SECONDS = 2.0
_QUIET_SECONDS = 1.0  # that a kept connection of a server that is going may be idle: a request may be on its way
_UNREAD_SECONDS = 120.0  # without a client's taking any of its answer

_log = logging.getLogger("tiergate.http")

Handler = Callable[[Request, Response], Coroutine[Any, Any, None]]


class Host(Protocol):
    """The server, as its connections see it."""

    handler: Handler
    bounds: Bounds
    on_wire_error: Callable[[ApiError, str], bytes]
    proxies: Proxies
    connections: set[Connection]
    draining: bool
    max_connections: int
    turned_away: int
    date: bytes  # a header line, true to the second

    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...


class Connection(asyncio.Protocol):
    """One client's connection: parses requests, runs the handler for one at a time, writes its answers."""

    __slots__ = ("_current", "_deadline", "_dropped", "_feed", "_head_bytes", "_headers", "_held", "_in_head", "_parser",
                 "_proxied", "_queue", "_reading", "_receiving", "_response", "_tls", "_transport", "_unread", "_unread_since",
                 "_wrong", "bounds", "loop", "peer", "served", "server", "task", "writable", "write")  # fmt: skip

    def __init__(self, server: Host) -> None:
        self.server = server
        self.bounds = server.bounds
        self.loop = server.loop
        self.writable = True
        self.write: Callable[[bytes], None] = _unheard  # while it is there the transport's own: each token asks for it
        self.served = False  # an answer is out, and it was not the last
        self.task: asyncio.Task[None] | None = None
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpRequestParser(self)
        self._feed: Callable[[bytes | memoryview], None] = self._parser.feed_data
        self._receiving: Request | None = None  # its head or body is being read
        self._headers: list[tuple[bytes, bytes]] = []  # those of the request whose head is being read
        self._current: Request | None = None  # its handler runs
        self._response: Response | None = None
        self._queue: deque[Request] = deque()
        self._held = b""  # was read, and is parsed when the queue has room
        self._wrong: ApiError | None = None  # what came after the queue was no HTTP
        self._in_head = False
        self._head_bytes = 0  # since the last byte of a body
        self._dropped = 0
        self._reading = True
        self._unread = 0
        self._unread_since = self.loop.time()
        self._deadline = self._unread_since + server.bounds.header_timeout  # 0: nothing is waited for

    # -- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.write = self._transport.write
        self._tls = transport.get_extra_info("sslcontext") is not None
        self.peer = peer_of(transport.get_extra_info("peername"))
        self._proxied = self.server.proxies.trusts(self.peer)
        excess = len(self.server.connections) - self.server.max_connections if self.server.max_connections else -1
        self.server.connections.add(self)
        if excess > 0 and excess >= self.server.turned_away:
            self._transport.abort()
        elif excess >= 0:
            message = "The gateway has as many connections as it can hold: try again shortly."
            busy = ApiError(503, "too_many_connections", message, kind="overloaded_error", headers=waiting(1.0))
            busy.outcome = "rejected"
            self._refuse(busy)
        sock = transport.get_extra_info("socket")
        if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the protocol's signature; why it closed does not matter
        self.server.connections.discard(self)
        self._transport = None
        self.write = _unheard
        self._queue.clear()
        self._held = b""
        if self._receiving is not None:
            self._receiving.wake(ConnectionResetError("the client went away"))
        if self.task is not None:
            self.task.cancel()
        del self._parser, self._feed  # they hold us as we hold them: without this only the collector could free both

    def data_received(self, data: bytes) -> None:
        if len(data) <= _SLICE:
            self._parse(data)
            return
        at, view = 0, memoryview(data)
        while at < len(data):
            if not self._reading:
                self._held = data[at:]
                return
            end = self._stride(data, at)
            self._parse(view[at:end])
            at = end

    def _stride(self, data: bytes, at: int) -> int:
        """How far to parse at once: to the end of a head, so that the queue stays short, or of a body, for it to be one piece."""
        request = self._receiving
        if request is None or self._in_head:
            end = data.find(b"\r\n\r\n", at)
            return end + 4 if end >= 0 else len(data)
        return at + max(_SLICE, request.missing)

    def eof_received(self) -> bool:
        if self._current is None:
            return False  # the transport closes when what was written is out
        self.loop.call_soon(self._leave)  # after the handler's first step: what needs no waiting is answered
        return not self._tls

    def pause_writing(self) -> None:
        self.writable = False

    def resume_writing(self) -> None:
        self.writable = True
        if self._response is not None and self._response.on_writable is not None:
            self._response.on_writable()

    # -- parsing

    def _parse(self, data: bytes | memoryview) -> None:
        self._head_bytes += len(data)
        try:
            self._feed(data)
        except httptools.HttpParserUpgrade as upgrade:
            end: int = upgrade.args[0]
        except httptools.HttpParserError as error:
            ours = error.__context__  # what one of the callbacks below raised
            if ours is not None and not isinstance(ours, ApiError):
                try:
                    raise ours from None  # a fault of this file
                finally:
                    del ours  # it refers to this frame
            self._fail(ours or ApiError(400, "bad_http", f"This is not a well-formed HTTP/1.1 request: {error}."))
            return
        else:
            if self._receiving is not None and not self._deadline:
                self._deadline = self.loop.time() + (self.bounds.header_timeout if self._in_head else self.bounds.body_timeout)
            if self._head_bytes > self.bounds.max_header:
                self._fail(self._head_too_large())
            return
        self._without_upgrade(bytes(data[end:]))

    def _without_upgrade(self, rest: bytes) -> None:
        """The parser stops at the end of such a head and takes no body: the head is read again, without the `Upgrade` in it."""
        request = cast(Request, self._receiving)
        if self._parser.get_method() == b"CONNECT":
            self._fail(ApiError(405, "method_not_allowed", "This is no proxy: CONNECT is not served."))
            return
        lines = [b"%b: %b\r\n" % header for header in request.headers if header[0] != b"upgrade"]
        head = (self._parser.get_method(), request.url, self._parser.get_http_version().encode(), b"".join(lines))
        self._parser = httptools.HttpRequestParser(self)
        self._feed = self._parser.feed_data
        self._head_bytes = 0
        self._parse(b"%b %b HTTP/%b\r\n%b\r\n" % head + rest)

    def on_message_begin(self) -> None:
        self._receiving = request = Request(self)
        self._headers = request.headers
        self._in_head = True
        self._deadline = 0.0

    def on_url(self, url: bytes) -> None:
        request = self._receiving
        assert request is not None
        request.url += url
        if len(request.url) > _MAX_URL:
            raise ApiError(414, "url_too_long", f"The URL is over {_MAX_URL} bytes.")

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:
            self._headers.append((name.lower(), value.rstrip(b" \t")))

    def on_headers_complete(self) -> None:
        request, parser = self._receiving, self._parser
        assert request is not None
        if parser.should_upgrade():
            return
        if self._head_bytes > self.bounds.max_header:  # it may be the body, come in the same read
            size = sum(len(name) + len(value) + 4 for name, value in request.headers)
            if size > self.bounds.max_header:
                raise self._head_too_large()
        version = parser.get_http_version()
        if version != "1.1":
            _check_old(request, version)
        self._in_head = False
        self._head_bytes = 0
        self._deadline = 0.0
        request.arrived = time.monotonic()  # finer than the loop's clock, from the same origin
        request.method = parser.get_method()
        request.keep_alive = parser.should_keep_alive()
        if request.method == b"HEAD":
            request.head_only = True
        if self._current is None:
            self._run(request)
        else:
            self._queue.append(request)
            if len(self._queue) >= _MAX_PIPELINED:
                self._read(on=False)

    def on_body(self, piece: bytes) -> None:
        request = self._receiving
        assert request is not None
        self._head_bytes = 0
        request.feed(piece)
        if request is not self._current and request.received > _PIPELINED_BYTES:
            self._read(on=False)

    def on_message_complete(self) -> None:
        request = self._receiving
        assert request is not None
        if self._in_head:
            return  # an `Upgrade`: the message is still to come
        request.complete = True
        self._receiving = None
        self._head_bytes = 0
        self._deadline = 0.0
        request.wake()

    # -- what requests and answers need of the connection

    async def receive(self, request: Request) -> None:
        """Wait for the rest of a body, asking for it first where the client waits to be asked."""
        if request.missing > 0 and request.missing + request.received > self.bounds.max_body:
            raise request.too_large()
        if not request.received and not request.version_10 and (request.header(b"expect") or b"").lower() == b"100-continue":
            self.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        self._deadline = self.loop.time() + self.bounds.body_timeout
        while not request.complete and request.received <= self.bounds.max_body:
            await request.wait()

    def client(self, request: Request) -> str:
        """The address of who sent this request, as far as it can be known."""
        return self.server.proxies.client(self.peer, request.headers) if self._proxied else self.peer

    def farewell(self, request: Request) -> bytes:
        """`date`, and `connection: close` when the answer to this request is the connection's last."""
        server = self.server
        if not request.complete or server.draining:
            request.keep_alive = False
        if not request.keep_alive:
            return server.date + b"connection: close\r\n"
        return server.date + b"connection: keep-alive\r\n" if request.version_10 else server.date

    @property
    def gone(self) -> bool:
        return self._transport is None

    # -- what the server needs of it

    @property
    def idle(self) -> bool:
        """No request is under way, and none has begun to arrive."""
        return self._current is None and self._receiving is None

    def hurry(self) -> None:
        """The server is about to go: a client that has been answered and asks for nothing is not waited for long."""
        if self.idle and self.served:
            self._deadline = min(self._deadline, self.loop.time() + _QUIET_SECONDS)

    def close(self) -> None:
        """Close when what was written is out."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close now."""
        if self._transport is not None:
            self._transport.abort()

    def sweep(self, now: float) -> None:
        """Once a second: what has taken too long?"""
        if self._transport is None:
            return
        unread = self._transport.get_write_buffer_size()
        if not unread or unread < self._unread:
            self._unread_since = now
        elif now - self._unread_since > _UNREAD_SECONDS:
            self._transport.abort()
        self._unread = unread
        if not self._deadline or now < self._deadline or not self._reading:  # not read: then it is we who keep it waiting
            return
        self._deadline = 0.0
        if self._receiving is None:
            if self._current is None:  # idle for keep_alive, or drained for long enough
                self._transport.close()
        elif self._in_head:
            self._fail(ApiError(408, "header_timeout", "The request head did not arrive in time."))
        else:
            self._fail(ApiError(408, "body_timeout", "The request body did not arrive in time."))

    # -- the inside

    def _head_too_large(self) -> ApiError:
        what = "head" if self._in_head else "trailer"
        return ApiError(431, "header_too_large", f"The request {what} is over {self.bounds.max_header} bytes.")

    def _run(self, request: Request) -> None:
        self._current = request
        self._response = response = Response(self, request)
        self.task = task = self.loop.create_task(self.server.handler(request, response))
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        request, response = self._current, self._response
        assert request is not None
        assert response is not None
        self._current = self._response = self.task = None
        failed = task.cancelled() or task.exception() is not None
        if failed and not task.cancelled():
            _log.error("a handler failed", exc_info=task.exception())
        if self._transport is None:
            return
        if failed or not response.ended:
            self._transport.abort()
        elif not request.complete:
            self._linger()
        elif not request.keep_alive:
            if self._queue or self._held or self._wrong is not None:
                self._linger()
            else:
                self._transport.close()
        else:
            self._next()

    def _next(self) -> None:
        """An answer is out, and the connection goes on."""
        self.served = True
        if self._queue:
            self._run(self._queue.popleft())
        elif self._wrong is not None:
            self._refuse(self._wrong)
            return
        elif self._receiving is None:
            self._deadline = self.loop.time() + (_QUIET_SECONDS if self.server.draining else self.bounds.keep_alive)
        if not self._reading and not self._queue:
            self._read(on=True)
            held, self._held = self._held, b""
            self.data_received(held)

    def _fail(self, error: ApiError) -> None:
        """What comes has no meaning any more. The request that it was to complete learns it from its `body`."""
        self._feed = self._drop
        self._head_bytes = 0
        request = self._receiving
        if request is not None and not self._in_head:
            request.wake(error)
        elif self._current is None:
            self._refuse(error)
        else:
            self._wrong = error

    def _refuse(self, error: ApiError) -> None:
        """Answer what never became a request."""
        headers = self.server.on_wire_error(error, self.peer) + error.header_lines()
        Response(self, Request(self)).send(error.status, headers, error.body())
        self._linger()

    def _linger(self) -> None:
        """Rule 5."""
        self._receiving = None
        self._feed = self._drop
        self._deadline = self.loop.time() + _DRAIN_SECONDS
        self._read(on=True)
        if self._transport is not None and self._transport.can_write_eof():
            self._transport.write_eof()

    def _drop(self, data: bytes | memoryview) -> None:
        """Takes the place of the parser once a connection's bytes have no more meaning."""
        self._head_bytes = 0
        self._dropped += len(data)
        if self._dropped > _DRAIN_BYTES:
            self.abort()

    def _leave(self) -> None:
        """The client has ended its side."""
        if self._response is None or self._response.ended:
            self.close()
        else:
            self.abort()

    def _read(self, *, on: bool) -> None:
        if on == self._reading or self._transport is None:
            return
        self._reading = on
        if on:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()


def _unheard(data: bytes) -> None:
    """The client is gone."""


def _check_old(request: Request, version: str) -> None:
    """HTTP/1.0 has no chunks: a peer that reads it so would see other requests than we do. What is older has no headers."""
    if version != "1.0" or request.header(b"transfer-encoding") is not None:
        raise ApiError(400, "bad_http", f"This is not a well-formed HTTP/1.1 request: it is HTTP/{version}.")
    request.version_10 = True
