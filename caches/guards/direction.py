"""Who does what to whom: from A to B, A faster than B. Two words that change their parts make another question."""

from __future__ import annotations

from caches.guards.reading import Reading

_SYMMETRIC = frozenset({"versus", "vs"})


def direction(a: Reading, b: Reading) -> str | None:
    if not a.roles or sorted(a.roles.values()) != sorted(b.roles.values()):
        return None  # `a primary school place` and `a place at a primary school`: words moved, and a preposition came with them
    moved = [
        (a.roles.get(word, ""), b.roles.get(word, ""))
        for word in a.roles.keys() | b.roles.keys()
        if word in a.surface and word in b.surface and a.roles.get(word) != b.roles.get(word)
    ]
    parts = set(moved)
    return "direction" if any((after, before) in parts for before, after in parts if {before, after}.isdisjoint(_SYMMETRIC)) else None
