"""How large a request's prompt is thought to be, read from the fields that its own API has for it.

A bound, not a count: no tokenizer runs here. The JSON of every field that its endpoint's prompt is made of is taken for text,
less what is embedded in it as data (or one image would reserve 300,000 tokens), plus what the engine reads more than once.
Fields that steer sampling, constrain the output or are only echoed are no prompt, however long, and neither is a field that
nobody knows.
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
_TEMPLATE = ("chat_template", "chat_template_kwargs")
_TOLD = ("instruction", "chat_template_kwargs")  # to a reranker, with each document

READ: Mapping[str, tuple[str, ...]] = {
    "chat": ("messages", "tools", "functions", "documents", *_TEMPLATE),
    "completions": ("prompt", "suffix", "prompt_embeds"),
    "embeddings": ("input", "messages", *_TEMPLATE),
    "responses": ("input", "instructions", "tools", "prompt", "previous_input_messages", *_TEMPLATE),
    "messages": ("system", "messages", "tools", *_TEMPLATE),
    "rerank": ("query", "documents", *_TOLD),
    "score": ("text_1", "text_2", "queries", "documents", "items", "data_1", "data_2", *_TOLD),
}
"""The fields of each endpoint that reach the model's prompt: those that vLLM 0.32 renders or encodes, and those of the APIs'
own references that other engines do."""

TEMPLATE_BYTES = 32
"""What a chat template adds to a conversation, beyond the JSON of its messages: a beginning, and the answer's own heading.
Without it a prompt of one word would be thought shorter than it is."""

SOUND_TOKENS = 50
"""Tokens of a second of sound: Whisper's encoder makes 1,500 positions of 30 s. For backends that count seconds only."""

_SOUND_BYTES = 16_000  # of a second, as 128 kbit/s has it: speech is often smaller, a WAV file twice as large


def prompt_size(ask: Ask, endpoint: Endpoint) -> tuple[int, int]:
    """(bytes of the body that are prompt text, tokens that have no text: images, sounds, ready token ids)."""
    if endpoint.free:
        return 0, 0
    return _SIZES[endpoint.name](ask)


def prompts(ask: Ask) -> int:
    """How many prompts one request carries: /v1/completions takes a list of them."""
    prompt = ask.fields.get("prompt")
    return max(1, len(prompt)) if isinstance(prompt, list) and prompt and isinstance(prompt[0], str | list) else 1


def _text(ask: Ask, endpoint: str) -> int:
    values, size = ask.values, 0
    for name in READ[endpoint]:
        if name in values:
            size += len(values[name])
    return size


def _with_parts(ask: Ask, endpoint: str, messages: Any) -> tuple[int, int]:
    """`messages`: the list, of a field that was counted as text, whose parts may hold data."""
    size, tokens = _text(ask, endpoint), 0
    for text in _embedded(messages):
        size -= len(text)
        tokens += _IMAGE_TOKENS
    return max(0, size), tokens


def _less_ids(ask: Ask, name: str, size: int, tokens: int) -> tuple[int, int]:
    """Ready token ids in that field count one each, not as the digits that they are written in."""
    prompt = ask.fields.get(name)
    if isinstance(prompt, list) and prompt and isinstance(prompt[0], int | list):
        ids = sum(len(row) if isinstance(row, list) else 1 for row in prompt)
        return max(0, size - min(6 * ids, len(ask.values[name]))), tokens + ids
    return size, tokens


def _conversation(ask: Ask, endpoint: str, field: str) -> tuple[int, int]:
    size, tokens = _with_parts(ask, endpoint, ask.fields.get(field))
    return size + TEMPLATE_BYTES, tokens


def _chat(ask: Ask) -> tuple[int, int]:
    messages = ask.fields.get("messages")
    if messages.__class__ is list and _only_words(messages):
        return _text(ask, "chat") + TEMPLATE_BYTES, 0
    return _conversation(ask, "chat", "messages")


def _completions(ask: Ask) -> tuple[int, int]:
    return _less_ids(ask, "prompt", _text(ask, "completions"), 0)


def _embeddings(ask: Ask) -> tuple[int, int]:
    return _less_ids(ask, "input", *_with_parts(ask, "embeddings", ask.fields.get("messages")))


def _responses(ask: Ask) -> tuple[int, int]:
    return _conversation(ask, "responses", "input")


def _messages(ask: Ask) -> tuple[int, int]:
    return _conversation(ask, "messages", "messages")


def _rerank(ask: Ask) -> tuple[int, int]:
    """The query is read once more with each document."""
    return _compared(ask, "rerank", ask.fields.get("query"), ask.fields.get("documents"))


def _score(ask: Ask) -> tuple[int, int]:
    """One text against many is read with each of them; pairs are read once."""
    fields = ask.fields
    left = next((fields[name] for name in ("text_1", "queries", "data_1") if name in fields), None)
    right = next((fields[name] for name in ("text_2", "documents", "items", "data_2") if name in fields), None)
    return _compared(ask, "score", left, right)


def _compared(ask: Ask, endpoint: str, query: Any, documents: Any) -> tuple[int, int]:
    size, tokens = _with_parts(ask, endpoint, documents if isinstance(documents, list) else [documents])
    if isinstance(documents, list) and documents:
        told = sum([len(ask.values[name]) for name in _TOLD if name in ask.values])
        size += told * (len(documents) - 1)
    return size + _repeated(query, documents), tokens


def _sound(ask: Ask) -> tuple[int, int]:
    return 0, -(-len(ask.raw) * SOUND_TOKENS // _SOUND_BYTES)


_SIZES: Mapping[str, Callable[[Ask], tuple[int, int]]] = {
    "chat": _chat,
    "completions": _completions,
    "embeddings": _embeddings,
    "responses": _responses,
    "messages": _messages,
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


def _only_words(messages: list[Any]) -> bool:
    """Nothing is embedded, as in nearly all conversations: each message is a text."""
    for message in messages:  # noqa: SIM110 - a generator costs as much as two messages
        if message.__class__ is not dict or message.get("content").__class__ is not str:
            return False
    return True


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
