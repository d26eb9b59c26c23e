"""One or several, where it matters: who is the senator, who are the senators; name a mammal, name mammals; glass, glasses."""

from __future__ import annotations

from caches.guards.reading import Reading
from caches.guards.tables import words
from caches.guards.tables.scope import ASKED_FOR

_SUPERLATIVES = frozenset({"best", "most", "favorite"})
"""Who is the best, who are the best: much the same."""
_SEVERAL = frozenset({"are", "were"})
_BE = frozenset({"is", "was"}) | _SEVERAL
_MASSES = words("people children men women feet teeth mice data indices vertices matrices criteria phenomena")
_OTHER_THINGS = words(
    """
    glass arm custom look good spectacle scale draft pant short trunk content wood water manner brain gut ash minute damage
    """
)
"""Nouns whose plural is another thing."""
_REQUESTS = ASKED_FOR | {"name", "return", "find", "select", "suggest", "recommend", "pick", "choose", "print"}


def plurals(a: Reading, b: Reading) -> str | None:
    changed = [
        (word, other)
        for meant, word in a.surface.items()
        if (other := b.surface.get(meant, word)) != word and several(word) != several(other)
    ]
    if a.frame == b.frame == "@who" and {a.auxiliary, b.auxiliary} <= _BE and _SUPERLATIVES.isdisjoint(a.bag & b.bag):
        return "plurals" if (a.auxiliary in _SEVERAL) != (b.auxiliary in _SEVERAL) else None
    if not changed:
        return None
    if any(min(pair, key=len) in _OTHER_THINGS or min(pair, key=len).removesuffix("s") in _OTHER_THINGS for pair in changed):
        return "plurals"
    if not _SUPERLATIVES.isdisjoint(a.bag & b.bag):
        return None
    if not a.content or not b.content:
        return None
    heads = (a.surface.get(a.content[0], ""), b.surface.get(b.content[0], ""))
    if {a.frame, b.frame} <= {"@which"}:
        return "plurals" if heads in changed else None
    return "plurals" if a.frame == b.frame == "" and heads[0] == heads[1] and heads[0] in _REQUESTS else None


def several(word: str) -> bool:
    return word in _MASSES or (word.endswith("s") and not word.endswith(("ss", "us", "is")))
