"""Stored questions with their vectors, and which of them a policy lets answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from caches.embed.types import Vector
from caches.semantic.likeness import rank
from gateway.lab.cacheeval.policies import Policy, Verdict

NEAREST = 5  # looked at for one question


@dataclass(frozen=True, slots=True)
class Near:
    """A stored question beside an asked one. `score` is the cosine, until a policy has looked at it."""

    key: str  # its text, or its id
    score: float


class Shelf:
    """The most similar are found by comparing with all."""

    def __init__(self, dimension: int, room: int) -> None:
        self._rows: NDArray[np.float32] = np.zeros((max(1, room), dimension), dtype=np.float32)
        self._keys: list[str] = []
        self._places: dict[str, int] = {}

    def put(self, key: str, vector: Vector) -> None:
        """What bears the same key is replaced."""
        place = self._places.setdefault(key, len(self._keys))
        self._rows[place] = vector
        if place == len(self._keys):
            self._keys.append(key)

    def nearest(self, vector: Vector) -> list[Near]:
        """The most similar first, at most NEAREST; equals in the order they were stored."""
        cosines = self._rows[: len(self._keys)] @ vector
        return [Near(self._keys[place], float(cosines[place])) for place in np.argsort(-cosines, kind="stable")[:NEAREST]]


@dataclass(frozen=True, slots=True)
class Choice:
    served: Near | None
    why: str  # what refused the most similar one, where none was served
    verified: int  # stored questions that the verifier was asked about


def choose(policy: Policy, asked: str, near: Iterable[Near], approves: Callable[[str], bool] | None = None) -> Choice:
    """The likest that the policy serves; where there is none, the best left open if the verifier approves it."""
    served: list[tuple[float, Near]] = []
    grey: list[Near] = []
    why = ""
    for it in near:
        ruling = policy.decide(it.score, asked, it.key)
        if ruling.verdict is Verdict.SERVE:
            served.append((rank(asked, it.key, it.score), Near(it.key, ruling.score)))
        elif ruling.verdict is Verdict.GREY:
            grey.append(Near(it.key, ruling.score))
        why = why or ruling.why or ruling.verdict
    if served:
        return Choice(max(served, key=lambda it: it[0])[1], "", 0)
    best = max(grey, key=lambda it: it.score, default=None)
    if best is None or approves is None:
        return Choice(None, why or "nothing stored", 0)
    return Choice(best, "", 1) if approves(best.key) else Choice(None, why, 1)
