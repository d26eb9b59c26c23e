"""Whose: my name is not your name. `Your` may be anybody's where a method is asked for."""

from __future__ import annotations

from caches.guards.reading import Reading

_OTHERS = ("his", "her", "their", "our")


def persons(a: Reading, b: Reading) -> str | None:
    if a.bag == b.bag:
        return None
    mine, yours = ("my" in a.bag, "my" in b.bag), ("your" in a.bag, "your" in b.bag)
    if mine[0] != mine[1] and yours[0] != yours[1] and mine[0] == yours[1] and not (a.frame == b.frame == "@how"):
        return "persons"
    for word in _OTHERS:
        if (word in a.bag) != (word in b.bag) and ((mine[0] != mine[1]) or (yours[0] != yours[1])):
            return "persons"
    return None
