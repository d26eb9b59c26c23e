"""A cut that is learned from verified answers: the product's own evidence, of one scope."""

from __future__ import annotations

from typing import Protocol

from caches.semantic.evidence import Evidence

_SCOPE = ""


class Learner(Protocol):
    def cut(self) -> float:
        """Serve from this score on; infinite: nothing."""
        ...

    def learn(self, score: float, *, right: bool, weight: float) -> None:
        """`weight`: for how many answers this one speaks."""
        ...


class FromEvidence:
    """`start`: the preset's cut, which holds until there are labels enough to state the bound."""

    def __init__(self, start: float, max_error: float) -> None:
        self._evidence = Evidence()
        self._start = start
        self._max_error = max_error

    def cut(self) -> float:
        return self._evidence.cut(_SCOPE, self._start, self._max_error, self._max_error)

    def learn(self, score: float, *, right: bool, weight: float) -> None:
        self._evidence.learn(_SCOPE, score, right=right, weight=weight)
