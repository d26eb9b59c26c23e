"""What goes back to the client: one answer per request, whole or streamed, with the headers that say why.

A `Reply` is the sink of the answer's bytes: `begin` once, `write` each piece, `end`. It never changes a byte; the one
thing that it may leave out is a usage chunk that the gateway asked for and the client did not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from caches.types import Flow, Line
from gateway.endpoints import Dialect
from gateway.errors import ApiError
from gateway.exchange import Exchange
from gateway.http1 import Response

_OPENAI = Dialect.OPENAI  # an enum member costs a look-up in its class each time
_JSON = b"content-type: application/json\r\n"
_SSE = b"text/event-stream; charset=utf-8"
_SSE_EXTRA = b"cache-control: no-cache\r\nx-accel-buffering: no\r\n"  # proxies between us and the client must not hold tokens


class Head(Struct):  # made in half the time that a dataclass takes
    """The head of an answer as its source gave it."""

    status: int
    content_type: bytes
    stream: bool


class Out(Protocol):
    """What a reply needs of its response."""

    on_writable: Callable[[], None] | None

    @property
    def started(self) -> bool: ...
    @property
    def ended(self) -> bool: ...
    @property
    def writable(self) -> bool: ...
    @property
    def gone(self) -> bool: ...
    @property
    def straight(self) -> Line | None: ...
    def send(self, status: int, headers: bytes, body: bytes) -> None: ...
    def send_bare(self, status: int, headers: bytes) -> None: ...
    def start(self, status: int, headers: bytes) -> None: ...
    def write(self, piece: bytes) -> None: ...
    def end(self) -> None: ...


class Reply:
    """The answer to one exchange."""

    __slots__ = ("_clock", "_flow", "_line", "_pieces", "_response", "_streams", "dialect", "exchange", "head", "line", "run",
                 "show_usage")  # fmt: skip

    def __init__(self, exchange: Exchange, response: Response, clock: Callable[[], float]) -> None:
        self.exchange = exchange
        self.head: Head | None = None
        self.show_usage = True
        self.dialect = _OPENAI  # in which errors are told
        self._response: Out = response
        self._line = response.line
        self._streams = False
        self._clock = clock
        self._pieces: list[bytes] = []
        self._flow: Flow | None = None
        self.line: Line | None = None  # see `caches.types.Sink`
        self.run: list[bytes] = []

    @property
    def flow(self) -> Flow | None:
        """What feeds this answer: it is paused while the client does not take what was written."""
        return self._flow

    @flow.setter
    def flow(self, flow: Flow | None) -> None:
        self._flow = flow
        self._response.on_writable = None if flow is None else flow.resume

    @property
    def writable(self) -> bool:
        """False while the client does not take what was written."""
        return self._line.writable

    def on_writable(self, callback: Callable[[], None] | None) -> None:
        """Call it whenever the client has taken what was written."""
        self._response.on_writable = callback

    @property
    def gone(self) -> bool:
        """Has the client gone?"""
        return self._response.gone

    @property
    def begun(self) -> bool:
        """Has the client been sent anything yet?"""
        return self._response.started

    def through(self, between: Callable[[Out], Out]) -> None:
        """What is written from here on goes through that."""
        self._response = between(self._response)

    def promise(self) -> None:
        """Start a stream whose source has not begun to speak."""
        self.exchange.status = 200
        self._response.start(200, self._headers(_SSE) + _SSE_EXTRA)

    def begin(self, head: object) -> None:
        """Start the answer. A stream's head leaves with its first piece, a whole answer at `end`."""
        if not isinstance(head, Head):
            raise TypeError("an answer begins with a Head")
        self.head = head
        self._streams = head.stream
        self.exchange.status = head.status
        if head.stream:
            self._response.start(head.status, self._headers(head.content_type) + _SSE_EXTRA)

    def write(self, data: bytes, usage_only: bool = False) -> None:
        """One piece. `usage_only` marks the chunk that carries usage and no choices."""
        if usage_only and not self.show_usage:
            return
        if self._streams:
            self._response.write(data)
            if self.line is None:
                self.line = self._response.straight
            if self._flow is not None and not self._line.writable:
                self._flow.pause()
        else:
            self._pieces.append(data)

    def settle(self) -> None:
        """Forget what was written past `write`: nobody will ask."""
        self.run.clear()

    def last(self) -> None:
        """A client needs no word of it."""

    def end(self) -> None:
        """Everything was written."""
        if self.head is None or self._response.ended:
            return
        if self.head.stream:
            self._response.end()
        else:
            body = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
            self._response.send(self.head.status, self._headers(self.head.content_type), body)

    def json(self, status: int, body: bytes) -> None:
        """A whole answer of our own."""
        self.exchange.status = status
        self._response.send(status, self._headers(b"application/json"), body)

    def nothing(self, headers: bytes) -> None:
        """A 204 of our own."""
        self.exchange.status = 204
        x = self.exchange
        self._response.send_bare(204, f"x-request-id: {x.client_id or x.id}\r\n".encode("ascii", "backslashreplace") + headers)

    def raw(self, status: int, content_type: bytes, body: bytes) -> None:
        """A whole answer of our own that is not JSON."""
        self.exchange.status = status
        self._response.send(status, self._headers(content_type), body)

    def error(self, error: ApiError) -> None:
        """The answer is an error: a response of its own, or the last event of a stream that has begun."""
        self.exchange.error = error.code
        if not self._response.started:
            self.exchange.status = error.status
            self._response.send(error.status, self._headers(error.content_type) + error.header_lines(), error.body(self.dialect))
        elif not self._response.ended:
            self._response.write(error.event(self.dialect))
            self._response.end()

    def _headers(self, content_type: bytes) -> bytes:
        x, work = self.exchange, self.exchange.work
        standing = "" if x.standing is None else x.standing()
        taken = int((self._clock() - x.arrived) * 1000)
        text = f"x-request-id: {x.client_id or x.id}\r\nopenai-processing-ms: {taken}\r\n{standing}"
        if x.cache:
            reason = f"; reason={x.cache_reason.replace(' ', '-')}" if x.cache_reason else ""
            text += f"x-tiergate-cache: {x.cache}{reason}\r\n"
        if x.cache_id:
            text += f"x-tiergate-cache-id: {x.cache_id}\r\nage: {x.cache_age}\r\n"
        if work.reason:
            text += (
                f"x-tiergate-model: {work.model}\r\nx-tiergate-tier: {work.tier}\r\n"
                f"x-tiergate-route: {work.reason}\r\nx-tiergate-queue-ms: {round(work.queued * 1000)}\r\n"
            )
        elif work.model:
            text += f"x-tiergate-model: {work.model}\r\nx-tiergate-tier: {work.tier}\r\n"
        if work.score is not None:
            text += f"x-tiergate-score: {work.score:.3f}\r\n"
        if work.policy:
            text += f"x-tiergate-policy: {work.policy}\r\n"
        if work.cascade:
            text += f"x-tiergate-cascade: {work.cascade}\r\n"
        if work.replica:
            text += f"x-tiergate-replica: {work.replica}\r\n"
        return b"content-type: %b\r\n%b" % (content_type, text.encode("ascii", "backslashreplace"))
