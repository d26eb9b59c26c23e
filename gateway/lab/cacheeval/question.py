"""A question as the gateway takes it from a request: its text, and everything else, by the product's own rule.

The cache compares last messages by meaning only where all the rest is the same: what "cancel it" means is in the messages
before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from caches.key import canonical
from caches.semantic.partition import split
from caches.semantic.types import SemanticPolicy
from gateway.lab.cacheeval.pairs import BadData

MAX_MESSAGES = 1000
_POLICY = SemanticPolicy(preset="strict", max_error=None, ttl=1.0, max_temperature=2.0, multi_turn=True, skip_personal=False)


@dataclass(frozen=True, slots=True)
class Question:
    text: str  # as much as is compared by its meaning
    rest: bytes  # the fingerprint of the rest, in full
    barred: str  # why it has no part in the cache; empty: it has


def question(said: str | list[Any]) -> Question:
    """Of a text, or of a conversation. Raises BadData."""
    messages = [{"role": "user", "content": said}] if isinstance(said, str) else said
    if not 0 < len(messages) <= MAX_MESSAGES:
        raise BadData(f"a conversation has 1 to {MAX_MESSAGES} messages")
    if not all(isinstance(message, dict) for message in messages):
        raise BadData("a message is an object")
    found = split("chat", {"messages": messages}, _POLICY)
    if found.reason:
        return Question(found.text, b"", found.reason)
    return Question(found.text, canonical(found.rest(), "chat"), "")


def apart(a: Question, b: Question) -> str:
    """Why the two may not be compared; empty: they may."""
    return a.barred or b.barred or ("history" if a.rest != b.rest else "")
