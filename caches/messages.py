"""`/v1/messages`, Anthropic's form: a stream of named events → the message, and back.

    message_start         the message without its content
    content_block_start   a block, empty; then content_block_delta …, content_block_stop
                          text: text_delta, citations_delta      thinking: thinking_delta, signature_delta
                          tool_use: input_json_delta             any other: whole at its start
    message_delta         why it stopped, and the usage
    message_stop          without it, or after an error, or with a delta that nobody knows, there is no message

A ping and events of unknown kinds say nothing of the message.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from caches.events import named
from caches.pieces import cut

_TEXTS = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature", "input_json_delta": "partial_json"}

_decode = msgspec.json.decode
_encode = msgspec.json.encode


def message_of(payloads: Iterable[bytes]) -> bytes | None:
    """The message, or None unless the stream is complete."""
    message = _Message()
    try:
        for payload in payloads:
            event = _decode(payload)
            if event["type"] == "message_stop":
                return message.encode()
            message.add(event)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError, LookupError, TypeError, AttributeError, ValueError):
        return None  # no event of that API: whatever it is made of, there is no message
    return None


class _Message:
    """What the events have said so far. Anything that is not formed as the API has it raises."""

    __slots__ = ("blocks", "fields", "texts")

    def __init__(self) -> None:
        self.fields: dict[str, Any] = {}
        self.blocks: dict[int, dict[str, Any]] = {}
        self.texts: dict[int, dict[str, list[str]]] = {}

    def add(self, event: dict[str, Any]) -> None:
        match event["type"]:
            case "message_start":
                self.fields = dict(event["message"])
            case "content_block_start":
                self.blocks[event["index"]] = dict(event["content_block"])
                self.texts[event["index"]] = {}
            case "content_block_delta":
                self._delta(event["index"], event["delta"])
            case "message_delta":
                self._ending(event["delta"], event.get("usage") or {})
            case "error":
                raise ValueError("the stream failed")

    def _delta(self, index: int, delta: dict[str, Any]) -> None:
        if delta["type"] == "citations_delta":
            block = self.blocks[index]
            block["citations"] = block.get("citations") or []
            block["citations"].append(delta["citation"])
            return
        name = _TEXTS[delta["type"]]
        self.texts[index].setdefault(name, []).append(delta[name])

    def _ending(self, delta: dict[str, Any], usage: dict[str, Any]) -> None:
        known = self.fields.get("usage") or {}
        self.fields.update((name, value) for name, value in delta.items() if value is not None or name in self.fields)
        if usage:
            self.fields["usage"] = {**known, **{name: value for name, value in usage.items() if value is not None}}

    def encode(self) -> bytes:
        if not self.fields:
            raise ValueError("a message that did not start")
        content = [self._whole(index) for index in sorted(self.blocks)]
        return _encode({**self.fields, "content": content})

    def _whole(self, index: int) -> dict[str, Any]:
        block = self.blocks[index]
        for name, parts in self.texts[index].items():
            text = "".join(parts)
            if name != "partial_json":
                block[name] = block.get(name, "") + text
            elif text:
                block["input"] = _decode(text)
        return block


def message_events(answer: Mapping[str, Any]) -> list[bytes]:
    """The whole stream, one event an element, each with its blank line."""
    content, usage = answer.get("content"), answer.get("usage")
    start = {**answer, "content": [], "stop_reason": None}
    if "stop_sequence" in answer:
        start["stop_sequence"] = None
    if type(usage) is dict:
        start["usage"] = {**usage, "output_tokens": 0}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": start}]
    for index, block in enumerate(content if type(content) is list else ()):
        if type(block) is not dict:
            continue
        begun, deltas = _begun(block)
        events.append({"type": "content_block_start", "index": index, "content_block": begun})
        events.extend({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas)
        events.append({"type": "content_block_stop", "index": index})
    ending = {name: answer.get(name) for name in ("stop_reason", "stop_sequence")}
    events.append({"type": "message_delta", "delta": ending, "usage": usage})
    events.append({"type": "message_stop"})
    return [named(event) for event in events]


def _begun(block: dict[str, Any]) -> tuple[dict[str, Any], Iterator[dict[str, Any]]]:
    """A block as it starts, and the deltas that fill it."""
    match block:
        case {"type": "text", "text": str()}:
            cited = block.get("citations")
            return {**block, "text": "", **({"citations": []} if cited else {})}, _text(block["text"], cited)
        case {"type": "thinking", "thinking": str()}:
            signed = type(block.get("signature")) is str
            return {**block, "thinking": "", **({"signature": ""} if signed else {})}, _thinking(block)
        case {"type": "tool_use", "input": dict()}:
            return {**block, "input": {}}, _pieces("input_json_delta", _encode(block["input"]).decode())
    return block, iter(())


def _pieces(kind: str, text: str) -> Iterator[dict[str, Any]]:
    return ({"type": kind, _TEXTS[kind]: piece} for piece in cut(text))


def _text(text: str, citations: Any) -> Iterator[dict[str, Any]]:
    yield from _pieces("text_delta", text)
    for citation in citations if type(citations) is list else ():
        yield {"type": "citations_delta", "citation": citation}


def _thinking(block: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from _pieces("thinking_delta", block["thinking"])
    if block.get("signature") and type(block["signature"]) is str:
        yield {"type": "signature_delta", "signature": block["signature"]}
