"""A stream of questions through the exact cache and then the semantic one.

The exact cache serves a text that was stored, the semantic one what the policy takes from the nearest stored ones; a miss
stores the question. What was served by meaning is not stored: asked again it is looked up again, and is wrong again.

What is wrong is what was served from another cluster. Labels of public pairs know only the pairs that somebody labelled: two
clusters may well mean the same, so some of what is counted as wrong is not. The examples in the JSON are there to look at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from caches.embed.types import Vector
from gateway.lab.cacheeval.drawing import Ask
from gateway.lab.cacheeval.judge import Judge
from gateway.lab.cacheeval.policies import Policy
from gateway.lab.cacheeval.shadow import Shadow
from gateway.lab.cacheeval.shelf import Choice, Near, Shelf, choose
from gateway.lab.cacheeval.vectors import Vectors


class End(StrEnum):
    EXACT = "exact"
    SEMANTIC = "semantic"
    WRONG = "wrong"  # served, and not with its own answer
    MISS = "miss"


@dataclass(slots=True)
class Course:
    """What came of every question, in turn."""

    policy: str
    ends: list[End] = field(default_factory=list)
    embedded: int = 0
    verified: int = 0  # questions that waited for the judge
    shadowed: int = 0  # and after it
    learned_at: int | None = None  # the question that spent the last shadow verification
    cut: float | None = None  # where the learned cut ended
    wrong: Counter[tuple[str, str]] = field(default_factory=Counter)  # (stored, asked), and how often

    def count(self, begin: int = 0) -> Counter[End]:
        return Counter(self.ends[begin:])


def run(
    policy: Policy, asks: Sequence[Ask], vectors: Vectors, judge: Judge | None = None, shadow: Shadow | None = None
) -> Course:
    stream = _Stream(policy, asks, vectors, judge, shadow)
    for ask in asks:
        stream.ask(ask)
    if shadow is not None:
        stream.course.cut = shadow.learner.cut()
    return stream.course


class _Stream:
    def __init__(self, policy: Policy, asks: Iterable[Ask], vectors: Vectors, judge: Judge | None, shadow: Shadow | None) -> None:
        self._policy = policy
        self._vectors = vectors
        self._judge = judge
        self._shadow = shadow
        self._own = {ask.text: ask.cluster for ask in asks}
        self._shelf = Shelf(vectors.model.dimension, len(self._own))
        self._exact: dict[str, str] = {}  # a text, and the one whose answer is stored for it
        self.course = Course(policy.name)

    def ask(self, ask: Ask) -> None:
        stored = self._exact.get(ask.text)
        if stored is not None:
            self._served(ask.text, stored, End.EXACT)
            return
        vector = self._vectors.of(ask.text)
        if vector is None:
            self._missed(ask.text, None)
            return
        self.course.embedded += 1
        choice = choose(self._policy, ask.text, self._near(ask.text, vector), self._approves_for(ask.text))
        self.course.verified += choice.verified
        if choice.served is not None:
            self._served(ask.text, choice.served.text, End.SEMANTIC)
        else:
            self._missed(ask.text, vector)
        self._check(ask.text, vector, choice)

    def _near(self, asked: str, vector: Vector) -> list[Near]:
        near = self._shelf.nearest(vector)
        return near if self._shadow is None else [it for it in near if (asked, it.text) not in self._shadow.rejected]

    def _served(self, asked: str, stored: str, end: End) -> None:
        right = self._same(asked, stored)
        self.course.ends.append(end if right else End.WRONG)
        if not right:
            self.course.wrong[stored, asked] += 1

    def _missed(self, asked: str, vector: Vector | None) -> None:
        self.course.ends.append(End.MISS)
        self._store(asked, vector)

    def _store(self, asked: str, vector: Vector | None) -> None:
        self._exact[asked] = asked
        if vector is not None:
            self._shelf.put(asked, vector)

    def _check(self, asked: str, vector: Vector, choice: Choice) -> None:
        """The shadow verification, where there is one to do."""
        looked_at = choice.served or choice.grey
        if self._shadow is None or looked_at is None or not self._shadow.checks(served=choice.served is not None):
            return
        served = choice.served is not None
        same = self._same(asked, looked_at.text)
        right = self._shadow.learn(asked, looked_at.text, looked_at.score, same=same, served=served)
        if served and right:
            self._exact[asked] = looked_at.text
        elif served:
            self._store(asked, vector)
        self.course.shadowed = self._shadow.spent
        if self._shadow.spent == self._shadow.budget:
            self.course.learned_at = len(self.course.ends)

    def _approves_for(self, asked: str) -> Callable[[str], bool] | None:
        judge = self._judge
        if judge is None:
            return None
        return lambda stored: judge.approves(asked, stored, same=self._same(asked, stored))

    def _same(self, asked: str, stored: str) -> bool:
        return self._own[asked] == self._own[stored]
