"""Who, and whose: my name is not your name, and whether I call you is not whether you call me.

`You` is anybody where a method is asked for: how do I, how do you.
"""

from __future__ import annotations

from caches.guards.reading import Reading

_WHOSE = frozenset({"my", "your", "his", "her", "their", "our"})
_OTHERS = ("his", "her", "their", "our")


def persons(a: Reading, b: Reading) -> str | None:
    if a.genders != b.genders and a.genders and b.genders and {*a.genders} | {*b.genders} == {"m", "f"}:
        return "persons"
    if a.bag == b.bag and a.subject == b.subject:
        return None
    if a.subject != b.subject and a.subject and b.subject and (not a.frame == b.frame == "@how" or _turned(a, b)):
        return "persons"
    mine, yours = ("my" in a.bag, "my" in b.bag), ("your" in a.bag, "your" in b.bag)
    if mine[0] != mine[1] and yours[0] != yours[1] and mine[0] == yours[1] and not (a.frame == b.frame == "@how"):
        return "persons"
    ours, theirs = (a.bag - b.bag) & _WHOSE, (b.bag - a.bag) & _WHOSE
    if ours and theirs and ours | theirs != {"my", "your"}:
        return "persons"
    for word in _OTHERS:
        if (word in a.bag) != (word in b.bag) and ((mine[0] != mine[1]) or (yours[0] != yours[1])):
            return "persons"
    return None


def _turned(a: Reading, b: Reading) -> bool:
    return ("me" in a.bag) != ("me" in b.bag)
