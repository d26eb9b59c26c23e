"""One JSON answer → the SSE events of a stream, and whether an answer is worth keeping.

`as_events` is the reverse of `assemble`: putting its events together gives the answer back (see there for the defaults).
A replay looks like what a backend streams:
- every chunk has `id`, `object`, `created`, `model`, `system_fingerprint` (if known), and in its choice `finish_reason`, null
  until the end; further top-level fields come once, with the first chunk;
- for each choice: the role, then reasoning, content and refusal in several deltas, tool calls by index (name first, then the
  arguments in pieces), and a last chunk with the finish reason and whatever else the choice had;
- `logprobs` go with the text of their tokens, where the tokens make up the text; otherwise with its first piece;
- the usage chunk has `choices: []`, and comes only if it was asked for; then `[DONE]`.

Text is cut between characters, and not in front of a mark or a joiner that belongs to the one before.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from caches.assemble import TEXTS, assemble

__all__ = ["as_events", "assemble", "worth_keeping"]

_MOST_PIECES = 64  # of one text: enough to look alive, few enough to cost little
_SHORTEST_PIECE = 8  # characters, about two tokens
_LONGEST_CLUSTER = 32  # characters that are kept together at most, whatever they are
_JOINER = "\u200d"
_STICKS = frozenset({_JOINER, "\ufe0e", "\ufe0f", *map(chr, range(0x1F3FB, 0x1F400))})  # variation selectors, skin tones
_FINISHED = frozenset({"stop", "tool_calls", "function_call"})  # not length, content_filter, abort, error: nor what is new
_EVERY_CHUNK = ("id", "created", "model", "system_fingerprint")
_NOT_REPEATED = frozenset({*_EVERY_CHUNK, "object", "choices", "usage"})
_DONE = b"data: [DONE]\n\n"

_encode = msgspec.json.encode


def worth_keeping(answer: Mapping[str, Any]) -> bool:
    """Whether the body of a 2xx answer is complete and says something. It never raises, whatever the body holds."""
    if answer.get("error") is not None:
        return False
    data = answer.get("data")
    if type(data) is list and "choices" not in answer:
        return bool(data) and all(type(item) is dict and bool(item.get("embedding")) for item in data)
    choices = answer.get("choices")
    return type(choices) is list and bool(choices) and all(map(_is_finished, choices))


def as_events(answer: Mapping[str, Any], *, include_usage: bool) -> list[bytes]:
    """The whole stream, one event an element, each with its blank line."""
    chat = answer.get("object") != "text_completion"
    envelope: dict[str, Any] = {"object": "chat.completion.chunk" if chat else "text_completion"}
    envelope.update((name, answer[name]) for name in _EVERY_CHUNK if name in answer)
    head = b"data: " + _encode(envelope)[:-1] + b',"choices":['
    once = {name: value for name, value in answer.items() if name not in _NOT_REPEATED}
    first = b"data: " + _encode({**envelope, **once})[:-1] + b',"choices":[' if once else head
    events: list[bytes] = []
    choices = answer.get("choices")
    for place, choice in enumerate(choices if type(choices) is list else ()):
        if type(choice) is dict:
            pieces = _chat_pieces(choice) if chat else _text_pieces(choice)
            events.extend(_event(head if events else first, place, choice, piece) for piece in pieces)
    if include_usage and answer.get("usage") is not None:
        events.append(head + b'],"usage":' + _encode(answer["usage"]) + b"}\n\n")
    events.append(_DONE)
    return events


def _event(head: bytes, place: int, choice: dict[str, Any], piece: dict[str, Any]) -> bytes:
    """A chunk with one choice; what `piece` does not say is null, if the answer has the field at all."""
    shape: dict[str, Any] = {"index": choice.get("index", place), **piece}
    if "logprobs" in choice:
        shape.setdefault("logprobs", None)
    shape.setdefault("finish_reason", None)
    return head + _encode(shape) + b"]}\n\n"


def _chat_pieces(choice: dict[str, Any]) -> Iterator[dict[str, Any]]:
    message = choice.get("message")
    if type(message) is not dict:
        message = {}
    yield {"delta": _opening(message)}
    logprobs = choice.get("logprobs")
    for name in ("reasoning", "reasoning_content", "content", "refusal"):
        text = message.get(name)
        if type(text) is not str or not text:
            continue
        if name != "content":
            yield from ({"delta": {name: piece}} for piece in _split(text))
            continue
        for piece, beside in _with_logprobs(text, logprobs, "content"):
            yield {"delta": {name: piece}, **beside}
            logprobs = None
    yield from ({"delta": {"tool_calls": [delta]}} for delta in _call_deltas(message.get("tool_calls")))
    yield from ({"delta": {"function_call": delta}} for delta in _function_deltas(message.get("function_call")))
    yield {"delta": {}, **_ending(choice, "message", logprobs)}


def _text_pieces(choice: dict[str, Any]) -> Iterator[dict[str, Any]]:
    text, logprobs = choice.get("text"), choice.get("logprobs")
    if type(text) is str and text:
        for piece, beside in _with_logprobs(text, logprobs, "tokens"):
            yield {"text": piece, **beside}
            logprobs = None
    yield {"text": "", **_ending(choice, "text", logprobs)}


def _opening(message: dict[str, Any]) -> dict[str, Any]:
    """The first delta: the role, an empty text for what follows, and every field that is not sent in pieces."""
    opening: dict[str, Any] = {"role": "assistant"}
    for name, value in message.items():
        if name in TEXTS and type(value) is str:
            if name == "content" or not value:
                opening[name] = ""
        elif name != "tool_calls" and not (name == "function_call" and type(value) is dict):
            opening[name] = value
    return opening


def _ending(choice: dict[str, Any], said: str, logprobs: Any) -> dict[str, Any]:
    """The fields of the last chunk; `logprobs` are those that no text has taken along."""
    ending = {name: value for name, value in choice.items() if name not in ("index", "logprobs", said)}
    return ending if logprobs is None else {**ending, "logprobs": logprobs}


def _call_deltas(calls: Any) -> Iterator[dict[str, Any]]:
    for index, call in enumerate(calls if type(calls) is list else ()):
        if type(call) is not dict:
            continue
        opening = {name: value for name, value in call.items() if name not in ("index", "function")}
        deltas = _function_deltas(call.get("function"))
        first = next(deltas, None)
        if first is not None:
            opening = {"type": "function", **opening, "function": first}
        yield {"index": index, **opening}
        yield from ({"index": index, "function": delta} for delta in deltas)


def _function_deltas(function: Any) -> Iterator[dict[str, Any]]:
    """The name with empty arguments, then the arguments in pieces."""
    if type(function) is not dict:
        return
    arguments = function.get("arguments", "")
    if type(arguments) is not str:
        yield function
        return
    yield {**function, "arguments": ""}
    yield from ({"arguments": piece} for piece in _split(arguments))


def _with_logprobs(text: str, logprobs: Any, key: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The pieces of a text, each with the logprobs of its own tokens; with all of them on the first if they do not match."""
    if type(logprobs) is not dict:
        yield from ((piece, {}) for piece in _split(text))
        return
    tokens = _tokens(logprobs.get(key))
    if not tokens or "".join(tokens) != text:
        yield from ((piece, {} if number else {"logprobs": logprobs}) for number, piece in enumerate(_split(text)))
        return
    size, start, piece = _piece_size(text), 0, ""
    for stop, token in enumerate(tokens, 1):
        piece += token
        if len(piece) >= size or stop == len(tokens):
            yield piece, {"logprobs": _slice(logprobs, start, stop, len(tokens))}
            start, piece = stop, ""


