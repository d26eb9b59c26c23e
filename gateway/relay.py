"""The tee between a replica's stream and the client's: whole events go on as they came, and are counted on the way.

Events are forwarded per read, not one by one, and only whole: half an event helps no client, and a broken stream can
then end with a clean error event. The usage chunk is marked, so that each reader decides whether to show it.
"""

from __future__ import annotations

import enum
import math
from typing import Any, Protocol

import msgspec

from backends.sse import EMPTY_LINE, MAX_COUNT, EventSplitter, Kind, Tally, believable, is_one_line
from caches.relay import Relay
from caches.types import Flow
from caches.worth import Choice, plainly_worth_keeping
from gateway.endpoints import Dialect
from gateway.exchange import Work
from gateway.lane import Lane, Texts
from gateway.prompt import SOUND_TOKENS
from gateway.reply import Head, Reply


class Sink(Protocol):
    """Where the bytes of an answer go: one client, or all who wait for the same answer."""

    flow: Flow | None

    def begin(self, head: Head) -> None: ...
    def write(self, data: bytes, usage_only: bool = False) -> None: ...
    def last(self) -> None:
        """The last piece was written; only the source's own end is still to come."""


_CONTENT, _DONE, _USAGE = Kind.CONTENT, Kind.DONE, Kind.USAGE  # a member takes 0.17 us to find in its class (3.11)
_OPENAI = Dialect.OPENAI


class Tee:
    """Is given each piece of a replica's body."""

    __slots__ = ("_read", "_sink", "_splitter", "_work", "lane", "tally")

    def __init__(self, sink: Sink, work: Work, texts: Texts) -> None:
        self._sink = sink
        self._work = work
        self._splitter = EventSplitter()
        self.tally = Tally()
        self._read = self.tally.read
        self.lane = Lane(sink, self._splitter, self.tally, texts) if isinstance(sink, Relay | Reply) else None

    def take(self, data: bytes) -> None:
        """The next piece. Events that come together and are plain deltas go on together."""
        if not self._splitter.between:
            self._cut(data)
        elif is_one_line(data):
            self._one(data)
        elif self.tally.read_plain(data):
            if self.lane is not None:
                self.lane.learn(data)
            self._sink.write(data)
        else:
            self._cut(data)

    def _one(self, event: bytes) -> None:
        kind = self._read(event)
        if kind is _DONE:
            self._work.finished = True  # before it is passed on, so that it is known with the piece
            self._sink.write(event)
            self._sink.last()
        else:
            if kind is _CONTENT and self.lane is not None:
                self.lane.learn(event)
            self._sink.write(event, kind is _USAGE)

    def _cut(self, data: bytes) -> None:
        events = self._splitter.feed(data)
        if len(events) == 1:
            self._one(events[0])
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
        """Neither `[DONE]`, nor a reason to finish, nor an error of the backend's own."""
        tally = self.tally
        return not tally.done and not tally.finish_reasons and tally.error is None

    def _several(self, events: list[bytes]) -> None:
        plain: list[bytes] = []
        for event in events:
            if self._read(event) is _USAGE:
                if plain:
                    self._sink.write(b"".join(plain))
                    plain = []
                self._sink.write(event, usage_only=True)
            else:
                plain.append(event)
        self._work.finished = self.tally.done
        if plain:
            self._sink.write(b"".join(plain))
        if self.tally.done:
            self._sink.last()


class _Usage(msgspec.Struct):
    prompt_tokens: int = 0
    completion_tokens: int | None = 0
    prompt_tokens_details: Any = None  # what is wrong in here does not cost the two counts
    total_tokens: int | None = None


class _Answer(msgspec.Struct):
    usage: _Usage | None = None
    error: Any = None


class _Chat(_Answer):
    """What one that may be kept is nearly always."""

    choices: list[Choice] | None = None
    object: Any = None
    type: Any = None


_SAID = ("choices", "data", "output", "content", "results", "text")
_BLANK = b"\xef\xbb\xbf \t\r\n"
_SHORT = 64  # an object without usage that is longer than this is not empty


class _OtherUsage(msgspec.Struct):
    """Of /v1/responses, /v1/messages and /v1/audio. Anthropic's input_tokens leave out what its caches held."""

    input_tokens: int = 0
    output_tokens: int | None = None
    input_tokens_details: Any = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    seconds: float | None = None


class _OtherAnswer(msgspec.Struct):
    usage: _OtherUsage | None = None
    duration: Any = None  # of a verbose transcription, which has no usage
    error: Any = None


_answer = msgspec.json.Decoder(_Answer)
_chat = msgspec.json.Decoder(_Chat)
_other_answer = msgspec.json.Decoder(_OtherAnswer)


def json_object(body: bytes) -> dict[str, Any] | None:
    """What a backend sent, if it is a JSON object."""
    try:
        decoded = msgspec.json.decode(body)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return None
    return decoded if isinstance(decoded, dict) else None


class NoAnswer(ValueError):  # noqa: N818 - named for what came
    """A success without an answer: a proxy's page, a body cut short, nothing at all, or (then with `error`) an error."""

    def __init__(self, error: dict[str, Any] | None = None) -> None:
        super().__init__("no answer")
        self.error = error


