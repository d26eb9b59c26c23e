"""Units that are named without a number: `in grams` is not `in ounces`, USD is not EUR."""

from __future__ import annotations

from caches.guards.reading import Reading


def units(a: Reading, b: Reading) -> str | None:
    return "units" if a.units != b.units and (a.units - b.units or b.units - a.units) else None
