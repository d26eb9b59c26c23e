"""Who does what to whom: from A to B, A faster than B, A beats B. Words that change their parts make another question."""

from __future__ import annotations

from itertools import pairwise

from caches.guards.concepts import LIGHT, concept
from caches.guards.degrees import degree
from caches.guards.order import turned_han
from caches.guards.reading import Reading

_MOST = 10  # words whose order is looked at
_SYMMETRIC = frozenset({"and", "or", "between", "vs", "versus", "with"})
_EXCLUSIVE = """
    to/from by/about by/to before/after over/under for/against for/from on/under in/under since/until about/in about/for
    about/with with/without via/to after/with at/with into/from within/after for/by against/with against/on
    through/under
    """
_SUPERLATIVE = 2
_ORDERED = frozenset({"then", "first", "last"})
_DO = frozenset({"do", "does", "did"})
_COMMUTES = _SYMMETRIC | frozenset(map(concept, ("multiply", "times", "plus", "sum", "product", "add", "both")))
_COMMUTING = frozenset("+*")
_CLAUSE = 4  # words of matter: subject, verb, object, and one more
_ABOUT_DEEDS = frozenset({"@who", "@what", "@whether", "@howmany"})
_BE = frozenset({"is", "are", "was", "were", "be", "been", "being", "am"})
_CONFLICTS = frozenset(frozenset(pair.split("/")) for pair in _EXCLUSIVE.split())


def direction(a: Reading, b: Reading) -> str | None:
    if a.content == b.content and a.roles == b.roles and a.quantities == b.quantities and a.han == b.han:
        return None
    return "direction" if any(test(a, b) or test(b, a) for test in _TESTS) else None


def _conflict(a: Reading, b: Reading) -> bool:
    """The same word behind prepositions that exclude each other: to Paris, from Paris."""
    return any(
        role != b.roles[word] and frozenset((role, b.roles[word])) in _CONFLICTS
        for word, role in a.roles.items()
        if word in b.roles
    )


def _swapped(a: Reading, b: Reading) -> bool:
    """Two words, each in the other's place: JSON to XML, XML to JSON."""
    long = max(len(a.content), len(b.content)) > _MOST and not (a.frame and b.frame)
    if not a.roles or long or sorted(a.roles.values()) != sorted(b.roles.values()):
        return False  # `a primary school place` and `a place at a primary school`: words moved, and a preposition came with them
    parts = {
        (a.roles.get(word, ""), b.roles.get(word, ""))
        for word in a.roles.keys() | b.roles.keys()
        if word in a.surface and word in b.surface and a.roles.get(word) != b.roles.get(word)
    }
    return any((after, before) in parts for before, after in parts if {before, after}.isdisjoint(_SYMMETRIC))


def _reversed(a: Reading, b: Reading) -> bool:
    """Two words that stand in the other order, around a third that stays between them: dog bites man, man bites dog."""
    if not a.frame or not b.frame:
        return False  # a statement: the passive voice turns it round as well
    if not 3 <= len(a.content) <= _MOST or abs(len(a.content) - len(b.content)) > 1 or not _SYMMETRIC.isdisjoint(a.bag & b.bag):
        return False
    places = {word: at for at, word in enumerate(b.content)}
    order = [(places[word], word) for word in a.content if word in places]
    if len(order) < len(a.content) - 1 or _voices(a, b):
        return False
    for at in range(len(order) - 2):
        (first, one), (second, _), (third, other) = order[at : at + 3]
        if first > second > third and not (_fixed(one, a, b) or _fixed(other, a, b)):
            return True
    return False


def _renamed(a: Reading, b: Reading) -> bool:
    """Two names in the other order: India attacks Pakistan, Pakistan attacks India. A name may move with its preposition."""
    if len(a.names) < 2 or len(b.names) < 2 or not _SYMMETRIC.isdisjoint(a.bag & b.bag) or _voices(a, b):
        return False
    ours = [word for word in dict.fromkeys(a.content) if word in a.names and word in b.names]
    theirs = {word: at for at, word in enumerate(dict.fromkeys(b.content))}
    moved = [pair for pair in pairwise(ours) if theirs.get(pair[0], 0) > theirs.get(pair[1], 0)]
    return any(not (_fixed(_head(one, a), a, b) or _fixed(_head(other, a), a, b)) for one, other in moved)


