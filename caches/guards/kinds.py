"""Things of one kind: a question about Monday, chicken or the landlord is none about Friday, beef or the tenant."""

from __future__ import annotations

from caches.guards.concepts import RIVALS
from caches.guards.reading import Reading


def kinds(a: Reading, b: Reading) -> str | None:
    theirs = b.bag - a.bag
    if not theirs:
        return None
    return "kinds" if any(not theirs.isdisjoint(RIVALS.get(word, ())) for word in a.bag - b.bag) else None
