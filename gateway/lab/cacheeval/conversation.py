"""The last user message of a conversation, and a fingerprint of everything else in it.

The cache compares last messages by meaning only where all the rest is the same, byte for byte: what "cancel it" means is
in the messages before it.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import msgspec

from gateway.lab.cacheeval.pairs import BadData

MAX_MESSAGES = 1000
_canonical = msgspec.json.Encoder(order="sorted").encode


def split(messages: list[Any]) -> tuple[str, bytes]:
    """The text of the last user message, and the fingerprint of the others in their places. Raises BadData."""
    if not 0 < len(messages) <= MAX_MESSAGES:
        raise BadData(f"a conversation has 1 to {MAX_MESSAGES} messages")
    if not all(isinstance(message, dict) for message in messages):
        raise BadData("a message is an object")
    last = max((place for place, message in enumerate(messages) if message.get("role") == "user"), default=None)
    if last is None:
        raise BadData("a conversation without a user message")
    text = _text(messages[last].get("content"))
    rest = {**messages[last], "content": None}
    return text, _fingerprint([*messages[:last], rest, *messages[last + 1 :]])


def _text(content: Any) -> str:
    if isinstance(content, list) and all(isinstance(part, dict) and isinstance(part.get("text"), str) for part in content):
        content = "\n".join(part["text"] for part in content)
    if not isinstance(content, str) or not content.strip():
        raise BadData("the last user message has no text")
    return content


def _fingerprint(messages: list[Any]) -> bytes:
    return blake2b(_canonical(messages), digest_size=16).digest()
