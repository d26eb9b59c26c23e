"""One JSON answer → the SSE events of a stream.

`as_events` is the reverse of `assemble`: putting its events together gives the answer back (see there for the defaults).
A replay looks like what a backend streams. `/v1/responses` and `/v1/messages` have forms of their own (see `responses`,
`messages`); of chat and completions
- every chunk has `id`, `object`, `created`, `model`, `system_fingerprint` (if known), and in its choice `finish_reason`, null
  until the end; further top-level fields come once, with the first chunk;
- for each choice: the role, then reasoning, content and refusal in several deltas, tool calls by index (name first, then the
  arguments in pieces), and a last chunk with the finish reason and whatever else the choice had;
- `logprobs` go with the text of their tokens, where the tokens make up the text; otherwise with its first piece;
- the usage chunk has `choices: []`, and comes only if it was asked for; then `[DONE]`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from caches.assemble import TEXTS
from caches.messages import message_events
from caches.pieces import cut, cut_at, tokens_of
from caches.responses import response_events

_EVERY_CHUNK = ("id", "created", "model", "system_fingerprint")
_NOT_REPEATED = frozenset({*_EVERY_CHUNK, "object", "choices", "usage"})
_DONE = b"data: [DONE]\n\n"

_encode = msgspec.json.encode


def as_events(endpoint: str, answer: Mapping[str, Any], *, include_usage: bool) -> list[bytes]:
    """The whole stream, one event an element, each with its blank line.

    `include_usage`: of chat and completions, whose clients ask for it; elsewhere the usage is part of the last events.
    """
    if endpoint == "responses":
        return response_events(answer)
    if endpoint == "messages":
        return message_events(answer)
    chat = endpoint != "completions"
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
            yield from ({"delta": {name: piece}} for piece in cut(text))
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
    yield from ({"arguments": piece} for piece in cut(arguments))


def _with_logprobs(text: str, logprobs: Any, key: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The pieces of a text, each with the logprobs of its own tokens; with all of them on the first if they do not match."""
    if type(logprobs) is not dict:
        yield from ((piece, {}) for piece in cut(text))
        return
    tokens = tokens_of(text, logprobs.get(key))
    if not tokens:
        yield from ((piece, {} if number else {"logprobs": logprobs}) for number, piece in enumerate(cut(text)))
        return
    for piece, start, stop in cut_at(text, tokens):
        yield piece, {"logprobs": _slice(logprobs, start, stop, len(tokens))}


def _slice(logprobs: dict[str, Any], start: int, stop: int, count: int) -> dict[str, Any]:
    """A stretch of every list that has an element a token; the other fields go with the first stretch."""
    sliced = {}
    for name, value in logprobs.items():
        if type(value) is list and len(value) == count:
            sliced[name] = value[start:stop]
        elif start == 0 or value is None:
            sliced[name] = value
    return sliced
