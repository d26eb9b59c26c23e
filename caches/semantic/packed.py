"""An answer as a vector store keeps it, and the text that it says."""

from __future__ import annotations

import zlib

import msgspec

_WORTH = 512  # bytes from which compressing pays
_PLAIN, _ZLIB = b"\x01", b"\x02"
_MOST = 64 * 1024 * 1024
_read = msgspec.json.Decoder().decode


class Packed(msgspec.Struct, array_like=True, gc=False):
    """What is wanted again, beside what the point says of itself."""

    endpoint: str
    tier: str
    prompt_tokens: int
    completion_tokens: int
    body: bytes


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Packed).decode


def pack(packed: Packed) -> bytes:
    raw = _encode(packed)
    return _PLAIN + raw if len(raw) < _WORTH else _ZLIB + zlib.compress(raw, 1)


def unpack(data: bytes) -> Packed | None:
    """None: it is not what `pack` makes."""
    try:
        if data[:1] == _ZLIB:
            opened = zlib.decompressobj()
            raw = opened.decompress(data[1:], _MOST)
            if opened.unconsumed_tail:
                return None
            return _decode(raw)
        return _decode(data[1:]) if data[:1] == _PLAIN else None
    except (zlib.error, msgspec.MsgspecError):
        return None


def said(body: bytes) -> str | None:
    """The text of an answer that is one text and nothing else; None: it calls tools, refuses, has several choices or no text."""
    try:
        answer = _read(body)
    except (msgspec.MsgspecError, RecursionError):
        return None
    if type(answer) is not dict:
        return None
    text = _of_response(answer) if "output" in answer else _of_chat(answer)
    return text if text and not text.isspace() else None


def _of_chat(answer: dict[str, object]) -> str | None:
    choices = answer.get("choices")
    if type(choices) is not list or len(choices) != 1 or type(choices[0]) is not dict:
        return None
    message = choices[0].get("message")
    if type(message) is not dict or message.get("tool_calls") or message.get("function_call") or message.get("refusal"):
        return None
    content = message.get("content")
    return content if type(content) is str else None


def _of_response(answer: dict[str, object]) -> str | None:
    output = answer.get("output")
    if type(output) is not list:
        return None
    texts: list[str] = []
    for item in output:
        if type(item) is not dict or item.get("type") not in ("message", "reasoning"):
            return None
        parts = item.get("content")
        if item["type"] == "reasoning":
            continue
        for part in parts if type(parts) is list else ():
            if type(part) is not dict or part.get("type") != "output_text" or type(part.get("text")) is not str:
                return None
            texts.append(part["text"])
    return "".join(texts)
