"""Pairs that turn a question round, and sets of which a question names one."""

from __future__ import annotations

from caches.guards.tables import lines


def _others(name: str) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for group in map(str.split, lines(name)):
        for word in group:
            found.setdefault(word, set()).update(other for other in group if other != word)
    return {word: frozenset(others) for word, others in found.items()}


OPPOSITES = _others("opposites.txt")
"""Word → the words that mean its contrary."""

RIVALS = _others("rivals.txt")
"""Word → others of its kind: a question about one is none about the other."""

CHINESE = tuple((one, other) for one, other in map(str.split, lines("chinese_opposites.txt")))

PREFIXES = ("un", "in", "im", "ir", "il", "dis", "non", "de", "mis", "anti", "hyper", "hypo")
"""Before a word, they make another of it, mostly its contrary."""
