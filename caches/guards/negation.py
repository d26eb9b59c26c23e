"""No against yes. A negation and a contrary cancel each other: `not safe` is `unsafe`, `not included` is `excluded`."""

from __future__ import annotations

from caches.guards.antonyms import contraries
from caches.guards.reading import Reading


def negation(a: Reading, b: Reading) -> str | None:
    apart = abs(a.negations - b.negations)
    return "negation" if apart and contraries(a, b) != apart else None
