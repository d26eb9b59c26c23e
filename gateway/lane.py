"""The short way of tokens: a read that is one chunk or several, each with one event like those before it but for its text.

Nearly all of a stream is such events. Of one the text alone is looked at, since what the rest says is known, and it goes on
as it came, with the framing that it came with. Everything else goes the long way, through `gateway.relay.Tee`.
"""

from __future__ import annotations

import re
from typing import Protocol

import msgspec

from backends.chunks import HEADS, LONGEST, TAIL
from backends.sse import EventSplitter, Tally
from caches.types import Line

_CONTENT = re.compile(rb'"content": ?"((?:[^"\\]|\\.)++)"')
_NAME = b'"content":'
_PROBE = "\u25ca probe"  # what no event says
_PROBED = _PROBE.encode()
_LEARNED = 8  # tokens that a mould is to serve before another one is looked for
_RUN = 256  # events that are not settled
_SHORT, _MANY = 12, 16_384  # bytes of a text that is remembered, and how many are
_text = msgspec.json.Decoder(str).decode


class Straight(Protocol):
    """Where pieces go: see `caches.relay`."""

    line: Line | None
    run: list[bytes]

    def settle(self) -> None: ...


class Texts:
    """What is known to be a text of JSON, and not empty: answers consist of the same few thousand pieces."""

    __slots__ = ("known",)

    def __init__(self) -> None:
        self.known: set[bytes] = set()

    def sound(self, text: bytes) -> bool:
        """Whether one that is not known is such."""
        try:
            if not _text(b'"%b"' % text):
                return False
        except ValueError:
            return False
        if len(text) <= _SHORT and len(self.known) < _MANY:
            self.known.add(text)
        return True


class Lane:
    """Of one stream. What its events have before and behind their text is their mould."""

    __slots__ = ("_after", "_before", "_first", "_known", "_last", "_learns_at", "_run", "_sink", "_sound", "_splitter", "_tally")

    def __init__(self, sink: Straight, splitter: EventSplitter, tally: Tally, texts: Texts) -> None:
        self._sink = sink
        self._run = sink.run
        self._splitter = splitter
        self._tally = tally
        self._known, self._sound = texts.known, texts.sound
        self._learns_at = 0
        self._mould(b"", b"\0")  # none yet: no read ends so

    def take(self, read: bytes) -> bool:
        """Whether it was such a read. Then it has been passed on."""
        size, line = len(read), self._sink.line
        last = size - self._last
        if line is None or read[last:] != self._after or not line.writable or not self._splitter.between:
            return False
        if size >= LONGEST:
            return self._several(read, line)
        head = HEADS[size]
        begin = len(head)
        first = begin + self._first
        if read[:first] != head + self._before:
            return self._several(read, line)
        text = read[first:last]
        if text not in self._known and not self._sound(text):
            return False
        self._tally.deltas += 1
        run = self._run
        run.append(read[begin:-2])
        line.write(read)
        if len(run) >= _RUN:
            self._sink.settle()
        return True

    def _several(self, read: bytes, line: Line) -> bool:
        after = self._after
        run: list[bytes] = []
        for part in read.split(after)[:-1]:
            size = len(part) + self._last
            head = HEADS[size] if size < LONGEST else b"-"
            first = len(head) + self._first
            text = part[first:]
            if part[:first] != head + self._before or (text not in self._known and not self._sound(text)):
                return False
            run.append(part[len(head) :] + after[:-2])
        self._tally.deltas += len(run)
        self._run += run
        line.write(read)
        if len(self._run) >= _RUN:
            self._sink.settle()
        return True

    def learn(self, event: bytes) -> None:
        """An event that went the long way was a plain one: the next ones may be like it."""
        if self._tally.deltas < self._learns_at:
            return
        self._learns_at = self._tally.deltas + _LEARNED
        at = event.find(_NAME)
        found = _CONTENT.match(event, at) if at >= 0 else None
        if found is None or event[-2:] != b"\n\n":
            return
        before, after = event[: found.start(1)], event[found.end(1) :]
        if (before, after + TAIL) != (self._before, self._after) and Tally.says(before + _PROBED + after, _PROBE):
            self._mould(before, after + TAIL)

    def _mould(self, before: bytes, after: bytes) -> None:
        self._before, self._after = before, after
        self._first, self._last = len(before), len(after)
