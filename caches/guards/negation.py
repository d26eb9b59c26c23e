"""No against yes. Negations cancel a contrary: `not safe` is `unsafe`, and `not included` is `excluded`."""

from __future__ import annotations

from caches.guards.antonyms import contraries
from caches.guards.concepts import as_read
from caches.guards.reading import Reading
from caches.guards.tables.negators import IMPLICIT

_IMPLICIT = frozenset(map(as_read, IMPLICIT))


def negation(a: Reading, b: Reading) -> str | None:
    apart = abs(_noes(a, b) - _noes(b, a))
    return "negation" if apart and contraries(a, b) != apart else None


def _noes(one: Reading, other: Reading) -> int:
    """Negations, and words that imply one, unless the other text has the same word."""
    return one.negations + len(one.bag & _IMPLICIT - other.bag)
