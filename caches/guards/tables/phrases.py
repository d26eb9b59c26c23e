"""Turns of phrase, and what stands for each."""

from __future__ import annotations

from caches.guards.tables import lines

Phrase = tuple[tuple[str, ...], tuple[str, ...]]


def _by_first_word() -> dict[str, tuple[Phrase, ...]]:
    found: dict[str, list[Phrase]] = {}
    for line in lines("phrases.txt"):
        said, _, meant = line.partition("=")
        entry = (tuple(said.split()), tuple(meant.split()))
        found.setdefault(entry[0][0], []).append(entry)
    return {word: tuple(sorted(entries, key=lambda entry: -len(entry[0]))) for word, entries in found.items()}


PHRASES = _by_first_word()
"""First word → (the phrase, what it becomes), longest first."""
