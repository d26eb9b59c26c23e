"""The downstream side of the wire: HTTP/1.1 on `asyncio.Protocol` and llhttp (through httptools).

Why not an ASGI server: measured beside each other on one machine (0.5 KB in, 0.6 KB out, 32 connections), uvicorn takes
31 µs of CPU a request, granian 28-34, this file 10; and a token that arrives from a replica is written to the client
from the very callback that read it, where ASGI would wake a task for each.

Rules of this file
1. A request is handed over when its head is complete; its body is awaited by whoever wants it. Small ones are there by then.
2. One task a request, cancelled when the client goes. Pipelined requests wait their turn.
3. Everything is bounded: head bytes, body bytes, time to the end of the head, time to the end of the body, time that a
   client may leave our answer unread, requests pipelined. One sweep a second looks at the clocks of all connections:
   no timer is made for a request.
4. An answer is written once and whole, or started, written in pieces and ended. A second start is a bug and raises.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from email.utils import formatdate
from http import HTTPStatus
from typing import cast

import httptools

from gateway.errors import ApiError

_REASONS = {status.value: status.phrase.encode() for status in HTTPStatus}
_STATUS_LINES = {code: b"HTTP/1.1 %d %s\r\n" % (code, phrase) for code, phrase in _REASONS.items()}
_MAX_URL = 8192
_MAX_PIPELINED = 16
_PIPELINED_BYTES = 65_536  # of a body that nobody waits for yet: past it the socket is not read
_DRAIN_BYTES = 64 * 1024 * 1024  # of a refused body: clients that write before they read would miss the answer
_DRAIN_SECONDS = 2.0
_UNREAD_SECONDS = 120.0  # an answer that its client does not take


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a client may send. Sizes in bytes, times in seconds."""

    max_header: int = 65_536
    max_body: int = 16 * 1024 * 1024
    header_timeout: float = 10.0
    body_timeout: float = 60.0
    keep_alive: float = 75.0


class Request:
    """One request, as it arrived. Header names are lower-case, values stripped of the wire's white space."""

    __slots__ = ("_body", "_broken", "_connection", "_pieces", "_size", "_waiter", "arrived", "complete", "head_only",
                 "headers", "keep_alive", "method", "refused", "url", "version_10")  # fmt: skip

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._pieces: list[bytes] = []
        self._size = 0
        self._body: bytes | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._broken: Exception | None = None
        self.method = b""
        self.url = b""
        self.headers: list[tuple[bytes, bytes]] = []
        self.keep_alive = True
        self.version_10 = False
        self.head_only = False
        self.complete = False
        self.refused = False  # the body is read and dropped from here on
        self.arrived = 0.0

    def header(self, name: bytes) -> bytes | None:
        """The first header of that (lower-case) name."""
        for key, value in self.headers:
            if key == name:
                return value
        return None

    async def body(self) -> bytes:
        """The whole body. Raises ApiError 413 when it is over the bound, 408 when it does not come in time."""
        if not self.complete:
            await self._connection.receive(self)
        if self._size > self._connection.bounds.max_body:
            raise self._connection.too_large()
        if self._body is None:
            self._body = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
            self._pieces = []
        return self._body

    def feed(self, piece: bytes) -> None:
        self._size += len(piece)
        if self.refused or self._size > self._connection.bounds.max_body:
            self._pieces = []
            if not self.refused:
                self.wake()
        else:
            self._pieces.append(piece)

    @property
    def received(self) -> int:
        """Bytes of the body that have come so far, dropped ones included."""
        return self._size

    async def wait(self) -> None:
        """Until more has come. Raises what ended the body before its end."""
        if self._broken is not None:
            raise self._broken
        self._waiter = self._connection.loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def wake(self, broken: Exception | None = None) -> None:
        self._broken = self._broken or broken
        if self._waiter is None or self._waiter.done():
            return
        if self._broken is None:
            self._waiter.set_result(None)
        else:
            self._waiter.set_exception(self._broken)


