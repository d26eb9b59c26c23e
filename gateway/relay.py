"""The tee between a replica's stream and the client's: whole events go on as they came, and are counted on the way.

Events are forwarded per read, not one by one, and only whole: half an event helps no client, and a broken stream can
then end with a clean error event. The usage chunk is marked, so that each reader decides whether to show it.
"""

from __future__ import annotations

import re
from typing import Any, Protocol

import msgspec

from backends.sse import MAX_COUNT, EventSplitter, Kind, Tally
from caches.types import Flow
from gateway.exchange import Work
from gateway.reply import Head


class Sink(Protocol):
    """Where the bytes of an answer go: one client, or all who wait for the same answer."""

    flow: Flow | None

    def begin(self, head: Head) -> None: ...
    def write(self, data: bytes, usage_only: bool = False) -> None: ...
    def last(self) -> None:
        """The last piece was written; only the source's own end is still to come."""


class Tee:
    """Called with each piece of a replica's body."""

    __slots__ = ("_feed", "_read", "_sink", "_splitter", "_work", "tally")

    def __init__(self, sink: Sink, work: Work) -> None:
        self._sink = sink
        self._work = work
        self._splitter = EventSplitter()
        self._feed = self._splitter.feed
        self.tally = Tally()
        self._read = self.tally.read

    def __call__(self, data: bytes) -> None:
        events = self._feed(data)
        if len(events) == 1:
            event = events[0]
            kind = self._read(event)
            self._sink.write(event, kind is Kind.USAGE)
            if kind is Kind.DONE:
                self._done()
        elif events:
            self._several(events)

    def cut_short(self) -> None:
        """The source broke off: what follows is an event of ours, which must not be read as the end of another one."""
        if self._splitter.inside_event:
            self._sink.write(b"\n\n")

    def finish(self) -> None:
        """The body has ended: what is left is no whole event, and goes on as it is."""
        rest = self._splitter.rest
        if rest:
            self._read(rest)
            if not self.unfinished:  # else an error event follows, which must stand alone
                self._sink.write(rest)

    @property
    def unfinished(self) -> bool:
        """Something was said, but neither `[DONE]` nor a reason to finish."""
        tally = self.tally
        return bool(tally.deltas) and not tally.done and not tally.finish_reasons

    def _several(self, events: list[bytes]) -> None:
        plain: list[bytes] = []
        for event in events:
            if self._read(event) is Kind.USAGE:
                if plain:
                    self._sink.write(b"".join(plain))
                    plain = []
                self._sink.write(event, usage_only=True)
            else:
                plain.append(event)
        if plain:
            self._sink.write(b"".join(plain))
        if self.tally.done:
            self._done()

    def _done(self) -> None:
        """Everything has been said: a client that leaves from here on has had its answer."""
        self._work.finished = True
        self._sink.last()


class _Cached(msgspec.Struct):
    cached_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int = 0
    completion_tokens: int | None = 0
    prompt_tokens_details: _Cached | None = None


class _Answer(msgspec.Struct):
    usage: _Usage | None = None


_COMMENTS = re.compile(rb"(?:[ \r\n]|:[^\r\n]*(?:\r\n|\n|\r))*+")  # heartbeats, which may stand before anything is said
_ERROR_EVENT = re.compile(rb'(?:event:[^\n]*\n)?data:[ ]*\{[ ]*"error"[ ]*:[ ]*[{"]')
_answer = msgspec.json.Decoder(_Answer)


def json_object(body: bytes) -> dict[str, Any] | None:
    """What a backend sent, if it is a JSON object."""
    try:
        decoded = msgspec.json.decode(body)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return None
    return decoded if isinstance(decoded, dict) else None


class NoAnswer(ValueError):  # noqa: N818 - named for what came
    """A success without an answer: a proxy's page, a body cut short, nothing at all."""


def read_usage(body: bytes, work: Work) -> int | None:
    """The tokens that an unstreamed answer counts, also put on `work`; None when it does not say. The rest is not built.

    Raises NoAnswer for what is no JSON object.
    """
    try:
        usage = _answer.decode(body).usage
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        if json_object(body) is None:
            raise NoAnswer from None
        return None
    if usage is None or max(usage.prompt_tokens, usage.completion_tokens or 0) > MAX_COUNT:
        return None
    details = usage.prompt_tokens_details
    return count(work, usage.prompt_tokens, usage.completion_tokens, details.cached_tokens if details else None)


def count(work: Work, prompt: int, completion: int | None, cached: int | None) -> int:
    """Put counted tokens on `work`; their sum."""
    work.prompt_tokens = max(0, prompt)
    work.completion_tokens = max(0, completion or 0)
    work.cached_tokens = None if cached is None else max(0, cached)
    return work.prompt_tokens + work.completion_tokens


def begins_with_error(piece: bytes) -> bool:
    """Is the first event of a stream that says something an error, though its status was 200?"""
    return b'"error"' in piece and _ERROR_EVENT.match(piece, _said_from(piece)) is not None


def first_error(stream: bytes) -> bytes:
    """The JSON object of the error event that a stream begins with."""
    event = stream[_said_from(stream) :].split(b"\n\n", 1)[0]
    data = b"\n".join(line[5:].strip() for line in event.splitlines() if line.startswith(b"data:"))
    return data if json_object(data) is not None else msgspec.json.encode({"error": data[:1000].decode("utf-8", "replace")})


def _said_from(piece: bytes) -> int:
    """Where a stream begins to say something."""
    if piece[:1] not in b":\r\n ":
        return 0
    found = _COMMENTS.match(piece)
    return 0 if found is None else found.end()
