"""How large a request's prompt is thought to be, read from the fields that its own API has for it.

A bound, not a count: no tokenizer runs here. Everything in the body is taken for prompt text, less what is embedded in it
as data (or one image would reserve 300,000 tokens), plus what the engine reads more than once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gateway.endpoints import Endpoint
from gateway.wire import Ask

_IMAGE_TOKENS = 1_000  # what one image or sound counts for when its bytes cannot tell
_MAX_PARTS = 10_000
_HOLDERS = ("image_url", "input_audio", "video_url", "audio_url", "source", "file_data")
_INNER = ("url", "data")

SOUND_TOKENS = 50
"""Tokens of a second of sound: Whisper's encoder makes 1,500 positions of 30 s. For backends that count seconds only."""

_SOUND_BYTES = 16_000  # of a second, as 128 kbit/s has it: speech is often smaller, a WAV file twice as large


def prompt_size(ask: Ask, endpoint: Endpoint) -> tuple[int, int]:
    """(bytes of the body that are prompt text, tokens that have no text: images, sounds, ready token ids)."""
    if endpoint.free:
        return 0, 0
    special = _SPECIAL.get(endpoint.name)
    return _usual(ask, ask.fields.get("messages")) if special is None else special(ask)


def prompts(ask: Ask) -> int:
    """How many prompts one request carries: /v1/completions takes a list of them."""
    prompt = ask.fields.get("prompt")
    return max(1, len(prompt)) if isinstance(prompt, list) and prompt and isinstance(prompt[0], str | list) else 1


def _usual(ask: Ask, messages: Any) -> tuple[int, int]:
    size, tokens = len(ask.raw), 0
    for text in _embedded(messages):
        size -= len(text)
        tokens += _IMAGE_TOKENS
    prompt = ask.fields.get("prompt", ask.fields.get("input"))
    if isinstance(prompt, list) and prompt and isinstance(prompt[0], int | list):
        ids = sum(len(row) if isinstance(row, list) else 1 for row in prompt)
        return max(0, size - 6 * ids), tokens + ids
    return max(0, size), tokens


def _responses(ask: Ask) -> tuple[int, int]:
    return _usual(ask, ask.fields.get("input"))


def _rerank(ask: Ask) -> tuple[int, int]:
    """The query is read once more with each document."""
    documents = ask.fields.get("documents")
    size, tokens = _usual(ask, documents if isinstance(documents, list) else [documents])
    return size + _repeated(ask.fields.get("query"), documents), tokens


def _score(ask: Ask) -> tuple[int, int]:
    """One text against many is read with each of them; pairs are read once."""
    fields = ask.fields
    left = next((fields[name] for name in ("text_1", "queries", "data_1") if name in fields), None)
    right = next((fields[name] for name in ("text_2", "documents", "items", "data_2") if name in fields), None)
    size, tokens = _usual(ask, right if isinstance(right, list) else [right])
    return size + _repeated(left, right), tokens


def _sound(ask: Ask) -> tuple[int, int]:
    return 0, -(-len(ask.raw) * SOUND_TOKENS // _SOUND_BYTES)


_SPECIAL: Mapping[str, Callable[[Ask], tuple[int, int]]] = {
    "responses": _responses,
    "rerank": _rerank,
    "score": _score,
    "transcriptions": _sound,
    "translations": _sound,
}


def _repeated(query: Any, documents: Any) -> int:
    if isinstance(query, list) and len(query) == 1:
        query = query[0]
    if not isinstance(query, str) or not isinstance(documents, list) or not documents:
        return 0
    return len(query.encode("utf-8", "replace")) * (len(documents) - 1)


def _embedded(messages: Any) -> list[str]:
    """The data of all parts of all messages; of a tool's result also those one level further down."""
    found: list[str] = []
    for message in messages if isinstance(messages, list) else ():
        parts = message.get("content") if isinstance(message, dict) else None
        if parts is None and isinstance(message, dict):
            parts = message.get("output")
        for part in parts[:_MAX_PARTS] if isinstance(parts, list) else ():
            if not isinstance(part, dict):
                continue
            inner = part.get("content")
            for one in (part, *inner[:_MAX_PARTS]) if isinstance(inner, list) else (part,):
                if isinstance(one, dict):
                    _add_data(one, found)
    return found


def _add_data(part: dict[str, Any], found: list[str]) -> None:
    holder = next((part[key] for key in _HOLDERS if key in part), None)
    if isinstance(holder, dict) and holder.get("type") == "text":
        return  # a document of Anthropic's: plain text
    text = next((holder[key] for key in _INNER if key in holder), None) if isinstance(holder, dict) else holder
    if isinstance(text, str):
        found.append(text)
