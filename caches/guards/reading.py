"""A question as the guards see it: read once, compared often."""

from __future__ import annotations

import re
from dataclasses import dataclass

MAX_CHARS = 4000
"""What is read of a text. What lies behind it must be equal, letter for letter."""

_WORD = re.compile(r"\w+(?:['’]\w+)?")


@dataclass(frozen=True, slots=True)
class Reading:
    text: str
    words: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> Reading:
        return cls(text, tuple(_WORD.findall(text[:MAX_CHARS].lower())))
