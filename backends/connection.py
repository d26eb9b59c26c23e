"""One socket to a replica: requests out and answers in, one at a time.

Rules:
- A socket is reusable only after an answer with an end of its own (a length or chunks), read to that end, with the whole
  request written, with nothing after it, and when the peer did not say `connection: close`. In doubt it is closed.
- A body without a length ends where the peer ends the connection in order. Every other end before the end is a failure.
- One read is one piece of body and at most one wake-up.
- One timer a socket. It outlives its request, so that a request on a warm socket mostly arms none; a piece of a stream
  costs one look at the clock.
- A large body is written in slices as the socket takes them, so that nothing is copied, and an answer that comes early is
  read while we still write.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import cast

from backends.alarm import Alarm, Deadlines
from backends.answer import Answer
from backends.errors import BadResponse, ConnectionBroken, Phase, UpstreamTimeout
from backends.response import Response

SLICE = 262_144
JOIN = 65_536  # below this, one copy is cheaper than a second write

_NOTHING = memoryview(b"")


class Connection(asyncio.Protocol):
    __slots__ = (
        "_alarm",
        "_answer",
        "_begun",
        "_choked",
        "_deadlines",
        "_forget",
        "_frames",
        "_freed",
        "_loop",
        "_now",
        "_response",
        "_sent_at",
        "_transport",
        "_unsent",
        "closed",
        "heard",
        "since",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop, forget: Callable[[Connection], object]) -> None:
        self.closed = True
        self.heard = False  # has anything come since the request was sent?
        self.since = 0.0  # where the running deadline begins: the last piece of body, or of the request
        self._loop = loop
        self._now = loop.time
        self._forget = forget  # told when the socket is of no more use
        self._answer: Answer | None = None
        self._frames: Callable[[bytes], bool] | None = None  # while a chunk begins with the next byte: see `Answer.relay`
        self._begun = self._choked = self._freed = False
        self._unsent = _NOTHING
        self._response = Response()
        self._alarm = Alarm(loop, self._due, self._passed)

    # ---- the client's side

    def send(
        self, head: bytes, body: bytes, deadlines: Deadlines, sink: Callable[[bytes], None] | None = None
    ) -> Coroutine[object, object, Answer]:
        """Write a request, at once; to be awaited is the answer, once its head is there."""
        answer = self._answer = Answer(self, self._loop, sink)
        self._response.begin(bodiless=head.startswith(b"HEAD "))
        self._deadlines = deadlines
        self._begun = self.heard = False
        self._frames = None
        self.since = self._sent_at = self._loop.time()
        self._write(head, body)
        self._alarm.watch()
        return answer.begun()

    def idle(self) -> float:
        """Seconds since the last byte of its last request."""
        return self._loop.time() - self.since

    def waited(self) -> float:
        """Seconds since its last request was sent."""
        return self._loop.time() - self._sent_at

    def release(self) -> bool:
        """The request is over. True: the socket may carry another one."""
        answer, self._answer = self._answer, None
        self._frames = None
        if answer is None or not answer.complete or not self._response.reusable or self.closed or not self._written():
            return False
        if answer.halted:
            self._transport.resume_reading()  # an idle socket must notice its peer's end
        return True

    def abort(self) -> None:
        """Close now; what was not written is not written."""
        if not self.closed:
            self.closed = True
            self._frames = None
            self._unsent = _NOTHING
            self._transport.abort()

    def free(self) -> None:
        """It carries nothing any more. Of one whose socket never came about no event loop says so."""
        self.closed = True
        if not self._freed:
            self._freed = True
            self._alarm.cancel()
            self._response.close()
            del self._alarm  # it refers to us, as does the transport: without this only the cycle collector would free all
            with suppress(AttributeError):
                del self._transport

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
        answer, frames = self._answer, self._frames
        if frames is not None:
            try:
                if frames(data):
                    self.since = self._now()
                    return
            except Exception as error:  # noqa: BLE001 - see `Answer.push`
                cast("Answer", answer).fail(error)
                return
            self._frames = None
        if answer is None or answer.complete or self.closed:
            self._lose()  # nobody asked for it
            return
        self.heard = True
        response = self._response
        broken = response.feed(data)
        if not answer.status:
            answer.status = response.status
            answer.headers = response.headers
        if response.pieces:
            self._hand_on(answer, response.pieces)
        if broken is not None:
            answer.fail(BadResponse(broken))
        elif response.complete and answer.open:
            answer.complete = True
        elif answer.relayed:
            if answer.frames is not None and response.between_chunks(data):
                self._frames = answer.frames
            return
        answer.tell()

    def eof_received(self) -> None:
        self._ended(None)

    def connection_lost(self, error: Exception | None) -> None:
        if error is not None:
            self._salvage()
        self._ended(error)
        self.free()

    def pause_writing(self) -> None:
        self._choked = True

    def resume_writing(self) -> None:
        self._choked = False
        if self._unsent:
            self.since = self._loop.time()
            self._loop.call_soon(self._pump)  # a write that fails in here would end an asyncio transport twice

    # ---- inside

    def _hand_on(self, answer: Answer, pieces: list[bytes]) -> None:
        self.since = self._now()
        if not self._begun:
            self._begun = True
            if self._deadlines.between_tokens is not None:
                self._alarm.watch()
        answer.push(pieces[0] if len(pieces) == 1 else b"".join(pieces))
        pieces.clear()

    def _ended(self, error: Exception | None) -> None:
        """The connection is over, or the peer has said its last."""
        answer = self._answer
        if answer is not None and answer.open:
            if error is None and self._response.ends_with_the_connection():
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
            self._unsent = self._unsent[SLICE:] or _NOTHING  # an empty slice would keep the body

    def _written(self) -> bool:
        return not self._unsent and not self._transport.get_write_buffer_size()

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


def _why(error: Exception | None) -> str:
    number = getattr(error, "errno", None)
    return f": {os.strerror(number)}" if isinstance(number, int) else ""
