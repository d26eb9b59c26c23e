"""The short way of tokens: a read that is one chunk or several, of events that are like those before them but for their text.

Nearly all of a stream is such events. Of one the text alone is looked at, since what the rest says is known, and it goes on
as it came, with the framing that it came with. Everything else goes the long way, through `gateway.relay.Tee`.
"""

from __future__ import annotations

import re
from typing import Protocol

import msgspec

from backends.chunks import HEADS, LONGEST, LONGEST_HEAD, TAIL, length_of
from backends.sse import EventSplitter, Tally
from caches.types import Line

_CONTENT = re.compile(rb'"content": ?"((?:[^"\\]|\\.)++)"')
_NAME = b'"content":'
_PROBE = "\u25ca probe"  # what no event says
_PROBED = _PROBE.encode()
_LEARNED = 8  # tokens that a mould is to serve before another one is looked for
_RUN = 256  # chunks that are not settled
_LF = 10  # as a number: `b"\n" in text` makes and drops an exception first
_WIDE = 16_384  # bytes of a read that is settled at once
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

    __slots__ = ("_after", "_before", "_ending", "_first", "_joint", "_known", "_last", "_learns_at", "_run", "_sink", "_sound",
                 "_splitter", "_tally")  # fmt: skip

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
        if text not in self._known:
            if _LF in text:
                return self._several(read, line)
            if not self._sound(text):
                return False
        self._tally.deltas += 1
        run = self._run
        run.append(read[begin:-2])
        line.write(read)
        if len(run) >= _RUN:
            self._sink.settle()
        return True

    def _several(self, read: bytes, line: Line) -> bool:
        run: list[bytes] = []
        deltas, at, size = 0, 0, len(read)
        while at < size:
            begin = read.find(TAIL, at, at + LONGEST_HEAD) + len(TAIL)
            end = begin + length_of(read[at:begin])
            chunk = read[begin:end]
            texts = self._texts(chunk)
            if texts is None or read[end : end + len(TAIL)] != TAIL:
                return False
            run.append(chunk)
            deltas += len(texts)
            at = end + len(TAIL)
        self._tally.deltas += deltas
        self._run += run
        line.write(read)
        if len(self._run) >= _RUN or size > _WIDE:
            self._sink.settle()
        return True

    def _texts(self, chunk: bytes) -> list[bytes] | None:
        """What its events say, if all are of the mould. No text holds a line feed, so what is between two of them tells."""
        first, last = self._first, -len(self._ending) or None
        texts = [event[first:last] for event in chunk.split(b"\n")[:-1:2]]
        if chunk != b"%b%b%b\n\n" % (self._before, self._joint.join(texts), self._ending):
            return None
        known = self._known
        return texts if known.issuperset(texts) or all(text in known or self._sound(text) for text in texts) else None

    def learn(self, events: bytes) -> None:
        """What went the long way was one plain event or several: the next ones may be like the first of them."""
        if self._tally.deltas < self._learns_at:
            return
        self._learns_at = self._tally.deltas + _LEARNED
        event = events[: events.find(b"\n\n") + 2]
        at = event.find(_NAME)
        found = _CONTENT.match(event, at) if at >= 0 else None
        if found is None or event[-2:] != b"\n\n":
            return
        before, after = event[: found.start(1)], event[found.end(1) :]
        if (before, after + TAIL) != (self._before, self._after) and Tally.says(before + _PROBED + after, _PROBE):
            self._mould(before, after + TAIL)

    def _mould(self, before: bytes, after: bytes) -> None:
        self._before, self._after = before, after
        self._ending = after.removesuffix(b"\n\n" + TAIL)
        self._joint = self._ending + b"\n\n" + before  # between the texts of two events in one chunk
        self._first, self._last = len(before), len(after)
