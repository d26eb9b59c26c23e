r"""Comments in a stream that has nothing to say yet, for proxies that end connections on which nothing moves.

Rules of this file
1. A beat is a comment line and an empty line, which readers of events skip. It is written only where an event has ended, and only
   while the client takes what is written.
2. It stands between one reply and its response: nobody who shares the answer, and no cache, ever sees it.
3. Before a replica has said that it streams there is none, unless `early`: from the first beat on the status is 200, and what
   goes wrong afterwards can only be told as an event.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable

from gateway.errors import ApiError
from gateway.exchange import Exchange
from gateway.reply import Out, Reply

BEAT = b": keep-alive\n\n"
_EVENT_END = re.compile(rb"(?>\r\n|\n|\r)(?>\r\n|\n|\r)\Z")
_LINE_ENDS = (b"\n", b"\r\n", b"\r")
_LOOKS = 4  # in each interval, whether there may be a first beat


class NoHeartbeat:
    """The heartbeat that is off."""

    def watch(self, x: Exchange, reply: Reply, *, stream: bool) -> None:
        """From here on the request is being answered."""


class Heartbeat(NoHeartbeat):
    """A beat in every stream that was silent for `every` seconds."""

    def __init__(self, every: float, *, early: bool) -> None:
        self._every = every
        self._early = early

    def watch(self, x: Exchange, reply: Reply, *, stream: bool) -> None:
        if stream:
            may = _always if self._early else lambda: x.work.streams
            reply.through(lambda response: BeatingResponse(response, reply, self._every, may))


def _always() -> bool:
    return True


class BeatingResponse:
    """A response as its reply uses it."""

    __slots__ = ("_beats", "_every", "_last", "_loop", "_may", "_reply", "_response", "_timer", "_whole")

    def __init__(self, response: Out, reply: Reply, every: float, may: Callable[[], bool]) -> None:
        self._response = response
        self._reply = reply
        self._every = every
        self._may = may
        self._beats = False  # the stream has begun with a beat
        self._whole = True  # what was written last was the end of an event
        self._loop = asyncio.get_running_loop()
        self._last = self._loop.time()
        self._timer = self._loop.call_later(every, self._due)

    @property
    def started(self) -> bool:
        return self._response.started

    @property
    def ended(self) -> bool:
        return self._response.ended

    @property
    def writable(self) -> bool:
        return self._response.writable

    @property
    def straight(self) -> None:
        """What is written is looked at here."""

    @property
    def gone(self) -> bool:
        return self._response.gone

    @property
    def on_writable(self) -> Callable[[], None] | None:
        return self._response.on_writable

    @on_writable.setter
    def on_writable(self, callback: Callable[[], None] | None) -> None:
        self._response.on_writable = callback

    def send(self, status: int, headers: bytes, body: bytes) -> None:
        """Raises ApiError 502 where the stream has begun: an answer in one piece comes too late."""
        self._timer.cancel()
        if self._beats:
            raise ApiError(502, "bad_upstream_answer", "The model's answer is not the stream that was promised.")
        self._response.send(status, headers, body)

    def send_bare(self, status: int, headers: bytes) -> None:
        self._timer.cancel()
        self._response.send_bare(status, headers)

    def start(self, status: int, headers: bytes) -> None:
        if not self._beats:
            self._response.start(status, headers)

    def write(self, piece: bytes) -> None:
        self._last = self._loop.time()
        ended = _EVENT_END.search(piece, max(0, len(piece) - 4)) is not None
        self._whole = ended or (self._whole and piece in _LINE_ENDS)
        self._response.write(piece)

    def end(self) -> None:
        self._timer.cancel()
        self._response.end()

    def _due(self) -> None:
        response = self._response
        if response.ended or response.gone:
            return
        pause = self._last + self._every - self._loop.time()
        if pause <= 0:
            pause = self._every
            if not response.started and not self._may():
                pause /= _LOOKS
            elif self._whole and response.writable:
                self._beat()
        self._timer = self._loop.call_later(pause, self._due)

    def _beat(self) -> None:
        if not self._response.started:
            self._reply.promise()
            self._beats = True
        self._last = self._loop.time()
        self._response.write(BEAT)