def _tokens(entries: Any) -> list[str]:
    """The text of each token: of chat's entries, or of a completion's plain list."""
    if type(entries) is not list:
        return []
    tokens = (entry.get("token") if type(entry) is dict else entry for entry in entries)
    texts = [token for token in tokens if type(token) is str]
    return texts if len(texts) == len(entries) else []


def _slice(logprobs: dict[str, Any], start: int, stop: int, count: int) -> dict[str, Any]:
    """A stretch of every list that has an element a token; the other fields go with the first stretch."""
    sliced = {}
    for name, value in logprobs.items():
        if type(value) is list and len(value) == count:
            sliced[name] = value[start:stop]
        elif start == 0 or value is None:
            sliced[name] = value
    return sliced


def _piece_size(text: str) -> int:
    return max(_SHORTEST_PIECE, -(-len(text) // _MOST_PIECES))


def _split(text: str) -> Iterator[str]:
    size, start, ascii_only = _piece_size(text), 0, text.isascii()
    while start < len(text):
        stop = start + size
        if not ascii_only:
            limit = min(len(text), stop + _LONGEST_CLUSTER)
            while stop < limit and _belongs_before(text, stop):
                stop += 1
        yield text[start:stop]
        start = stop


def _belongs_before(text: str, at: int) -> bool:
    """Whether the character at a place goes with the one before it."""
    character = text[at]
    return character in _STICKS or text[at - 1] == _JOINER or unicodedata.category(character).startswith("M")


def _is_finished(choice: Any) -> bool:
    """Whether a choice came to its own end and is not empty."""
    if type(choice) is not dict:
        return False
    reason = choice.get("finish_reason")
    if type(reason) is not str or reason not in _FINISHED:
        return False
    message = choice.get("message")
    if type(message) is dict:
        return any(message.get(name) for name in ("content", "tool_calls", "function_call", "refusal", "audio"))
    return bool(choice.get("text"))
