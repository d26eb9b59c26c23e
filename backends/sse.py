r"""Server-sent events without I/O: where an event ends, and what a stream told about itself.

Rules:
- Bytes are never changed: everything that `feed` returned, and then `rest`, is the input. Whoever passes the pieces on
  passes the stream on, also where it is not one that we understand.
- A line ends with \n, \r\n or \r, mixed as they like; U+2028 and U+0085 are text. An empty line ends an event, even an
  event of nothing, so that no heartbeat is kept back.
- No event waits for the next one, but for one case: after \r\n, a last \r waits for its \n.
- What does not look as it should is OTHER. Nothing in a stream makes `read` raise.
- An event that is named `error` is an ERROR, whatever its data.

Decoding an event whole (msgspec, 0.6 us) is cheaper than four substring searches in it, and cannot be misled by the text.
Cheaper still (0.4 us) is to build the few fields alone that are looked at.
"""

from __future__ import annotations

import enum
import re
from typing import Any

import msgspec

MAX_EVENT = 1_048_576
MAX_CHOICES = 1_024
_MOST_TOLD = 1_024  # bytes of an error that is no JSON object
_ENDS = frozenset({"response.completed", "response.incomplete", "response.failed", "message_stop", "transcript.text.done"})
MAX_COUNT = 2**24  # tokens of one request; a backend that tells more is not believed

_LINE_END = re.compile(rb"\r\n|\n|\r")
EMPTY_LINE = re.compile(rb"(?>\r\n|\n|\r)(?>\r\n|\n|\r)")
_BREAK = b"\n\n"
LAST = b"data: [DONE]\n\n"
_LF, _CR = 10, 13  # as numbers: `b"\r" in data` makes and drops an exception first (0.34 us, against 0.01)
_decode = msgspec.json.Decoder().decode


class _Delta(msgspec.Struct, gc=False):
    content: str | None = None


class _Choice(msgspec.Struct, gc=False):
    delta: _Delta | None = None
    finish_reason: str | None = None


class _Chunk(msgspec.Struct, gc=False):
    choices: list[_Choice]
    usage: Any = None
    error: Any = None


class _Piece(msgspec.Struct, gc=False):
    delta: Any = None
    finish_reason: Any = None
    index: Any = None
    text: Any = None
    logprobs: Any = None


class _Told(msgspec.Struct, gc=False):
    """As much of a chunk as is looked at; without `choices` it is of another API."""

    choices: list[_Piece] | None = None
    usage: Any = None
    error: Any = None
    object: Any = None


_look = msgspec.json.Decoder(_Told).decode
_chunks = msgspec.json.Decoder(_Chunk)
_glance, _glances = _chunks.decode, _chunks.decode_lines


class EventSplitter:
    """Cuts a stream after each empty line. An event over `max_event` bytes is passed on in pieces, never kept."""

    __slots__ = ("_carriage", "_max_event", "_pending", "between", "inside_event")

    def __init__(self, max_event: int = MAX_EVENT) -> None:
        self._max_event = max_event
        self._pending = bytearray()
        self._carriage = False  # has a \r been seen? until then a search for \n\n is enough
        self.between = True  # all that came were whole events
        self.inside_event = False  # what was returned last is the beginning of an event that was too large to keep

    @property
    def rest(self) -> bytes:
        """The event that is not complete yet."""
        return bytes(self._pending)

    def feed(self, data: bytes) -> list[bytes]:
        """The events that are complete now, each with its empty line."""
        pending = self._pending
        if self.between:
            if is_one_line(data):
                return [data]
            if _CR not in data and data[-2:] == _BREAK and data[0] != _LF and b"\n\n\n" not in data:
                return [event + _BREAK for event in data[:-2].split(_BREAK)]
        self._carriage = self._carriage or _CR in data
        seen = max(0, len(pending) - 3)  # \r\n\r may be the beginning of an empty line
        pending += data
        events: list[bytes] = []
        start = 0
        while (end := self._end(start, max(start, seen))) > 0:
            events.append(bytes(pending[start:end]))
            start = end
            self.inside_event = False
        del pending[:start]
        if len(pending) > self._max_event:
            events.append(bytes(pending[:-3]))  # what stays may be the beginning of the empty line that ends it
            del pending[:-3]
            self.inside_event = True
        self.between = not pending and not self.inside_event
        return events

    def _end(self, start: int, seen: int) -> int:
        """Where the event that begins at `start` ends; 0: not yet. There is no empty line before `seen`."""
        pending = self._pending
        first = pending[start] if start < len(pending) and not self.inside_event else 0
        if first == _LF:
            return start + 1
        if first == _CR:
            return start + 2 if pending[start + 1 : start + 2] == b"\n" else start + 1
        if not self._carriage:
            at = pending.find(b"\n\n", seen)
            return at + 2 if at >= 0 else 0
        found = EMPTY_LINE.search(pending, seen)
        if found is None or (found.end() == len(pending) and found[0] == b"\r\n\r"):
            return 0
        return found.end()


