"""Who does what to whom: from A to B, A faster than B, A beats B. Words that change their parts make another question."""

from __future__ import annotations

from caches.guards.reading import Reading

_MOST = 10  # words whose order is looked at
_SYMMETRIC = frozenset({"and", "or", "between", "vs", "versus", "with"})
_EXCLUSIVE = "to/from by/about by/to before/after over/under for/against since/until about/in about/for about/with"
_CONFLICTS = frozenset(frozenset(pair.split("/")) for pair in _EXCLUSIVE.split())


def direction(a: Reading, b: Reading) -> str | None:
    if a.content == b.content and a.roles == b.roles:
        return None
    return "direction" if _conflict(a, b) or _swapped(a, b) or _reversed(a, b) or _reversed(b, a) else None


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
    if len(order) < len(a.content) - 1 or ("by" in a.bag) != ("by" in b.bag):
        return False
    for at in range(len(order) - 2):
        (first, one), (second, _), (third, other) = order[at : at + 3]
        if first > second > third and not (_fixed(one, a, b) or _fixed(other, a, b)):
            return True
    return False


def _fixed(word: str, a: Reading, b: Reading) -> bool:
    """Its preposition came along: it may stand anywhere."""
    return word in a.roles and a.roles[word] == b.roles.get(word)
