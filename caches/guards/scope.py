"""Words that narrow what is asked: only, first, least, except; great and step before kin; out, off, up behind a verb."""

from __future__ import annotations

from caches.guards.concepts import as_read
from caches.guards.reading import Reading
from caches.guards.tables.scope import BEFORE_KIN, KIN, PARTICLES, STRONG

_STRONG = frozenset(map(as_read, STRONG))
_KIN = frozenset(map(as_read, KIN))
_BEFORE_KIN = frozenset(map(as_read, BEFORE_KIN))


def scope(a: Reading, b: Reading) -> str | None:
    apart = a.bag ^ b.bag
    if not _STRONG.isdisjoint(apart):
        return "scope"
    if not _BEFORE_KIN.isdisjoint(apart) and not _KIN.isdisjoint(a.bag & b.bag):
        return "scope"
    return "scope" if a.content == b.content and not PARTICLES.isdisjoint(apart) else None
