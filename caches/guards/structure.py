"""What is left when two questions are laid over each other.

Words that are the same, inflected, synonymous or mistyped match, in whatever order. What remains on either side is what the
one question says and the other does not.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise

from caches.guards.concepts import LIGHT, NEAR
from caches.guards.reading import Reading
from caches.guards.spell import mistyped
from caches.guards.stem import root

_LIGHT = 0.3
_NEAR, _ROOT, _SLIP = 0.4, 0.25, 0.1  # what an imperfect match leaves open
_MOST = 24  # words on a side that are compared one by one


@dataclass(frozen=True, slots=True)
class Alignment:
    shared: float  # weight of what both say
    left: float  # weight of what only the first says
    right: float
    loose: float  # what imperfect matches leave open
    turned: bool  # the shared words stand in another order, beyond a part that moved as a whole

    @property
    def open(self) -> float:
        """The share of the matter that is not shared, 0 to 1."""
        unshared = self.left + self.right + self.loose
        return unshared / (unshared + 2 * self.shared) if unshared else 0.0


def align(a: Reading, b: Reading) -> Alignment:
    rest = Counter(b.content)
    lonely: list[str] = []
    shared = float(min(len(a.quantities), len(b.quantities)) + len(a.dates & b.dates))
    for word in a.content:
        if rest.get(word, 0):
            rest[word] -= 1
            shared += _weight(word)
        else:
            lonely.append(word)
    others = list(rest.elements())
    loose = 0.0
    if 0 < len(lonely) <= _MOST and 0 < len(others) <= _MOST:
        alike, loose = _likened(lonely, others, a, b)
        shared += alike
    return Alignment(shared, sum(map(_weight, lonely)), sum(map(_weight, others)), loose, _turned(a.content, b.content))


def _weight(word: str) -> float:
    return _LIGHT if word in LIGHT else 1.0


def _likened(lonely: list[str], others: list[str], a: Reading, b: Reading) -> tuple[float, float]:
    """Match what is alike but not the same, and take it off both lists."""
    shared = loose = 0.0
    for word in tuple(lonely):
        gap, other = min(((_gap(word, theirs, a, b), theirs) for theirs in others), default=(1.0, ""))
        if gap < 1.0:
            lonely.remove(word)
            others.remove(other)
            weight = max(_weight(word), _weight(other))
            shared += weight
            loose += gap * weight
    return shared, loose


def _gap(word: str, other: str, a: Reading, b: Reading) -> float:
    """What a match of the two leaves open; 1: they do not match."""
    groups = NEAR.get(word)
    if groups is not None and not groups.isdisjoint(NEAR.get(other, ())):
        return _NEAR
    if word[0] != other[0] and word[1:2] != other[1:2]:
        return 1.0
    if root(word) == root(other):
        return _ROOT
    return _SLIP if mistyped(a.surface.get(word, word), b.surface.get(other, other)) else 1.0


def _turned(ours: tuple[str, ...], theirs: tuple[str, ...]) -> bool:
    """More than one part of the text moved (`at the hotel, is there …`), or two words that are no neighbours changed places."""
    if ours == theirs:
        return False
    order = {word: at for at, word in enumerate(theirs)}
    places = [order[word] for word in ours if word in order]
    falls = [at for at, (before, after) in enumerate(pairwise(places)) if after < before]
    if not falls or (len(falls) == 1 and places[-1] < places[0]):
        return False
    return len(falls) > 1 or places[falls[0]] - places[falls[0] + 1] > 1
