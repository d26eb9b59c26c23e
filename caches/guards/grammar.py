"""Small words that carry the difference where all others are the same: in and out of a building, if and unless, him and her.

Articles, auxiliaries, `you` and `I` may come and go: `tense`, `persons` and `direction` read them.
"""

from __future__ import annotations

from caches.guards.reading import Reading
from caches.guards.tables import words

_TELLING = words(
    """
    from by into onto upon during over under down out off per or but although though because while since until till either before
    after
    """
)
_GROUPS = """
    into in to within onto on at upon / by via through with on in / per a an in / until till / because since as if /
    although though but / while when during as in / over on in about than / from of in on at with through / by of for with from
    """
_ALIKE = tuple(map(words, _GROUPS.split("/")))
"""What may stand for each other."""
_BE = words("is are was were be been being")
_MATES = {word: frozenset().union(*(group for group in _ALIKE if word in group)) for word in _TELLING}


def grammar(a: Reading, b: Reading) -> str | None:
    if a.content != b.content or a.bag == b.bag:
        return None
    ours, theirs = a.bag - b.bag, b.bag - a.bag
    passive = _BE.isdisjoint(a.bag) != _BE.isdisjoint(b.bag)
    return "grammar" if _unmatched(ours, theirs, passive=passive) or _unmatched(theirs, ours, passive=passive) else None


def _unmatched(ours: frozenset[str], theirs: frozenset[str], *, passive: bool) -> bool:
    return any(
        not (passive and word == "by") and (_MATES[word].isdisjoint(theirs) if word != "or" else "and" in theirs)
        for word in ours & _TELLING
    )
