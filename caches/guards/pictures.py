"""Pictures among the letters, such as emoji: embedders of text do not see them, so both questions must have the same ones."""

from __future__ import annotations

import re

from caches.guards.reading import MAX_CHARS, Reading

_PICTURE = re.compile("[\u2190-\u2bff\U0001f000-\U0001faff]")


def pictures(a: Reading, b: Reading) -> str | None:
    return None if _of(a) == _of(b) else "pictures"


def _of(reading: Reading) -> list[str]:
    text = reading.text
    return [] if text.isascii() else sorted(_PICTURE.findall(text[:MAX_CHARS]))
