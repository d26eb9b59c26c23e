"""Is one word the other, mistyped?

One slip of the fingers, and exactly one of the two a word that is known: two known words are two words (`lock`, `look`), and
of two unknown ones nobody can tell (`prednisone`, `prednisolone`).
"""

from __future__ import annotations

from functools import cache

from caches.guards.tables import lines

_SHORTEST = 4


@cache
def vocabulary() -> frozenset[str]:
    return frozenset(lines("words.txt"))


def mistyped(one: str, other: str) -> bool:
    if min(len(one), len(other)) < _SHORTEST - 1 or max(len(one), len(other)) < _SHORTEST or abs(len(one) - len(other)) > 1:
        return False
    return one_slip(one, other) and _known(one) != _known(other)


def _known(word: str) -> bool:
    words = vocabulary()
    return word in words or (word.endswith("s") and word[:-1] in words)


def one_slip(one: str, other: str) -> bool:
    """At most one letter more, less or other, or two neighbours swapped."""
    if len(one) > len(other):
        one, other = other, one
    start = 0
    while start < len(one) and one[start] == other[start]:
        start += 1
    if len(one) < len(other):
        return one[start:] == other[start + 1 :]
    if one[start + 1 :] == other[start + 1 :]:
        return True
    return one[start : start + 2] == other[start : start + 2][::-1] and one[start + 2 :] == other[start + 2 :]
