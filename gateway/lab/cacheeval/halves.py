"""Selection and test apart: pairs that share a text are never on both sides."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from gateway.lab.cacheeval.clusters import Union
from gateway.lab.cacheeval.scoring import Candidate


def halves(seen: Sequence[Candidate], seed: int) -> tuple[list[Candidate], list[Candidate]]:
    """By the seed, group by group, each group to the half that has less."""
    union = Union()
    for it in seen:
        union.join(it.pair.a, it.pair.b)
    groups: dict[str, list[Candidate]] = {}
    for it in seen:
        groups.setdefault(union.find(it.pair.a), []).append(it)
    shuffled = list(groups.values())
    Random(seed).shuffle(shuffled)
    one: list[Candidate] = []
    other: list[Candidate] = []
    for group in shuffled:
        (one if len(one) <= len(other) else other).extend(group)
    return one, other
