"""All guards, one after the other."""

from __future__ import annotations

from caches.guards.reading import Reading

_NEGATORS = frozenset("not no don't doesn't never without isn't aren't can't won't shouldn't 不 没 无".split())


def veto(a: Reading, b: Reading) -> str | None:
    """The name of the guard that forbids one answer for both; None: no guard does."""
    if sorted(word for word in a.words if word[0].isdigit()) != sorted(word for word in b.words if word[0].isdigit()):
        return "numbers"
    if (sum(word in _NEGATORS for word in a.words) - sum(word in _NEGATORS for word in b.words)) % 2:
        return "negation"
    return None
