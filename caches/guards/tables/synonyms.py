"""Words that may stand for each other: always (`same.txt`), or in most questions (`near.txt`)."""

from __future__ import annotations

from caches.guards.tables import lines


def _heads() -> dict[str, str]:
    found: dict[str, str] = {}
    for head, *others in map(str.split, lines("same.txt")):
        for word in others:
            found.setdefault(word, head)
    return found


def _groups() -> dict[str, frozenset[int]]:
    found: dict[str, set[int]] = {}
    for number, group in enumerate(map(str.split, lines("near.txt"))):
        for word in group:
            found.setdefault(word, set()).add(number)
    return {word: frozenset(groups) for word, groups in found.items()}


SAME = _heads()
"""Word → the word that names its group."""

NEAR = _groups()
"""Word → the groups in which it has near relations."""
