"""Words that turn a question round: enable and disable, before and after, safe and unsafe."""

from __future__ import annotations

from caches.guards.concepts import OPPOSITES, concept
from caches.guards.reading import Reading
from caches.guards.tables.opposites import CHINESE, PREFIXES


def antonyms(a: Reading, b: Reading) -> str | None:
    apart = abs(a.negations - b.negations)
    return "antonyms" if contraries(a, b) > apart else None


def contraries(a: Reading, b: Reading) -> int:
    """How many words of one have their contrary in the other."""
    ours, theirs = a.bag - b.bag, b.bag - a.bag
    found = min(_opposed(ours, theirs), _opposed(theirs, ours))
    if ours or theirs:
        found += _turned(ours, a, b) + _turned(theirs, b, a)
    if a.han and b.han and a.han != b.han:
        found += sum(_apart(one, other, a.han, b.han) for one, other in CHINESE)
    return found


def _opposed(words: frozenset[str], others: frozenset[str]) -> int:
    return sum(1 for word in words if not others.isdisjoint(OPPOSITES.get(word, ())))


def _turned(words: frozenset[str], one: Reading, other: Reading) -> int:
    """Words that are one of the other text behind a prefix: unlock, non-member, inactive."""
    return sum(1 for word in words if word in one.surface and _bare(one.surface[word], other.bag))


def _bare(word: str, bag: frozenset[str]) -> bool:
    return word.startswith(PREFIXES) and any(
        word.startswith(prefix) and len(word) > len(prefix) + 2 and concept(word[len(prefix) :]) in bag for prefix in PREFIXES
    )


def _apart(one: str, other: str, ours: str, theirs: str) -> bool:
    return (one in ours and one not in theirs and other in theirs and other not in ours) or (
        other in ours and other not in theirs and one in theirs and one not in ours
    )
