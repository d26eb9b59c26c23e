"""Degrees of comparison: better is not best, faster not as fast, and older is the contrary of younger."""

from __future__ import annotations

from functools import lru_cache

from caches.guards.concepts import OPPOSITES, concept
from caches.guards.reading import Reading
from caches.guards.tables import words

_IRREGULAR = {
    "better": ("good", 1), "best": ("good", 2), "worse": ("bad", 1), "worst": ("bad", 2), "more": ("many", 1),
    "most": ("many", 2), "less": ("little", 1), "least": ("little", 2), "fewer": ("few", 1), "fewest": ("few", 2),
    "farther": ("far", 1), "farthest": ("far", 2), "further": ("far", 1), "furthest": ("far", 2), "elder": ("old", 1),
    "eldest": ("old", 2),
}  # fmt: skip
_HARMLESS = frozenset({("good", 0), ("good", 2), ("great", 0)})
"""Good books, the best books: such a list is the same."""
_SHORTEST = 5


def degrees(a: Reading, b: Reading) -> str | None:
    if a.bag == b.bag and a.surface == b.surface:
        return None
    ours, theirs = _degrees(a, b), _degrees(b, a)
    for one in ours:
        for other in theirs:
            if one[0] == other[0] and one[1] != other[1] and not _HARMLESS.issuperset((one, other)):
                return "degrees"
            if one[1] == other[1] > 0 and concept(other[0]) in OPPOSITES.get(concept(one[0]), ()):
                return "degrees"
    return None


def _degrees(one: Reading, other: Reading) -> set[tuple[str, int]]:
    """Adjectives that the other text has not in this form, and their degrees; positive ones too."""
    return {degree(word) for meant, word in one.surface.items() if other.surface.get(meant) != word}


@lru_cache(16_384)
def degree(word: str) -> tuple[str, int]:
    """An adjective and its degree, 0 to 2: `biggest` → `big`, 2."""
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    for ending, rank in (("est", 2), ("er", 1)):
        if word.endswith(ending) and len(word) >= _SHORTEST:
            base = _base(word[: -len(ending)])
            if base:
                return base, rank
    return word, 0


def _base(rest: str) -> str:
    forms = [rest, rest + "e"]
    if rest.endswith("i"):
        forms = [rest[:-1] + "y"]
    elif len(rest) > 3 and rest[-1] == rest[-2]:
        forms = [rest[:-1], rest]
    return next((form for form in forms if form in ADJECTIVES), "")


ADJECTIVES = words(
    """
    big small large tall short long high low fast slow quick hot cold warm cool cheap dear safe strong weak old young new late
    early hard easy soft light heavy thick thin wide narrow deep shallow dark bright clean dirty loud quiet rich poor great good
    bad near far close smart clever kind nice mean tough rough smooth sharp dull dense dry wet full busy happy sad healthy funny
    pretty ugly tasty sweet spicy simple clear fresh stale rare common odd strange brave calm wise lazy crazy tiny huge fine
    fat skinny lean steep flat tight loose firm gentle harsh mild wild
    """
)
"""Only these have degrees here: a `corner` is no more `corn`."""
