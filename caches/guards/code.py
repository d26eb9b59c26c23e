"""Identifiers, flags, formulas and operators: `--soft` is not `--hard`, `a + b` is not `a - b`."""

from __future__ import annotations

from caches.guards.reading import Reading


def code(a: Reading, b: Reading) -> str | None:
    if a.signs != b.signs:
        return "code"
    if a.identifiers == b.identifiers:
        return None
    return "code" if _strange(a, b) or _strange(b, a) else None


def _strange(one: Reading, other: Reading) -> bool:
    """An identifier has a part that is no word of the other text."""
    words = other.bag.union(other.surface.values())
    return any(
        part not in words
        for name in one.identifiers - other.identifiers
        for part in name.lstrip("-").lower().replace(".", "_").split("_")
        if part
    )
