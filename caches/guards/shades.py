"""How many, how often, how surely, on what condition: all is not most, likely not certain, `if` not `even if`."""

from __future__ import annotations

from caches.guards.reading import Reading
from caches.guards.tables.shades import UNSAID


def shades(a: Reading, b: Reading) -> str | None:
    if a.shades == b.shades:
        return None
    ours, theirs = a.shades - b.shades, b.shades - a.shades
    axes = {axis for axis, _ in theirs}
    if any(axis in axes for axis, _ in ours):
        return "shades"
    return "shades" if ours - UNSAID or theirs - UNSAID else None
