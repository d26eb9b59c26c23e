"""Words that narrow what is asked: only, first, least, except."""

from __future__ import annotations

from caches.guards.concepts import as_read
from caches.guards.reading import Reading
from caches.guards.tables.scope import STRONG

_STRONG = frozenset(map(as_read, STRONG))


def scope(a: Reading, b: Reading) -> str | None:
    return "scope" if not _STRONG.isdisjoint(a.bag ^ b.bag) else None
