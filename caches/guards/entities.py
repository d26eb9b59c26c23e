"""Names: of people, places, products, languages, tools. One that the other text lacks makes another question."""

from __future__ import annotations

from caches.guards.concepts import concept
from caches.guards.reading import Reading
from caches.guards.spell import mistyped
from caches.guards.stem import root
from caches.guards.tables.names import TONGUES, TOOLS

_MOST = 32  # names that are looked for one by one
_KINDS = {concept(word): kind for kind, words in (("tools", TOOLS), ("language", TONGUES)) for word in words}


def entities(a: Reading, b: Reading) -> str | None:
    """`tools` or `language` where it is a known one, `entities` otherwise."""
    if a.names == b.names:
        return None
    if max(len(a.names), len(b.names)) > _MOST:
        return "entities"
    missing = _missing(a, b) or _missing(b, a)
    return _KINDS.get(missing, "entities") if missing else None


def _missing(one: Reading, other: Reading) -> str:
    """A name that the other text has in no form, the first by the alphabet; empty: none."""
    return min((name for name in one.names if name not in other.bag and not _meant(name, one, other)), default="")


def _meant(name: str, one: Reading, other: Reading) -> bool:
    word = one.surface.get(name, name)
    return _spelt_out(word, other) or any(
        root(meant) == root(name) or mistyped(word, theirs) for meant, theirs in other.surface.items() if meant[0] == name[0]
    )


def _spelt_out(word: str, other: Reading) -> bool:
    """The first letters of words in the other text, one after the other: an abbreviation."""
    return 2 <= len(word) <= 5 and word in "".join(theirs[0] for theirs in other.content)
