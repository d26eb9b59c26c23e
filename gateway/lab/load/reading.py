"""The clock at every piece of an answer.

A stream is read closely until its first token, and at its end; in between, where nearly all pieces are, one look at the
clock and one count of event ends is all that a piece costs (0.6 us).

Rules:
- The first token is the first event that holds text, reasoning or a tool call: not the head, and not the event that only
  names the role.
- The last token is the last such event, or the one that names the finish: the end-of-sequence token has no text, and counts.
- A gap is the time between two pieces that ended an event; events that arrived together are one arrival, because a reader
  saw them at once. Gaps after the last token (usage, `[DONE]`) are taken back.
- Tokens are counted by the server's usage. Only without one they are the events that ended.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from backends.sse import EventSplitter, Kind, Tally

TAIL = 8  # pieces at the end that may hold the last token, the usage and [DONE]
MAX_BODY = 64 << 20
MAX_OPENING = 1 << 20  # without a token in so many bytes, no more are kept
_D, _COLON = b"d"[0], b":"[0]

Gaps = dict[int, int]  # how many were so many microseconds long


class Reading(Protocol):
    """What came of one answer. After `end` it does not change."""

    first: float | None
    last: float | None
    tokens: int | None
    tally: Tally

    def feed(self, piece: bytes) -> None: ...
    def end(self) -> None: ...
    @property
    def begun(self) -> bool: ...
    @property
    def whole(self) -> bool: ...
    @property
    def text(self) -> bytes: ...


class StreamReading:
    __slots__ = (
        "_clock",
        "_events",
        "_gaps",
        "_pieces",
        "_seen",
        "_separator",
        "_splitter",
        "_tail",
        "first",
        "last",
        "tally",
        "text",
        "tokens",
    )

    def __init__(self, clock: Callable[[], float], gaps: Gaps) -> None:
        self.first: float | None = None
        self.last: float | None = None
        self.tokens: int | None = None
        self.tally = Tally()
        self.text = b""  # what came before the first token: the whole of an error
        self._clock = clock
        self._gaps = gaps
        self._splitter = EventSplitter()
        self._separator = b"\n\n"
        self._seen = 0.0  # when the last event ended
        self._events = 0  # that hold tokens, as far as one can tell without reading them
        self._pieces = 0  # after the one with the first token
        self._tail: deque[tuple[float, bytes, int]] = deque(maxlen=TAIL)  # when, what, and its gap or -1

    def feed(self, piece: bytes) -> None:
        """Called with each piece as it arrives, from inside the read callback."""
        now = self._clock()
        if self.first is None:
            self._open(now, piece)
            return
        ended = piece.count(self._separator)
        if piece[0] != _D or not ended:
            ended = self._odd(piece, ended)
        gap = -1
        if ended:
            gap = int((now - self._seen) * 1e6)
            self._gaps[gap] = self._gaps.get(gap, 0) + 1
            self._seen = now
            self._events += ended
        self._pieces += 1
        self._tail.append((now, piece, gap))

    def end(self) -> None:
        """The body is over, in whatever way. Reads what came last."""
        if self.first is None:
            return
        self.last = self.first
        # With every piece still there the splitter goes on where it was; else its first event is the rest of another.
        splitter = self._splitter if self._pieces <= TAIL else EventSplitter()
        if self._pieces > TAIL:
            self.last = self._tail[0][0]
        last_read = 0
        for number, (when, piece, _) in enumerate(self._tail, 1):
            finished = len(self.tally.finish_reasons)
            kinds = [self.tally.read(event) for event in splitter.feed(piece)]
            if Kind.CONTENT in kinds or len(self.tally.finish_reasons) > finished:
                self.last, last_read = when, number
            self._events -= sum(kind is not Kind.CONTENT for kind in kinds)
        for _, _, gap in list(self._tail)[last_read:]:
            self._take_back(gap)
        self.tokens = self.tally.completion_tokens if self.tally.completion_tokens is not None else max(1, self._events)
        self._tail.clear()

    @property
    def begun(self) -> bool:
        return self.first is not None or bool(self.text)

    @property
    def whole(self) -> bool:
        return self.tally.done

    def _open(self, now: float, piece: bytes) -> None:
        """A piece before the first token is there, or the one that holds it."""
        if b"\r\n\r\n" in piece:
            self._separator = b"\r\n\r\n"
        if len(self.text) < MAX_OPENING:
            self.text += piece
        for event in self._splitter.feed(piece):
            kind = self.tally.read(event)
            if kind is Kind.CONTENT:
                self._events += 1
                self.first = now
        if self.first is not None:
            self._seen = now
            self.text = b""

    def _odd(self, piece: bytes, ended: int) -> int:
        """Ends of events in a piece that does not begin like one or has no end: a heartbeat, or cut where it hurts."""
        if piece[0] == _COLON and b"data:" not in piece:
            return 0
        if piece[0] in b"\r\n" and self._tail:
            reach = len(self._separator) - 1
            ended += (self._tail[-1][1][-reach:] + piece[:reach]).count(self._separator)
        return ended

    def _take_back(self, gap: int) -> None:
        if gap >= 0 and self._gaps.get(gap):
            self._gaps[gap] -= 1


class WholeReading:
    """An answer that is not streamed: it has an end, and no tokens to time."""

    __slots__ = ("_pieces", "_size", "answer", "first", "last", "tally", "tokens")

    def __init__(self) -> None:
        self.first: float | None = None
        self.last: float | None = None
        self.tokens: int | None = None
        self.tally = Tally()
        self.answer: Any = None
        self._pieces: list[bytes] = []
        self._size = 0

    def feed(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size <= MAX_BODY:
            self._pieces.append(piece)

    def end(self) -> None:
        try:
            self.answer = msgspec.json.decode(self.text)
        except (ValueError, RecursionError):
            return
        self.tally.read(b"data: " + msgspec.json.encode(self.answer) + b"\n\n")  # its usage is where a stream's is
        self.tokens = self.tally.completion_tokens

    @property
    def begun(self) -> bool:
        return bool(self._size)

    @property
    def whole(self) -> bool:
        return isinstance(self.answer, dict) and "choices" in self.answer

    @property
    def text(self) -> bytes:
        return b"".join(self._pieces)
