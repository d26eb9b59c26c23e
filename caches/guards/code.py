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
    return any(
        part not in other.bag and part not in other.surface.values()
        for name in one.identifiers - other.identifiers
        for part in name.lstrip("-").lower().replace(".", "_").split("_")
        if part
    )