class Kind(enum.Enum):
    CONTENT = "content"  # generated text, reasoning, a part of a tool call, log probabilities
    USAGE = "usage"  # the chunk that only tells the usage: `choices` is empty
    ERROR = "error"
    DONE = "done"  # `[DONE]`, or the event that ends a stream of named events
    OTHER = "other"


_CONTENT, _DONE, _OTHER = Kind.CONTENT, Kind.DONE, Kind.OTHER  # a member takes 0.17 us to find in its class (3.11)


class Tally:
    """What a stream told about itself, event by event."""

    __slots__ = ("_objects", "cached_tokens", "completion_tokens", "deltas", "done", "error", "finish_reasons", "prompt_tokens")

    def __init__(self) -> None:
        self.prompt_tokens: int | None = None
        self.completion_tokens: int | None = None
        self.cached_tokens: int | None = None
        self.deltas = 0  # events of kind CONTENT: what to charge when no usage came
        self.done = False  # the proper end was seen
        self.finish_reasons: dict[int, str] = {}  # by the index of the choice
        self.error: dict[str, Any] | None = None  # the first one
        self._objects = False  # there was something of an answer, though it may say nothing

    @property
    def told(self) -> bool:
        """Something of an answer came: an end alone is none."""
        return self._objects or self.deltas > 0

    def read(self, event: bytes) -> Kind:
        if event == LAST:  # it comes once a stream, but to be found no JSON twice takes 15 us
            self.done = True
            return _DONE
        if event[:5] == b"data:":
            try:
                chunk = _look(event[5:])
            except (ValueError, RecursionError):
                return self._read_whole(event)
            choices = chunk.choices
            if choices is not None and not chunk.error and chunk.object != "error":
                usage = chunk.usage
                if usage is not None and type(usage) is dict:
                    self._charge(usage)
                self._objects = True
                if len(choices) == 1 and choices[0].finish_reason is None:  # a token, or what comes before the first
                    return self._content() if _spoke(choices[0]) else _OTHER
                if choices:
                    return self._generated(choices)
                return Kind.USAGE if type(usage) is dict else Kind.OTHER
        return self._read_whole(event)

    def read_plain(self, events: bytes) -> bool:
        """Whether these whole events are plain deltas, all of them: then they are counted, and else not looked at.

        Together they take a third of what they take one by one.
        """
        if events[:6] != b"data: " or events[-2:] != _BREAK or _CR in events or events.endswith(LAST):
            return False
        payloads = events[6:].split(b"\n\ndata: ")
        try:
            chunks = _glances(b"\n".join(payloads))
        except (ValueError, RecursionError):
            return False
        if len(chunks) != len(payloads) or not all(map(_is_plain, chunks)):
            return False
        self.deltas += len(chunks)
        return True

    @staticmethod
    def says(event: bytes, text: str) -> bool:
        """Whether an event is a plain delta, of this text."""
        try:
            chunk = _glance(event.removeprefix(b"data:"))
        except (ValueError, RecursionError):
            return False
        return _is_plain(chunk) and chunk.choices[0].delta == _Delta(text)

    def _read_whole(self, event: bytes) -> Kind:
        data, named = _data(event), _is_named_error(event)
        try:
            chunk = _decode(data)
        except (ValueError, RecursionError):
            if named:
                return self._failed(_told(data))
            if data.strip() != b"[DONE]":
                return Kind.OTHER
            self.done = True
            return Kind.DONE
        if type(chunk) is not dict:
            return self._failed(_told(data)) if named else Kind.OTHER
        usage = chunk.get("usage")
        if type(usage) is dict:
            self._charge(usage)
        choices = chunk.get("choices")
        self._objects = True
        if named or chunk.get("error") or chunk.get("object") == "error":
            return self._failed(chunk.get("error") or chunk)
        if type(choices) is not list:
            return self._foreign(chunk)
        if not choices:
            return Kind.USAGE if type(usage) is dict else Kind.OTHER
        return self._generated([_piece(choice) for choice in choices if type(choice) is dict])

    def _generated(self, choices: list[_Piece]) -> Kind:
        spoke = False
        for choice in choices:
            spoke = spoke or _spoke(choice)
            reason = choice.finish_reason
            if type(reason) is str and len(self.finish_reasons) < MAX_CHOICES:
                index = choice.index
                self.finish_reasons[index if type(index) is int else 0] = reason
        return self._content() if spoke else Kind.OTHER

    def _foreign(self, chunk: dict[str, Any]) -> Kind:
        """The streams of /v1/responses and /v1/messages: the usage is one level down, the type names what it is."""
        kind = chunk.get("type")
        self.done = self.done or (type(kind) is str and kind in _ENDS)
        for name in ("response", "message"):
            inner = chunk.get(name)
            if type(inner) is dict:
                if type(inner.get("usage")) is dict:
                    self._charge(inner["usage"])
                if inner.get("error"):
                    return self._failed(inner["error"])
        if kind == "error":
            return self._failed(chunk)
        if self.done:
            return Kind.DONE
        if kind == "content_block_delta" or (type(kind) is str and kind.endswith(".delta")):
            return self._content()
        return Kind.OTHER

    def _content(self) -> Kind:
        self.deltas += 1
        return _CONTENT

    def _failed(self, error: Any) -> Kind:
        if self.error is None:
            self.error = error if type(error) is dict else {"message": str(error)}
        return Kind.ERROR

    def _charge(self, usage: dict[str, Any]) -> None:
        """The last number told counts; a field that is absent or no number leaves the one before."""
        prompt = _count(usage, "prompt_tokens", "input_tokens")
        completion = _count(usage, "completion_tokens", "output_tokens")
        details = usage.get("prompt_tokens_details") or usage.get("input_tokens_details")
        cached = _count(details, "cached_tokens") if type(details) is dict else None
        if cached is None and "prompt_tokens" not in usage:  # Anthropic's: what the prefix cache held is not in input_tokens
            cached = _count(usage, "cache_read_input_tokens")
            if prompt is not None:
                prompt += (cached or 0) + (_count(usage, "cache_creation_input_tokens") or 0)
        self.prompt_tokens = self.prompt_tokens if prompt is None else prompt
        self.completion_tokens = self.completion_tokens if completion is None else completion
        self.cached_tokens = self.cached_tokens if cached is None else cached


