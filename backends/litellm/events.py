"""What the library gave back, as OpenAI's bytes.

Rules: nulls are left out, as the library fills its objects with them, but for the `finish_reason` that every chunk of a
stream has; the usage comes in a chunk of its own whose `choices` are empty; `[DONE]` is said only after a reason to
finish, so that a stream which merely ended is seen to be broken.
"""

from __future__ import annotations

from typing import Any

import msgspec

Json = dict[str, Any]
DONE = b"data: [DONE]\n\n"


def whole(answer: Json) -> bytes:
    """An answer in one piece."""
    return msgspec.json.encode(answer)


class Events:
    """Writes the chunks of one stream."""

    __slots__ = ("counted", "finished", "said")

    def __init__(self) -> None:
        self.finished = False
        self.said = False  # something was generated
        self.counted = False  # the usage has come

    def write(self, chunk: Json) -> bytes:
        """One event; two for a chunk that both says something and counts."""
        usage = chunk.pop("usage", None)
        choices = [choice for choice in chunk.get("choices") or () if isinstance(choice, dict)]
        if usage is None:
            return self._event(chunk, choices)
        self.counted = True
        counted = b"data: %b\n\n" % msgspec.json.encode({**chunk, "choices": [], "usage": usage})
        return self._event(chunk, choices) + counted if any(map(_says, choices)) else counted

    def _event(self, chunk: Json, choices: list[Json]) -> bytes:
        for choice in choices:
            self.finished = self.finished or choice.setdefault("finish_reason", None) is not None
            self.said = self.said or _generated(choice)
        return b"data: %b\n\n" % msgspec.json.encode({**chunk, "choices": choices})


def _generated(choice: Json) -> bool:
    delta = choice.get("delta")
    spoken = isinstance(delta, dict) and any(value for name, value in delta.items() if name != "role")
    return spoken or bool(choice.get("text") or choice.get("logprobs"))


def _says(choice: Json) -> bool:
    return bool(choice.get("finish_reason") or choice.get("text") or choice.get("delta") or choice.get("logprobs"))
