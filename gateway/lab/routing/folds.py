"""What may be learned from, and what it is told on: no question on both sides, under whatever name.

Rules
- Two prompts with the same first 90 letters, case and everything else apart, are one question, or of one template: they share a
  key. Benchmarks repeat each other's questions, and a template tells a model which benchmark it sees.
- A key that more than a fifth of a set shares is an instruction before the questions: its prompts go by their next 90 letters.
- Folds are made of whole keys. What is learned from one set and told on another loses the keys of the other first.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

LETTERS = 90
COMMON = 0.2
FEW = 10  # prompts that may share a key in the smallest set
_READ = 20_000  # characters of a prompt in which its letters are looked for
_WHOLE = "="  # no letter, so that such a key is never one of letters


def keys(prompts: Sequence[str]) -> list[str]:
    """One key for each prompt."""
    letters = ["".join(filter(str.isalpha, prompt[:_READ])).casefold() for prompt in prompts]
    depth = [0] * len(prompts)
    most = max(FEW, COMMON * len(prompts))
    while True:
        found = [_at(prompt, text, deep) for prompt, text, deep in zip(prompts, letters, depth, strict=True)]
        crowded = {key for key, count in Counter(found).items() if count > most and not key.startswith(_WHOLE)}
        if not crowded:
            return found
        depth = [deep + (key in crowded) for deep, key in zip(depth, found, strict=True)]


def grouped(groups: Sequence[str], folds: int, seed: int) -> list[list[int]]:
    """The places of each fold, whole groups to a fold, the folds as even as greed makes them; empty ones are left out."""
    members: dict[str, list[int]] = defaultdict(list)
    for place, group in enumerate(groups):
        members[group].append(place)
    order = list(members.values())
    random.Random(seed).shuffle(order)
    order.sort(key=len, reverse=True)
    made: list[list[int]] = [[] for _ in range(folds)]
    for places in order:
        min(made, key=len).extend(places)
    return [sorted(fold) for fold in made if fold]


def others(places: Iterable[int], count: int) -> list[int]:
    """All places but these."""
    left_out = set(places)
    return [place for place in range(count) if place not in left_out]


def sample(places: Sequence[int], count: int, seed: int) -> list[int]:
    """So many of them, or all, drawn by seed: a smaller sample is the beginning of a larger one."""
    drawn = list(places)
    random.Random(seed).shuffle(drawn)
    return drawn[:count]


def _at(prompt: str, letters: str, deep: int) -> str:
    """The letters of that place; beyond them, the whole prompt."""
    return letters[LETTERS * deep : LETTERS * (deep + 1)] or f"{_WHOLE}{prompt}"