def _voices(a: Reading, b: Reading) -> bool:
    """The one may be in the passive voice and the other not."""
    return ("by" in a.bag) != ("by" in b.bag)


def _head(name: str, reading: Reading) -> str:
    """The first word of a name of several."""
    at = reading.content.index(name)
    while at and reading.content[at - 1] in reading.names:
        at -= 1
    return reading.content[at]


def _fixed(word: str, a: Reading, b: Reading) -> bool:
    """Its preposition came along: it may stand anywhere."""
    return word in a.roles and a.roles[word] == b.roles.get(word)


def _crossed(a: Reading, b: Reading) -> bool:
    """The same few words in the other order, without any preposition: I sue the boss, the boss sues me."""
    ours, theirs = a.content, b.content
    if ours == theirs or a.roles or b.roles or not {a.frame, b.frame} <= _ABOUT_DEEDS or _passive(a, b):
        return False
    if not 2 <= len(ours) <= _CLAUSE or sorted(ours) != sorted(theirs) or not _SYMMETRIC.isdisjoint(a.bag & b.bag):
        return False
    places = {word: at for at, word in enumerate(theirs)}
    return any(places[after] < places[before] and LIGHT.isdisjoint((before, after)) for before, after in pairwise(ours))


def _transposed(a: Reading, b: Reading) -> bool:
    """The very same words, but two have changed places."""
    if a.bag != b.bag or len(a.content) != len(b.content) or not _SYMMETRIC.isdisjoint(a.bag):
        return False
    if a.frame == b.frame == "@how" and len(a.content) == 2:
        return False  # a verb and its object: my password, how do I reset it
    apart = [pair for pair in zip(a.content, b.content, strict=True) if pair[0] != pair[1]]
    moved = len(apart) == 2 and apart[0] == apart[1][::-1] and LIGHT.isdisjoint(apart[0])
    return moved and not any(_fixed(word, a, b) or degree(word)[1] == _SUPERLATIVE for word in apart[0])


def _sequence(a: Reading, b: Reading) -> bool:
    """First this, then that."""
    if a.content == b.content or sorted(a.content) != sorted(b.content) or len(a.content) > _MOST:
        return False
    return not _ORDERED.isdisjoint(a.bag & b.bag) and len(set(a.content)) == len(a.content)


def _passive(a: Reading, b: Reading) -> bool:
    """The one may be in the passive voice and the other not: how is chess played, how do I play chess."""
    return _BE.isdisjoint(a.bag) != _BE.isdisjoint(b.bag) or _voices(a, b)


def _exchanged(a: Reading, b: Reading) -> bool:
    """Two numbers in each other's place: divide 8 by 2, divide 2 by 8. A number may move with its preposition."""
    ours, theirs = [quantity[:2] for quantity in a.quantities], [quantity[:2] for quantity in b.quantities]
    if not 2 <= len(ours) == len(theirs) <= _MOST or ours == theirs or not _COMMUTES.isdisjoint(a.bag & b.bag):
        return False
    if not _COMMUTING.isdisjoint(a.signs) or sorted(ours) != sorted(theirs):
        return False
    placed, moved = list(zip(a.places, ours, strict=True)), list(zip(b.places, theirs, strict=True))
    return sorted(placed) != sorted(moved) or [it for it in placed if not it[0]] != [it for it in moved if not it[0]]


def _whom(a: Reading, b: Reading) -> bool:
    """Who did X see asks for the other end of who saw X."""
    return a.frame == b.frame == "@who" and a.auxiliary in _DO and not b.auxiliary and len(a.content) == len(b.content)


_TESTS = (_conflict, _swapped, _reversed, _renamed, _crossed, _exchanged, _transposed, _sequence, _whom, turned_han)