def _is_plain(chunk: _Chunk) -> bool:
    """A piece of one answer's text, and nothing else that counts."""
    if len(chunk.choices) != 1 or chunk.usage is not None or chunk.error is not None:
        return False
    choice = chunk.choices[0]
    return choice.finish_reason is None and choice.delta is not None and bool(choice.delta.content)


def is_one_line(data: bytes) -> bool:
    """One line of text and one empty line: what nearly every event is, and how most of them arrive."""
    end = data.find(_LF)
    if _CR not in data:
        return 0 < end == len(data) - 2 and data[-1] == _LF
    return 1 < end == len(data) - 3 and data.find(b"\r") == end - 1 and data.endswith(b"\r\n")


def _data(event: bytes) -> bytes:
    """The payload: what follows `data:`; several lines are joined. Empty for comments and heartbeats."""
    if event.startswith(b"data:") and is_one_line(event):
        return event[5:]
    lines = _LINE_END.split(event.removeprefix(b"\xef\xbb\xbf"))
    return b"\n".join(line[5:].removeprefix(b" ") for line in lines if line.startswith(b"data:"))


def _is_named_error(event: bytes) -> bool:
    if b"error" not in event or is_one_line(event):
        return False
    lines = _LINE_END.split(event.removeprefix(b"\xef\xbb\xbf"))
    return any(line.startswith(b"event:") and line[6:].strip() == b"error" for line in lines)


def _told(data: bytes) -> str:
    return data[:_MOST_TOLD].decode("utf-8", "replace")


def _piece(choice: dict[str, Any]) -> _Piece:
    return _Piece(*map(choice.get, _Piece.__struct_fields__))


def _spoke(choice: _Piece) -> bool:
    if choice.text:
        return True
    delta = choice.delta
    if type(delta) is dict and delta:
        if delta.get("content"):
            return True
        for name, value in delta.items():
            if value and name != "role":
                return True
    logprobs = choice.logprobs
    return type(logprobs) is dict and bool(logprobs.get("content") or logprobs.get("tokens"))


def _count(usage: dict[str, Any], *names: str) -> int | None:
    for name in names:
        value = believable(usage.get(name))
        if value is not None:
            return value
    return None


def believable(told: object) -> int | None:
    """A count as a backend told it, None for what none can be."""
    return told if type(told) is int and 0 <= told <= MAX_COUNT else None
