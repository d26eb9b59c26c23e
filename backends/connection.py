"""One socket to a replica: HTTP/1.1 in and out, one request at a time.

The parser is llhttp. Its callbacks only note what they saw; one read is handed on as one piece of body and one wake-up.

Rules:
- A socket is reusable only after an answer with its own end (a length or chunks), read to that end, with the whole request
  written, with nothing after it, and when the peer did not say `connection: close`. In doubt it is closed.
- `QUIET` bytes without a byte of body are not an answer: this bounds heads, interim answers, chunk extensions and trailers.
- A body without a length ends where the peer ends the connection in order. Every other end before the end is a failure.
- One timer a socket. It outlives its request, so that a request on a warm socket mostly arms none; a piece of a stream
  costs one look at the clock.
- A body is written in slices as the socket takes them, so that an answer which comes early is read while we still write.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import cast

import httptools

from backends.alarm import Alarm, Deadlines
from backends.answer import Answer
from backends.errors import BadResponse, ConnectionBroken, Phase, UpstreamTimeout

QUIET = 65_536
SLICE = 262_144
JOIN = 65_536  # below this, one copy is cheaper than a second write

_NOTHING = memoryview(b"")


class Refused(Exception):  # noqa: N818 - it stops the parser and never leaves this module
    """What the parser would accept and we do not."""


class Connection(asyncio.Protocol):
    __slots__ = (
        "_alarm",
        "_answer",
        "_begun",
        "_bodiless",
        "_choked",
        "_deadlines",
        "_forget",
        "_headers",
        "_keep",
        "_loop",
        "_parser",
        "_pieces",
        "_quiet",
        "_transport",
        "_unsent",
        "closed",
        "heard",
        "on_body",
        "since",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop, forget: Callable[[Connection], object]) -> None:
        self.closed = True
        self.heard = False  # has anything come since the request was sent?
        self.since = 0.0  # the last sign of life, or where the running deadline begins
        self._loop = loop
        self._forget = forget
        self._answer: Answer | None = None
        self._headers: list[tuple[bytes, bytes]] = []
        self._pieces: list[bytes] = []
        self.on_body = self._pieces.append  # called by the parser: a list's own method is the cheapest
        self._begun = self._bodiless = self._choked = self._keep = False
        self._quiet = 0
        self._unsent = _NOTHING
        self._alarm = Alarm(loop, self._due, self._passed)
        self._parser = httptools.HttpResponseParser(self)

    # ---- the client's side

    async def send(self, head: bytes, body: bytes, deadlines: Deadlines) -> Answer:
        """Write a request; the answer once its head is there."""
        answer = self._answer = Answer(self, self._loop)
        self._deadlines = deadlines
        self._headers = []
        self._quiet = 0
        self._begun = self._keep = self.heard = False
        self._bodiless = head.startswith(b"HEAD ")
        self.since = self._loop.time()
        self._write(head, body)
        self._alarm.watch()
        return await answer.begun()

    def release(self) -> bool:
        """The request is over. True: the socket may carry another one."""
        answer, self._answer = self._answer, None
        if answer is None or not answer.complete or not self._keep or self.closed or not self._written():
            return False
        if answer.halted:
            self._transport.resume_reading()  # an idle socket must notice its peer's end
        return True

    def abort(self) -> None:
        """Close now; what was not written is not written."""
        if not self.closed:
            self.closed = True
            self._transport.abort()

    def halt(self) -> None:
        if not self.closed:
            self._transport.pause_reading()

    def proceed(self) -> None:
        if not self.closed:
            self.since = self._loop.time()
            self._transport.resume_reading()
            self._alarm.watch()

    # ---- the event loop's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self.closed = False

    def data_received(self, data: bytes) -> None:
        answer = self._answer
        if answer is None or answer.complete or self.closed:
            self._lose()  # nobody asked for it
            return
        self.heard = True
        self.since = self._loop.time()
        self._quiet += len(data)
        broken = self._parse(answer, data)
        pieces = self._pieces
        if pieces:
            self._quiet = 0
            answer.push(pieces[0] if len(pieces) == 1 else b"".join(pieces))
            pieces.clear()
            if not self._begun:
                self._begun = True
                self._alarm.watch()
        if broken is not None or (self._quiet > QUIET and not answer.complete):
            answer.fail(BadResponse(broken or "too many bytes without a body"))
        answer.tell()

    def eof_received(self) -> None:
        self._ended(None)

    def connection_lost(self, error: Exception | None) -> None:
        if error is not None:
            self._salvage()
        self._ended(error)
        self._alarm.cancel()
        del self._parser, self._alarm  # both refer to us: without this only the cycle collector would free us

    def pause_writing(self) -> None:
        self._choked = True

    def resume_writing(self) -> None:
        self._choked = False
        if self._unsent:
            self.since = self._loop.time()
            self._loop.call_soon(self._pump)  # a write that fails in here would end an asyncio transport twice

    # ---- the parser's side

    def on_message_begin(self) -> None:
        answer = self._answer
        if answer is None or answer.complete:
            raise Refused

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        answer = cast("Answer", self._answer)
        headers, self._headers = self._headers, []  # trailers go nowhere
        if self._quiet > QUIET and sum(len(name) + len(value) for name, value in headers) > QUIET:
            raise Refused("the head is too large")
        if 100 <= status < 200 and status != 101:
            return
        if not 200 <= status < 600:
            raise Refused("a status that nobody asked for")
        answer.status = status
        answer.headers = headers
        if self._bodiless:
            answer.complete = True
            raise Refused  # the parser would wait for the body
        self._keep = self._parser.should_keep_alive()

    def on_message_complete(self) -> None:
        answer = cast("Answer", self._answer)
        if answer.status:
            answer.complete = True

    # ---- inside

    def _parse(self, answer: Answer, data: bytes) -> str | None:
        """Feed the parser. A reason: this is no answer."""
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._keep = False
            if not answer.complete:
                return f"not HTTP: {error.__context__ or error}"
        return None

    def _ended(self, error: Exception | None) -> None:
        """The connection is over, or the peer has said its last."""
        answer = self._answer
        if answer is not None and answer.open:
            if error is None and answer.status and _ends_with_the_connection(answer.headers):
                answer.complete = True
                answer.tell()
            else:
                answer.fail(ConnectionBroken("the connection ended before the answer" + _why(error)))
        self._lose()

    def _lose(self) -> None:
        self.abort()
        self._forget(self)

    def _write(self, head: bytes, body: bytes) -> None:
        if len(body) <= JOIN:
            self._transport.write(head + body)
            return
        self._transport.write(head)
        self._unsent = memoryview(body)
        self._pump()

    def _pump(self) -> None:
        while self._unsent and not self._choked and not self._transport.is_closing():
            self._transport.write(self._unsent[:SLICE])
            self._unsent = self._unsent[SLICE:]

    def _salvage(self) -> None:
        """A peer that refuses a large body and closes resets the connection, and our write may learn of it first. What the
        peer said before is still in the kernel.
        """
        answer, plain = self._answer, self._transport.get_extra_info("ssl_object") is None
        if answer is None or answer.halted or not plain:
            return
        try:
            fileno = self._transport.get_extra_info("socket").fileno()
            while answer.open and (data := os.read(fileno, SLICE)):
                self.data_received(data)
        except OSError:
            return

    def _written(self) -> bool:
        return not self._unsent and not self._transport.get_write_buffer_size()

    # ---- time

    def _due(self) -> float | None:
        answer = self._answer
        if answer is None or not answer.open:
            return None
        span = self._deadlines.between_tokens if self._begun else self._deadlines.first_token
        total = self._deadlines.total_at
        return total if span is None or answer.halted else min(total, self.since + span)

    def _passed(self) -> None:
        answer = cast("Answer", self._answer)
        phase: Phase = "between_tokens" if self._begun else "first_token"
        if self._due() == self._deadlines.total_at:
            phase = "total"
        answer.fail(UpstreamTimeout(phase, sent=True))


def _ends_with_the_connection(headers: list[tuple[bytes, bytes]]) -> bool:
    return not any(
        name == b"content-length" or (name == b"transfer-encoding" and value.lower().endswith(b"chunked"))
        for name, value in headers
    )


def _why(error: Exception | None) -> str:
    number = getattr(error, "errno", None)
    return f": {os.strerror(number)}" if isinstance(number, int) else ""
