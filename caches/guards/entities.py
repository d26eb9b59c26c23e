"""Names: of people, places, products, languages, tools. One that the other text lacks is another question."""

from __future__ import annotations

from caches.guards.reading import Reading
from caches.guards.spell import mistyped
from caches.guards.stem import root


def entities(a: Reading, b: Reading) -> str | None:
    if a.names == b.names:
        return None
    return "entities" if _unknown(a, b) or _unknown(b, a) else None


def _unknown(one: Reading, other: Reading) -> bool:
    return any(name not in other.bag and not _meant(name, one, other) for name in one.names)


def _meant(name: str, one: Reading, other: Reading) -> bool:
    word = one.surface.get(name, name)
    return any(
        mistyped(word, theirs) or root(meant) == root(name) or meant == word
        for meant, theirs in other.surface.items()
        if meant[0] == name[0]
    ) or _spelt_out(word, other)


def _spelt_out(word: str, other: Reading) -> bool:
    """The first letters of words in the other text, one after the other: an abbreviation."""
    if not 2 <= len(word) <= 5:
        return False
    return word in "".join(theirs[0] for theirs in other.content)