class Response:
    """The answer to one request: `send` at once, or `start`, `write`…, `end`. Header blocks are bytes, CRLF-ended lines."""

    __slots__ = ("_chunked", "_connection", "_head", "_request", "ended", "on_writable", "started", "status")

    def __init__(self, connection: Connection, request: Request) -> None:
        self._connection = connection
        self._request = request
        self._head: bytes | None = None  # started, but not yet written: it travels with the first piece
        self._chunked = True
        self.started = False
        self.ended = False
        self.status = 0
        self.on_writable: Callable[[], None] | None = None

    @property
    def writable(self) -> bool:
        """False while the client has not taken what was written: stop writing until `on_writable` is called."""
        return self._connection.writable

    @property
    def gone(self) -> bool:
        """Nobody is there any more to read it."""
        return self._connection.gone

    def send(self, status: int, headers: bytes, body: bytes) -> None:
        """The whole answer in one write."""
        self._begin(status)
        self.ended = True
        head = b"%b%bcontent-length: %d\r\n%b\r\n" % (self._line(status), headers, len(body), self._closing())
        if self._request.head_only:
            self._connection.write(head)
        elif len(body) > _PIPELINED_BYTES:  # two writes are cheaper than a copy of a large body
            self._connection.write(head)
            self._connection.write(body)
        else:
            self._connection.write(head + body)

    def start(self, status: int, headers: bytes) -> None:
        """The head of a streamed answer; chunked, or ended by the close for a client of HTTP/1.0."""
        self._begin(status)
        self._chunked = not self._request.version_10
        framing = b"transfer-encoding: chunked\r\n" if self._chunked else b""
        if not self._chunked:
            self._request.keep_alive = False
        self._head = b"%b%b%b%b\r\n" % (self._line(status), headers, framing, self._closing())

    def write(self, piece: bytes) -> None:
        """One piece of a started answer."""
        if not piece or self._request.head_only:
            return
        if self._chunked:
            piece = b"%x\r\n%b\r\n" % (len(piece), piece)
        if self._head is not None:
            piece, self._head = self._head + piece, None
        self._connection.write(piece)

    def end(self) -> None:
        """The end of a started answer. A second call does nothing."""
        if self.ended:
            return
        self.ended = True
        tail = b"0\r\n\r\n" if self._chunked and not self._request.head_only else b""
        if self._head is not None:
            tail, self._head = self._head + tail, None
        if tail:
            self._connection.write(tail)

    def _begin(self, status: int) -> None:
        if self.started:
            msg = "a second answer to one request"
            raise RuntimeError(msg)
        self.started = True
        self.status = status

    def _line(self, status: int) -> bytes:
        return _STATUS_LINES.get(status) or b"HTTP/1.1 %d Status\r\n" % status

    def _closing(self) -> bytes:
        """`date`, and `connection: close` when this answer is the connection's last."""
        if not self._request.complete:
            self._request.keep_alive = False
        if self._request.keep_alive and not self._connection.server.draining:
            return self._connection.server.date
        return self._connection.server.date + b"connection: close\r\n"


Handler = Callable[[Request, Response], Awaitable[None]]


