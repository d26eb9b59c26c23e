"""What a word stands for: its stem, or the stem of the word that names its group of synonyms."""

from __future__ import annotations

from functools import lru_cache

from caches.guards.stem import stem
from caches.guards.tables.english import FUNCTION
from caches.guards.tables.english import LIGHT as LIGHT_WORDS
from caches.guards.tables.names import ALIASES
from caches.guards.tables.opposites import OPPOSITES as OPPOSITE_WORDS
from caches.guards.tables.opposites import RIVALS as RIVAL_WORDS
from caches.guards.tables.synonyms import NEAR as NEAR_WORDS
from caches.guards.tables.synonyms import SAME as SAME_WORDS

_MEMORY = 16_384
_SAME = {stem(word): stem(head) for word, head in SAME_WORDS.items()}


@lru_cache(_MEMORY)
def concept(word: str) -> str:
    found = stem(ALIASES.get(word, word))
    return _SAME.get(found, found)


def as_read(word: str) -> str:
    """The form in which a reading's bag holds the word."""
    return word if word in FUNCTION else concept(word)


def _lifted(table: dict[str, frozenset[str]]) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for word, others in table.items():
        found.setdefault(as_read(word), set()).update(map(as_read, others))
    return {word: frozenset(others - {word}) for word, others in found.items()}


def _near() -> dict[str, frozenset[int]]:
    found: dict[str, set[int]] = {}
    for word, groups in NEAR_WORDS.items():
        found.setdefault(concept(word), set()).update(groups)
    return {word: frozenset(groups) for word, groups in found.items()}


OPPOSITES = _lifted(OPPOSITE_WORDS)
RIVALS = _lifted(RIVAL_WORDS)
NEAR = _near()
LIGHT = frozenset(map(concept, LIGHT_WORDS))
"""The tables, by concept."""
