"""A table of stored questions and asked ones: all are stored, each is asked, and what comes back is compared.

The asked one's own origin is the only right answer, so what is served is right or wrong, and the rest is missed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from gateway.lab.cacheeval.judge import Judge
from gateway.lab.cacheeval.pairs import Data, Pair
from gateway.lab.cacheeval.policies import Policy
from gateway.lab.cacheeval.scoring import EXAMPLES
from gateway.lab.cacheeval.shelf import Near, Shelf, choose
from gateway.lab.cacheeval.vectors import Vectors


@dataclass(frozen=True, slots=True)
class Lookup:
    pair: Pair
    near: Sequence[Near]  # of all origins; none where the question has no vector


@dataclass(slots=True)
class Found:
    policy: str
    asked: int = 0
    right: int = 0
    wrong: int = 0
    verified: int = 0  # questions that waited for the judge
    missed: Counter[str] = field(default_factory=Counter)  # by what refused the most similar one
    examples: list[dict[str, object]] = field(default_factory=list)  # of wrong ones


def lookups(data: Data, vectors: Vectors) -> list[Lookup]:
    """Every origin is stored once, then every question is compared with all."""
    origins = list(dict.fromkeys(pair.a for pair in data.pairs))
    shelf = Shelf(vectors.model.dimension, len(origins))
    for text in origins:
        vector = vectors.of(text)
        if vector is not None:
            shelf.put(text, vector)
    found = []
    for pair in data.pairs:
        vector = vectors.of(pair.b)
        found.append(Lookup(pair, shelf.nearest(vector) if vector is not None else ()))
    return found


def look_up(policy: Policy, asks: Sequence[Lookup], judge: Judge | None = None) -> Found:
    found = Found(policy.name)
    for ask in asks:
        _one(policy, ask, judge, found)
    return found


def _one(policy: Policy, ask: Lookup, judge: Judge | None, found: Found) -> None:
    pair = ask.pair

    def approves(stored: str) -> bool:
        return judge is not None and judge.approves(pair.b, stored, same=stored == pair.a)

    choice = choose(policy, pair.b, ask.near, approves if judge is not None else None)
    found.asked += 1
    found.verified += choice.verified
    if choice.served is None:
        found.missed[choice.why] += 1
    elif choice.served.key == pair.a:
        found.right += 1
    else:
        found.wrong += 1
        if len(found.examples) < EXAMPLES:
            found.examples.append({"stored": choice.served.key, "asked": pair.b, "wanted": pair.a, "cosine": choice.served.score})
