"""The bytes of a prompt in the order in which an engine reads it, so that prompts which begin alike have bytes that begin alike.

Rules of this file
1. What a chat template puts in front of the messages comes first: tools, documents, settings of the template, then `system` or
   `instructions`. Then each message. A conversation's next turn begins with all the bytes of this one.
2. Strings have no length in front of them, or two long texts with the same beginning would differ from their first byte on. So
   the spelling is JSON with sorted keys, for each message alone, and a plain prompt as it is.
3. It is for finding, not for keys: two prompts that are spelled alike and are not are a request that is misplaced, no more. So
   images and the like are told apart by their length and both their ends.
4. A body is hostile: whatever is no prompt is none, and nothing here raises.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

Parts = tuple[list[bytes], tuple[int, int] | None]
"""The bytes of each part, and which of them are the last answer of the model's own in it: from, to before."""

FRONT = ("tools", "documents", "chat_template", "chat_template_kwargs", "reasoning_effort", "reasoning")
_FRONT = frozenset(FRONT)
_DATA = ("image_url", "image", "input_image", "input_audio", "audio_url", "video_url", "document", "file", "input_file")
_MADE = (
    "function_call",
    "reasoning",
    "custom_tool_call",
    "tool_use",
)  # items of /v1/responses that are the model's without saying so
_SAMPLE = 512  # characters at each end of what is embedded
_MOST_SHOWN = 4 * _SAMPLE
_MOST_PARTS = 100_000  # messages
_NOTHING: Parts = ([], None)

_encode = msgspec.json.Encoder(order="sorted", enc_hook=repr).encode


def prompt_parts(fields: Mapping[str, Any], endpoint: str) -> Parts:
    """The prompt of a request for that endpoint; empty where there is none, or none that an engine would find again."""
    read = _READERS.get(endpoint)
    if read is None:
        return _NOTHING
    try:
        return read(fields)
    except (msgspec.MsgspecError, OverflowError, RecursionError, UnicodeError, TypeError, ValueError):
        return _NOTHING


def _chat(fields: Mapping[str, Any]) -> Parts:
    return _conversation([] if _FRONT.isdisjoint(fields) else _front(fields), fields.get("messages"))


def _messages(fields: Mapping[str, Any]) -> Parts:
    return _conversation([*_front(fields), *_optional(fields.get("system"))], fields.get("messages"))


def _responses(fields: Mapping[str, Any]) -> Parts:
    items = fields.get("input")
    if isinstance(items, str):  # as it comes back in the next turn
        items = [{"role": "user", "content": items}]
    return _conversation([*_front(fields), *_optional(fields.get("instructions"))], items)


def _completions(fields: Mapping[str, Any]) -> Parts:
    """Of several prompts the first: they go to one replica together."""
    prompt = fields.get("prompt")
    if isinstance(prompt, list) and prompt and isinstance(prompt[0], str | list):
        prompt = prompt[0]
    if isinstance(prompt, str):
        return [prompt.encode()], None
    if isinstance(prompt, list):
        return [array("q", prompt).tobytes()], None
    return _NOTHING


_READERS: Mapping[str, Callable[[Mapping[str, Any]], Parts]] = {
    "chat": _chat,
    "completions": _completions,
    "responses": _responses,
    "messages": _messages,
}


def _front(fields: Mapping[str, Any]) -> list[bytes]:
    front = [name for name in FRONT if fields.get(name) is not None]
    return [_encode({name: fields[name] for name in front})] if front else []


def _optional(value: Any) -> list[bytes]:
    return [] if value is None else [_encode(value)]


def _conversation(front: list[bytes], messages: Any) -> Parts:
    if not isinstance(messages, list) or not messages or len(messages) > _MOST_PARTS:
        return _NOTHING
    parts = front
    for message in messages:
        parts.append(_encode(message if type(message) is dict and type(message.get("content")) is str else _shown(message)))
    first = len(parts) - len(messages)
    stop = len(messages)
    for message in reversed(messages):
        if _made(message):
            break
        stop -= 1
    else:
        return parts, None
    start = stop - 1
    while start and _made(messages[start - 1]):
        start -= 1
    return parts, (first + start, first + stop)


def _made(message: Any) -> bool:
    """It is the model's own."""
    return type(message) is dict and (message.get("role") == "assistant" or ("type" in message and message["type"] in _MADE))


def _inner(node: dict[str, Any]) -> list[Any]:
    """The parts of a message, or of what a tool gave back."""
    inner = node.get("content", node.get("output"))
    return inner if type(inner) is list else []


def _holds_data(part: Any) -> bool:
    return type(part) is dict and (part.get("type") in _DATA or any(map(_holds_data, _inner(part))))


def _shown(message: Any) -> Any:
    """The same, with the middle of all embedded data left out."""
    if type(message) is not dict:
        return message
    if message.get("type") in _DATA:
        return _cut(message)
    inner = _inner(message)
    if not any(map(_holds_data, inner)):
        return message
    return {**message, "content" if "content" in message else "output": [_shown(part) for part in inner]}


def _cut(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= _MOST_SHOWN else (value[:_SAMPLE], len(value), value[-_SAMPLE:])
    if isinstance(value, list):
        return [_cut(item) for item in value]
    if isinstance(value, dict) and value.get("type") != "text":  # a document that is text is read as such
        return {name: _cut(item) for name, item in value.items()}
    return value