class Connection(asyncio.Protocol):
    """One client's connection: parses requests, runs the handler for one at a time, writes its answers."""

    __slots__ = ("_current", "_deadline", "_feed", "_head_bytes", "_in_head", "_parser", "_queue", "_reading", "_receiving",
                 "_response", "_transport", "_unread_since", "bounds", "loop", "peer", "server", "task", "writable")  # fmt: skip

    def __init__(self, server: Server) -> None:
        self.server = server
        self.bounds = server.bounds
        self.loop = server.loop
        self.writable = True
        self.peer = ""
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpRequestParser(self)
        self._feed: Callable[[bytes], None] = self._parser.feed_data
        self._receiving: Request | None = None  # its head or body is being read
        self._current: Request | None = None  # its handler runs
        self._response: Response | None = None
        self.task: asyncio.Task[None] | None = None
        self._queue: deque[Request] = deque()
        self._in_head = False
        self._head_bytes = 0
        self._reading = True
        self._unread_since = 0.0
        self._deadline = self.loop.time() + server.bounds.header_timeout

    # -- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.server.connections.add(self)
        peer = transport.get_extra_info("peername")
        self.peer = peer[0] if isinstance(peer, tuple) else ""
        sock = transport.get_extra_info("socket")
        if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the protocol's signature; why it closed does not matter
        self.server.connections.discard(self)
        self._transport = None
        self._queue.clear()
        if self._receiving is not None:
            self._receiving.wake(ConnectionResetError("the client went away"))
        if self.task is not None:
            self.task.cancel()

    def data_received(self, data: bytes) -> None:
        if self._receiving is None:
            self._deadline = self.loop.time() + self.bounds.header_timeout
        if self._in_head or self._receiving is None:
            self._head_bytes += len(data)
        try:
            self._feed(data)
        except httptools.HttpParserUpgrade:
            self._fail(ApiError(400, "upgrade_not_supported", "HTTP/1.1 only: send the request without an Upgrade header."))
        except httptools.HttpParserError as error:
            ours = error.__context__  # what one of the callbacks below raised
            known = ours if isinstance(ours, ApiError) else None
            self._fail(known or ApiError(400, "bad_http", "This is not a well-formed HTTP/1.1 request."))
        else:
            if self._in_head and self._head_bytes > self.bounds.max_header:
                self._fail(self._head_too_large())

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self.writable = False
        self._unread_since = self.loop.time()

    def resume_writing(self) -> None:
        self.writable = True
        self._unread_since = 0.0
        if self._response is not None and self._response.on_writable is not None:
            self._response.on_writable()

    # -- llhttp's callbacks

    def on_message_begin(self) -> None:
        self._receiving = Request(self)
        self._in_head = True

    def on_url(self, url: bytes) -> None:
        request = cast(Request, self._receiving)
        request.url += url
        if len(request.url) > _MAX_URL:
            raise ApiError(414, "url_too_long", f"The URL is over {_MAX_URL} bytes.")

    def on_header(self, name: bytes, value: bytes) -> None:
        cast(Request, self._receiving).headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        request = cast(Request, self._receiving)
        self._in_head = False
        if self._head_bytes > self.bounds.max_header:  # it may be the body, come in the same read
            size = sum(len(name) + len(value) + 4 for name, value in request.headers)
            if size > self.bounds.max_header:
                raise self._head_too_large()
        self._head_bytes = 0
        now = self.loop.time()
        self._deadline = now + self.bounds.body_timeout
        request.arrived = time.monotonic()  # finer than the loop's clock, from the same origin
        request.method = self._parser.get_method()
        request.keep_alive = self._parser.should_keep_alive()
        request.version_10 = self._parser.get_http_version() == "1.0"
        if request.method == b"HEAD":
            request.head_only = True
        if self._current is None:
            self._run(request)
        else:
            self._queue.append(request)
            if len(self._queue) >= _MAX_PIPELINED:
                self._read(on=False)

    def on_body(self, piece: bytes) -> None:
        request = cast(Request, self._receiving)
        request.feed(piece)
        if request.refused:
            if request.received > _DRAIN_BYTES:
                self.close()
        elif request is not self._current and request.received > _PIPELINED_BYTES:
            self._read(on=False)

    def on_message_complete(self) -> None:
        request = cast(Request, self._receiving)
        request.complete = True
        self._receiving = None
        self._deadline = 0.0
        request.wake()
        if request.refused:
            self.close()

    # -- what requests and answers need of the connection

    async def receive(self, request: Request) -> None:
        """Wait for the rest of a body, asking for it first where the client waits to be asked."""
        if request.header(b"expect") is not None and not request.received:
            self.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        announced = request.header(b"content-length")
        if announced is not None and int(announced) > self.bounds.max_body:
            raise self.too_large()
        self._read(on=True)
        self._deadline = self.loop.time() + self.bounds.body_timeout
        while not request.complete and request.received <= self.bounds.max_body:
            await request.wait()

    def write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def too_large(self) -> ApiError:
        return ApiError(413, "body_too_large", f"The request body is over this gateway's limit of {self.bounds.max_body} bytes.")

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    @property
    def gone(self) -> bool:
        return self._transport is None

    @property
    def busy(self) -> bool:
        return self._current is not None

    def sweep(self, now: float) -> None:
        """Once a second: what has taken too long?"""
        if self._unread_since and now - self._unread_since > _UNREAD_SECONDS and self._transport is not None:
            self._transport.abort()
        if not self._deadline or now < self._deadline:
            return
        self._deadline = 0.0
        if self._receiving is None or self._receiving.refused:
            self.close()  # idle for keep_alive, or drained for long enough
        elif self._in_head:
            self._fail(ApiError(408, "header_timeout", "The request head did not arrive in time."))
        else:
            self._receiving.wake(ApiError(408, "body_timeout", "The request body did not arrive in time."))

    # -- the inside

    def _head_too_large(self) -> ApiError:
        return ApiError(431, "header_too_large", f"The request head is over {self.bounds.max_header} bytes.")

    def _run(self, request: Request) -> None:
        self._current = request
        self._response = response = Response(self, request)
        self.task = self.loop.create_task(self.server.handler(request, response))  # type: ignore[arg-type] # a coroutine in fact
        self.task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        request, response = cast(Request, self._current), cast(Response, self._response)
        self._current = self._response = self.task = None
        if self._transport is None:
            return
        if task.cancelled() or task.exception() is not None or not response.ended:
            self._transport.abort()
        elif not request.complete:
            request.refused = True
            request.feed(b"")
            self._deadline = self.loop.time() + _DRAIN_SECONDS
            self._read(on=True)
        elif not request.keep_alive or self.server.draining:
            self._transport.close()
        elif self._queue:
            self._run(self._queue.popleft())
            self._read(on=True)
        elif self._receiving is None:
            self._deadline = self.loop.time() + self.bounds.keep_alive

    def _fail(self, error: ApiError) -> None:
        """The wire itself is broken: answer if no answer is under way, and close."""
        request = self._receiving or Request(self)
        self._queue.clear()
        if self._current is None:
            request.keep_alive = False
            request.complete = False
            self._receiving = request
            request.refused = True
            Response(self, request).send(error.status, self.server.on_wire_error(error), error.body())
            self._deadline = self.loop.time() + _DRAIN_SECONDS
            self._feed = _drop
        elif self.task is not None and self._receiving is self._current:
            request.wake(error)
            self._feed = _drop
        else:
            self._current.keep_alive = False
            self._feed = _drop

    def _read(self, *, on: bool) -> None:
        if on == self._reading or self._transport is None:
            return
        self._reading = on
        if on:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()


