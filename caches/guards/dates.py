"""Days, months, seasons, times of day and the words that are relative to now."""

from __future__ import annotations

from caches.guards.reading import Reading

_UNSAID = frozenset({"oclock"})


def dates(a: Reading, b: Reading) -> str | None:
    return "dates" if (a.dates ^ b.dates) - _UNSAID else None
