"""A request as it arrives, and the answer to it: what handlers see of a connection.

Both have slots: what is found on the class instead takes twenty times as long to read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Protocol

from gateway.errors import ApiError

_STATUS_LINES = {status.value: b"HTTP/1.1 %d %s\r\n" % (status.value, status.phrase.encode()) for status in HTTPStatus}
_COPIED = 65_536  # a body up to here is joined to its head; past it two writes are cheaper than the copy


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a client may send. Sizes in bytes, times in seconds."""

    max_header: int = 65_536
    max_body: int = 16 * 1024 * 1024
    header_timeout: float = 10.0
    body_timeout: float = 60.0
    keep_alive: float = 75.0


class Line(Protocol):
    """What a request and its answer need of their connection."""

    bounds: Bounds
    loop: asyncio.AbstractEventLoop
    writable: bool

    @property
    def gone(self) -> bool: ...
    def client(self, request: Request) -> str: ...
    def write(self, data: bytes) -> None: ...
    def farewell(self, request: Request) -> bytes: ...
    async def receive(self, request: Request) -> None: ...


class Request:
    """One request, as it arrived. Header names are lower-case, values without white space around them; no trailers."""

    __slots__ = ("_body", "_broken", "_connection", "_pieces", "_waiter", "arrived", "complete", "head_only", "headers",
                 "keep_alive", "method", "received", "url", "version_10")  # fmt: skip

    def __init__(self, connection: Line) -> None:
        self._connection = connection
        self._pieces: list[bytes] = []
        self._body: bytes | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._broken: Exception | None = None
        self.headers: list[tuple[bytes, bytes]] = []
        self.method = b""
        self.url = b""
        self.arrived = 0.0  # when its head was complete
        self.keep_alive = True  # the connection may serve another one after it
        self.version_10 = False
        self.head_only = False  # its answer has no body
        self.complete = False  # all of it has come
        self.received = 0  # bytes of the body so far, dropped ones included

    @property
    def client(self) -> str:
        """The address of who sent it, for the log."""
        return self._connection.client(self)

    def header(self, name: bytes) -> bytes | None:
        """The first header of that (lower-case) name."""
        for key, value in self.headers:
            if key == name:
                return value
        return None

    async def body(self) -> bytes:
        """The whole body. Raises ApiError 413 when it is over the bound, 408 when it is too slow, 400 for bad chunks."""
        if not self.complete:
            await self._connection.receive(self)
        return self.whole()

    def whole(self) -> bytes:
        """The same, of one that is complete or over the bound."""
        if self._body is None:
            if self.received > self._connection.bounds.max_body:
                raise self.too_large()
            self._body = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
            self._pieces = []
        return self._body

    @property
    def max_body(self) -> int:
        """What a body may come to, also once it is decompressed."""
        return self._connection.bounds.max_body

    def too_large(self) -> ApiError:
        bound = self.max_body
        return ApiError(413, "body_too_large", f"The request body is over this gateway's limit of {bound} bytes.")

    def feed(self, piece: bytes) -> None:
        """The next piece of the body has come. What is over the bound is not kept."""
        self.received += len(piece)
        if self.received <= self._connection.bounds.max_body:
            self._pieces.append(piece)
        else:
            self._pieces = []
            self.wake()

    @property
    def missing(self) -> int:
        """Bytes of the body that were announced and have not come."""
        return int(self.header(b"content-length") or 0) - self.received

    async def wait(self) -> None:
        """Until the body is complete or over the bound. Raises what ended it before."""
        if self._broken is not None:
            raise self._broken
        self._waiter = self._connection.loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def wake(self, broken: Exception | None = None) -> None:
        """Tell whoever waits that the body is there, or `broken`: why it will not be."""
        self._broken = self._broken or broken
        if self._waiter is None or self._waiter.done():
            return
        if self._broken is None:
            self._waiter.set_result(None)
        else:
            self._waiter.set_exception(self._broken)


class Response:
    """The answer to one request: `send` at once, or `start`, `write`…, `end`. Header blocks are bytes, CRLF-ended lines."""

    __slots__ = ("_chunked", "_head", "_mute", "_request", "ended", "line", "on_writable", "started", "status")

    def __init__(self, connection: Line, request: Request) -> None:
        self.line = connection
        self._request = request
        self._head: bytes | None = None  # started, but not yet written: it travels with the first piece
        self._chunked = True
        self._mute = request.head_only
        self.started = False
        self.ended = False
        self.status = 0
        self.on_writable: Callable[[], None] | None = None

    @property
    def writable(self) -> bool:
        """False while the client has not taken what was written: stop writing until `on_writable` is called."""
        return self.line.writable

    @property
    def gone(self) -> bool:
        """Nobody is there any more to read it."""
        return self.line.gone

    @property
    def straight(self) -> Line | None:
        """Where chunks may be written as they are, past `write`."""
        whole = self._head is None and self._chunked and not self._mute
        return self.line if whole and self.started and not self.ended else None

    def send(self, status: int, headers: bytes, body: bytes) -> None:
        """The whole answer in one write."""
        begun, line = self._begin(status), self.line
        self.ended = True
        long = len(body) > _COPIED
        with_it = b"" if long or self._mute else body
        line.write(b"%b%bcontent-length: %d\r\n%b\r\n%b" % (begun, headers, len(body), line.farewell(self._request), with_it))
        if long and not self._mute:
            line.write(body)

    def send_bare(self, status: int, headers: bytes) -> None:
        """A whole answer that has no body by its status, and so no length."""
        line = self._begin(status)
        self.ended = True
        self.line.write(b"%b%b%b\r\n" % (line, headers, self.line.farewell(self._request)))

    def start(self, status: int, headers: bytes) -> None:
        """The head of a streamed answer; chunked, or ended by the close for a client of HTTP/1.0."""
        line = self._begin(status)
        request = self._request
        self._chunked = not request.version_10
        if not self._chunked:
            request.keep_alive = False
        framing = b"transfer-encoding: chunked\r\n" if self._chunked else b""
        self._head = b"%b%b%b%b\r\n" % (line, headers, framing, self.line.farewell(request))

    def write(self, piece: bytes) -> None:
        """One piece of a started answer."""
        if not piece or self._mute:
            return
        if self._chunked:
            piece = b"%x\r\n%b\r\n" % (len(piece), piece)
        if self._head is not None:
            piece, self._head = self._head + piece, None
        self.line.write(piece)

    def end(self) -> None:
        """The end of a started answer. A second call does nothing."""
        if self.ended:
            return
        self.ended = True
        tail = b"0\r\n\r\n" if self._chunked and not self._mute else b""
        if self._head is not None:
            tail, self._head = self._head + tail, None
        if tail:
            self.line.write(tail)

    def _begin(self, status: int) -> bytes:
        if self.started:
            raise RuntimeError("a second answer to one request")
        self.started = True
        self.status = status
        return _STATUS_LINES.get(status) or b"HTTP/1.1 %d Status\r\n" % status