def _drop(data: bytes) -> None:
    """Takes the place of the parser once a connection's bytes have no more meaning: they are drained and dropped."""


class Server:
    """A listening socket and its connections.

    `on_wire_error` is told of requests that never became one, and gives the header block of their answer.
    """

    def __init__(self, handler: Handler, bounds: Bounds, on_wire_error: Callable[[ApiError], bytes]) -> None:
        self.handler = handler
        self.bounds = bounds
        self.on_wire_error = on_wire_error
        self.connections: set[Connection] = set()
        self.draining = False
        self.date = b""
        self.port = 0
        self._listener: asyncio.Server | None = None
        self._sweeper: asyncio.Task[None] | None = None

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return self._loop

    async def start(self, host: str, port: int) -> None:
        """Listen. Raises OSError when the port is taken. `port` 0 takes a free one; see `self.port`."""
        self._loop = asyncio.get_running_loop()
        self._tick()
        self._listener = await self._loop.create_server(lambda: Connection(self), host, port, backlog=1024)
        self.port = self._listener.sockets[0].getsockname()[1]
        self._sweeper = self._loop.create_task(self._sweep())

    def drain(self) -> None:
        """From here on every answer is its connection's last; idle connections close now."""
        self.draining = True
        for connection in list(self.connections):
            if not connection.busy:
                connection.close()

    async def cancel_all(self) -> None:
        """Cancel every handler, and give each five seconds to say good-bye to its client."""
        tasks = [connection.task for connection in self.connections if connection.task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=5)

    async def stop(self) -> None:
        """Close the listener and every connection, whatever it is doing; handlers are cancelled and awaited for 5 s."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        if self._listener is not None:
            self._listener.close()
        for connection in list(self.connections):
            connection.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(5):
                while self.connections:  # noqa: ASYNC110 - once, at the end of the process
                    await asyncio.sleep(0.01)

    def _tick(self) -> None:
        self.date = f"date: {formatdate(usegmt=True)}\r\n".encode()

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(1)
            self._tick()
            now = self._loop.time()
            for connection in list(self.connections):
                connection.sweep(now)
