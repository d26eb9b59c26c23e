"""Which questions may be compared at all.

A request is split into its last user message and everything else: system prompt, history, response format, sampling, seed,
model, version, endpoint, scope. The rest is one fingerprint, which is a hard filter in the vector store: meaning is compared
only where all of it is equal, byte for byte (in the canonical form of `caches.key`).

Of a long message the first `READ` characters are compared by their meaning. What follows is part of the fingerprint.

No meaning is compared where it would be a trap: tools in play, anything that is no text, several choices, log probabilities,
a temperature above the policy's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from caches.key import exact_key
from caches.scope import Scope
from caches.semantic.types import SemanticPolicy

READ = 800
"""Characters: about 200 tokens of English, and what embedders of sentences read is 256."""

ENDPOINTS = frozenset({"chat", "responses"})
_BARRED = (
    "tools", "functions", "tool_choice", "function_call", "modalities", "audio", "logprobs", "top_logprobs", "logit_bias",
    "prediction", "web_search_options", "mm_processor_kwargs", "prompt_logprobs", "prompt", "continue_final_message",
)  # fmt: skip
_INSTRUCTIONS = frozenset({"system", "developer"})
_NOTHING: Mapping[str, Any] = {}


class Split:
    """A question, and the body that it was taken from. `reason`: why there is none; then nothing else means anything."""

    __slots__ = ("_before", "_body", "_field", "_last", "reason", "text", "whole")

    def __init__(
        self, reason: str, whole: str = "", body: Mapping[str, Any] = _NOTHING, field: str = "", before: Sequence[Any] = (),
        last: Mapping[str, Any] = _NOTHING,
    ) -> None:  # fmt: skip
        self.reason = reason
        self.whole = whole
        self.text = whole[:READ]
        self._body = body
        self._field = field
        self._before = before
        self._last = last

    def rest(self) -> dict[str, Any]:
        """The body with a gap where the question was."""
        gap = {name: value for name, value in self._last.items() if name != "content"}
        return {**self._body, self._field: [*self._before, gap, self.whole[READ:]]}


def split(endpoint: str, body: Mapping[str, Any], policy: SemanticPolicy) -> Split:
    """The last user message, and everything else. A microsecond or two: what is dear is left to `rest`."""
    reason = barred(endpoint, body, policy)
    if reason:
        return Split(reason)
    field = "messages" if endpoint == "chat" else "input"
    found = body.get(field)
    if type(found) is str and endpoint == "responses":
        found = [{"role": "user", "content": found}]
    if type(found) is not list or not found:
        return Split("no message")
    last = found[-1]
    if type(last) is not dict or last.get("role") != "user":
        return Split("last message is not the user's")
    before = found[:-1]
    if not policy.multi_turn and before and not all(map(_is_instruction, before)):
        return Split("several turns")
    text = _text(last.get("content"))
    if not text or text.isspace():
        return Split("not text")
    return Split("", text, body, field, before, last)


def barred(endpoint: str, body: Mapping[str, Any], policy: SemanticPolicy) -> str:
    """Why a request has no part in it, as far as that can be told without its messages. Half a microsecond."""
    if endpoint not in ENDPOINTS:
        return "endpoint"
    for name in _BARRED:
        if body.get(name):
            return name
    choices = body.get("n")
    if choices is not None and choices != 1:
        return "n"
    temperature = body.get("temperature")
    if temperature is not None and not (type(temperature) in (int, float) and temperature <= policy.max_temperature):
        return "temperature"
    return ""


def partition(
    *, secret: bytes, scope: Scope, endpoint: str, models: Sequence[tuple[str, str]], rest: Mapping[str, Any], tier: str | None
) -> str:
    """The fingerprint of everything but the question, in hex."""
    return exact_key(secret=secret, scope=scope, endpoint=f"{endpoint} that means", models=models, body=rest, tier=tier).hex()


def _is_instruction(message: Any) -> bool:
    return type(message) is dict and message.get("role") in _INSTRUCTIONS


def _text(content: Any) -> str:
    """The text of a message; empty where any of it is no text."""
    if type(content) is str:
        return content
    if type(content) is not list:
        return ""
    texts = [
        part.get("text") if type(part) is dict and part.get("type") in ("text", "input_text") and len(part) == 2 else None
        for part in content
    ]
    return "\n".join(texts) if texts and all(type(text) is str for text in texts) else ""  # type: ignore[arg-type]
