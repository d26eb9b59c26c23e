"""What the answer shall look like: as a table, in one sentence, formal."""

from __future__ import annotations

from caches.guards.reading import Reading


def forms(a: Reading, b: Reading) -> str | None:
    return "format" if a.forms != b.forms else None