def read_usage(body: bytes, work: Work, dialect: Dialect = Dialect.OPENAI) -> int | None:
    """The tokens that an unstreamed answer counts, also put on `work`; None when it does not say. The rest is not built.

    Raises NoAnswer for what is no JSON object, or one that holds nothing but an error. What only a strict reader finds fault
    with (a NaN, half a surrogate) is an answer: its client may well read it.
    """
    if dialect is not _OPENAI:
        return _other_usage(body, work, dialect)
    try:
        answer = _look(body, work) if work.storable else _answer.decode(body)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        if not _braced(body):
            raise NoAnswer from None
        return None
    if answer.error:
        _check_says_something(body)
    usage = answer.usage
    if usage is None:
        if len(body) < _SHORT and not json_object(body):
            raise NoAnswer
        return None
    prompt, completion = usage.prompt_tokens, usage.completion_tokens
    if not (0 <= prompt <= MAX_COUNT and 0 <= (completion or 0) <= MAX_COUNT):
        return None
    if not prompt and usage.total_tokens and usage.total_tokens <= MAX_COUNT:  # some rerankers tell nothing else
        prompt = usage.total_tokens - (completion or 0)
    if not prompt and not completion:  # no answer costs nothing, so this one was not counted
        return None
    return count(work, prompt, completion, _cached(usage.prompt_tokens_details))


def _look(body: bytes, work: Work) -> _Answer:
    """The same in one pass with whether it is worth keeping, where it is a chat's. Raises as a decoder does."""
    try:
        chat = _chat.decode(body)
    except msgspec.ValidationError:
        return _answer.decode(body)
    if chat.error is None and chat.object != "response" and chat.type != "message" and plainly_worth_keeping(chat.choices, body):
        work.sound = body
    return chat


def _cached(details: Any) -> int | None:
    return believable(details.get("cached_tokens")) if type(details) is dict else None


def _believable(prompt: int, completion: int | None) -> bool:
    """Counts that one request can have: neither absurd nor below nothing."""
    return 0 <= prompt <= MAX_COUNT and 0 <= (completion or 0) <= MAX_COUNT


def _other_usage(body: bytes, work: Work, dialect: Dialect) -> int | None:
    try:
        answer = _other_answer.decode(body)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        plain = dialect is Dialect.AUDIO and body.lstrip()[:1] not in (b"", b"{", b"<")  # a transcript may be text, SRT or VTT
        if not plain and not _braced(body):
            raise NoAnswer from None
        return None
    if answer.error:
        _check_says_something(body)
    usage, seconds = answer.usage, answer.duration
    if usage is not None:
        seconds = usage.seconds if usage.seconds is not None else seconds
    if dialect is Dialect.AUDIO and (usage is None or not usage.input_tokens):
        known = isinstance(seconds, int | float) and 0 <= seconds < MAX_COUNT / SOUND_TOKENS
        return count(work, math.ceil(seconds * SOUND_TOKENS), 0, None) if known else None
    if usage is None:
        return None
    details = usage.input_tokens_details
    cached = _cached(details) if details else usage.cache_read_input_tokens
    prompt = usage.input_tokens + (usage.cache_read_input_tokens or 0) + (usage.cache_creation_input_tokens or 0)
    if not _believable(prompt, usage.output_tokens):
        return None
    return count(work, prompt, usage.output_tokens, cached)


def _check_says_something(body: bytes) -> None:
    """Raises NoAnswer for an error that has nothing of an answer beside it."""
    answer = json_object(body) or {}
    if not any(answer.get(name) for name in _SAID):
        error = answer.get("error")
        raise NoAnswer(error if isinstance(error, dict) else {"message": str(error)})


def _braced(body: bytes) -> bool:
    """As much of an object as can be seen from both its ends."""
    whole = body.removeprefix(b"\xef\xbb\xbf").strip()
    return whole.startswith(b"{") and whole.endswith(b"}")


def count(work: Work, prompt: int, completion: int | None, cached: int | None) -> int:
    """Put counted tokens on `work`; their sum."""
    if prompt < 0:
        prompt = 0
    if completion is None or completion < 0:
        completion = 0
    work.prompt_tokens, work.completion_tokens = prompt, completion
    work.cached_tokens = None if cached is None else max(0, min(cached, prompt))
    return prompt + completion


_FIELDS = b"de:"  # first letters of data, event, and of comments


class Start(enum.Enum):
    """How a stream begins, as far as it came."""

    GOOD = "good"
    BAD = "bad"  # something of an answer, and then an error: it is passed on
    NOTHING = "nothing"  # its end, and nothing before it


def begins_well(piece: bytes) -> bool:
    """Whether that can be told at a glance: a whole event, and none that might be an error or the end."""
    return piece[:1] in _FIELDS and b"\n\n" in piece and b"error" not in piece and b"[DONE]" not in piece


def begin(piece: bytes) -> Start | dict[str, Any]:
    """How a stream begins whose status was 200. The error, where it is one and nothing was generated before it."""
    if b"error" not in piece and b"[DONE]" not in piece:
        return Start.GOOD if piece else Start.NOTHING
    tally, said = Tally(), False
    for event in EventSplitter().feed(piece):
        kind = tally.read(event)
        if tally.error is not None:
            return Start.BAD if said else tally.error
        if kind is Kind.DONE and not tally.told:
            return Start.NOTHING
        said = said or kind is not Kind.OTHER
    return Start.GOOD


def holds_event(piece: bytes) -> bool:
    """Is there a whole event? Half of one tells nothing yet."""
    if b"\n\n" in piece:
        return True
    found = EMPTY_LINE.search(piece)
    return found is not None and (found.end() < len(piece) or found[0] != b"\r\n\r")  # whose other half is on its way


def is_json(piece: bytes) -> bool:
    """Whether a body that was called a stream is an answer in one piece: no line of events begins like that."""
    return piece.lstrip(_BLANK).startswith(b"{")
