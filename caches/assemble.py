"""SSE events of a finished stream → the JSON answer that a client without streaming would have received.

A stream of `/v1/responses` tells it itself (see `responses`), that of `/v1/messages` has blocks (see `messages`). Of chat and
completions the fields of the chunks come together, for every choice by its index:
- text (`content`, `reasoning`, `reasoning_content`, `refusal`, a completion's `text`, `arguments`) is concatenated;
- lists inside `logprobs`, and `token_ids`, are concatenated;
- tool calls are merged by (choice, index), so interleaved deltas do not mix (see `calls`);
- `usage` is the last one that is not null, wherever it stood; `id`, `created` and `model` are the first ones;
- every other field, at any of these levels, is kept: the last value that is not null wins, and null stays null.

Defaults: a chat message always has `role` and `content`; a call with a function has a `type`; an empty or null `tool_calls`
is none. The numbers of `index` inside tool calls are gone, their order is kept.

There is an answer only if the stream was whole: `[DONE]` was seen, or every choice has its finish reason. An event with an
error, or one that cannot be read, means that there is none.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from caches.alike import texts_after
from caches.calls import Calls, Function
from caches.events import joined, payload_of, payloads, split
from caches.messages import message_of
from caches.responses import response_of

TEXTS = frozenset({"content", "reasoning", "reasoning_content", "refusal"})
_FIRST = frozenset({"id", "created", "model"})
_APART = frozenset({"index", "text"})  # of a choice: kept elsewhere
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.encode


def assemble(endpoint: str, events: Iterable[bytes]) -> bytes | None:
    """One JSON answer, or None unless the stream is complete. Only the bytes in their order matter, not how they are cut."""
    told = put_together(endpoint, events)
    return None if told is None else told[0]


def put_together(endpoint: str, events: Iterable[bytes]) -> tuple[bytes, dict[str, Any] | None] | None:
    """As `assemble`, with what the answer says where that was not decoded from it, but it was encoded from that."""
    if endpoint in ("responses", "messages"):
        body = response_of(payloads(events)) if endpoint == "responses" else message_of(payloads(events))
        return None if body is None else (body, None)
    answer = _told(joined(events))
    if answer is None:
        return None
    whole = answer.whole(chat=endpoint != "completions")
    return _encode(whole), whole


def _told(stream: bytes) -> _Answer | None:
    """What the chunks of a complete stream say, whose lines end with line feeds alone."""
    events, at = split(stream), 0
    answer, done = _Answer(), False
    while at < len(events):
        event = events[at]
        at += 1
        payload = payload_of(event)
        if payload is None:
            continue
        if payload == b"[DONE]":
            done = True
            break
        try:
            chunk = _decode(payload)
        except (msgspec.DecodeError, RecursionError):
            return None
        if type(chunk) is not dict or chunk.get("error") is not None:
            return None
        answer.add(chunk)
        texts, at = texts_after(chunk, events, at)
        if texts:
            answer.choices[chunk["choices"][0]["index"]].texts["content"] += texts
    return answer if answer.choices and (done or answer.finished) and not answer.odd else None


class _Answer:
    """What the chunks have said so far. `odd`: one of them said something that is not understood, so a replay would not."""

    __slots__ = ("choices", "fields", "odd", "usage")

    def __init__(self) -> None:
        self.choices: dict[int, _Choice] = {}
        self.fields: dict[str, Any] = {}
        self.usage: dict[str, Any] | None = None
        self.odd = False

    @property
    def finished(self) -> bool:
        return all(choice.fields.get("finish_reason") is not None for choice in self.choices.values())

    def add(self, chunk: dict[str, Any]) -> None:
        fields = self.fields
        for name, value in chunk.items():
            if name == "choices":
                if type(value) is list:
                    self._add_choices(value)
                elif value is not None:
                    self.odd = True
            elif name == "usage":
                if type(value) is dict:
                    self.usage = value
                elif value is not None:
                    self.odd = True
            elif (value is not None and name not in _FIRST) or fields.get(name) is None:
                fields[name] = value

    def _add_choices(self, choices: list[Any]) -> None:
        for place, piece in enumerate(choices):
            if type(piece) is not dict:
                self.odd = True
                continue
            index = piece.get("index")
            if type(index) is not int:
                self.odd = self.odd or index is not None
                index = place
            delta = piece.get("delta")
            self.odd = self.odd or (delta is not None and type(delta) is not dict)
            choice = self.choices.get(index)
            if choice is None:
                choice = self.choices[index] = _Choice()
            choice.add(piece)

    def whole(self, *, chat: bool) -> dict[str, Any]:
        answer = {**self.fields, "object": "chat.completion" if chat else "text_completion"}
        answer["choices"] = [{"index": i, **self.choices[i].whole(chat=chat)} for i in sorted(self.choices)]
        if self.usage is not None:
            answer["usage"] = self.usage
        return answer


class _Choice:
    """One choice: its message (or text), its logprobs, and the fields beside them."""

    __slots__ = ("calls", "fields", "function_call", "logprobs", "message", "text", "texts", "token_ids")

    def __init__(self) -> None:
        self.fields: dict[str, Any] = {}
        self.message: dict[str, Any] = {}
        self.text: list[str] = []
        self.texts: dict[str, list[str]] = {}
        self.calls: Calls | None = None
        self.function_call: Function | None = None
        self.logprobs: dict[str, Any] | None = None
        self.token_ids: list[Any] = []

    def add(self, piece: dict[str, Any]) -> None:
        for name, value in piece.items():
            if name == "delta":
                if type(value) is dict:
                    self._add_delta(value)
            elif value is None:
                if name not in _APART:
                    self.fields.setdefault(name)
            elif name == "text":
                if type(value) is str:
                    self.text.append(value)
            elif name == "logprobs" and type(value) is dict:
                self._add_logprobs(value)
            elif name == "token_ids" and type(value) is list:
                self.token_ids.extend(value)
            elif name != "index":
                self.fields[name] = value

    def _add_delta(self, delta: dict[str, Any]) -> None:
        for name, value in delta.items():
            if name in TEXTS and (value is None or type(value) is str):
                parts = self.texts.get(name)
                if parts is None:
                    parts = self.texts[name] = []
                if value is not None:
                    parts.append(value)
            elif name == "tool_calls":
                if value:
                    self.calls = self.calls or Calls()
                    self.calls.add(value)
            elif name == "function_call" and type(value) is dict:
                self.function_call = self.function_call or Function()
                self.function_call.add(value)
            elif value is not None or name not in self.message:
                self.message[name] = value

    def _add_logprobs(self, piece: dict[str, Any]) -> None:
        if self.logprobs is None:
            self.logprobs = {}
        for name, value in piece.items():
            known = self.logprobs.get(name)
            if type(known) is list and type(value) is list:
                known.extend(value)
            elif value is not None or name not in self.logprobs:
                self.logprobs[name] = value

    def whole(self, *, chat: bool) -> dict[str, Any]:
        said: dict[str, Any] = {"message": self._message()} if chat else {"text": "".join(self.text)}
        choice = {**said, "finish_reason": None, **self.fields, **said}
        if self.logprobs is not None:
            choice["logprobs"] = self.logprobs
        if self.token_ids:
            choice["token_ids"] = self.token_ids
        return choice

    def _message(self) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": None}
        for name, parts in self.texts.items():
            message[name] = "".join(parts) if parts else None
        message.update(self.message)
        if self.calls is not None and self.calls.calls:
            message["tool_calls"] = self.calls.whole()
        if self.function_call is not None:
            message["function_call"] = self.function_call.whole()
        return message
