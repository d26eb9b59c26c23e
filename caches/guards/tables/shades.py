"""Quantifiers, adverbs of frequency and certainty, conjunctions: closed classes in which one word is never another."""

from __future__ import annotations

from caches.guards.tables import lines

UNSAID: set[tuple[str, str]] = set()
"""Shades whose coming and going changes little."""


def _shades() -> dict[str, tuple[str, str]]:
    found: dict[str, tuple[str, str]] = {}
    for axis, value, *members in map(str.split, lines("shades.txt")):
        shade = (axis, value.removesuffix("?"))
        found.update(dict.fromkeys(members, shade))
        if value.endswith("?"):
            UNSAID.add(shade)
    return found


SHADES = _shades()
"""Word → (axis, value)."""
