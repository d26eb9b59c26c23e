"""Letters that an embedder without capitals and accents takes for the same: `ls -a` and `ls -A`, é and è."""

from __future__ import annotations

import re
import unicodedata

from caches.guards.reading import MAX_CHARS, Reading

_ALONE = re.compile(r"(?<![\w-])--?[A-Za-z]\b|\\[A-Za-z]|(?<!\d )(?<![\w'’-])[B-HJ-Zb-hj-z](?![\w'’])")
"""Options of a command, classes of a regular expression, and letters alone, but for the words `a` and `I`."""


def letters(a: Reading, b: Reading) -> str | None:
    one, other = a.text[:MAX_CHARS], b.text[:MAX_CHARS]
    if sorted(_ALONE.findall(one)) != sorted(_ALONE.findall(other)):
        return "letters"
    if one.isascii() and other.isascii():
        return None
    bare, plain = _bare(one), _bare(other)
    return "letters" if bare == plain and _folded(one) != _folded(other) else None


def _folded(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def _bare(text: str) -> str:
    """Without accents."""
    return "".join(mark for mark in unicodedata.normalize("NFKD", _folded(text)) if not unicodedata.combining(mark))
