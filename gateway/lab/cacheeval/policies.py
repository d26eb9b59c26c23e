"""What serves a stored answer, and what does not: one verb, over a cosine and two texts."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

ALL = -1.0
"""A cut that every cosine and every score passes."""


class Verdict(StrEnum):
    SERVE = "serve"
    GREY = "grey"  # not by itself; a verifier may be asked
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True)
class Ruling:
    verdict: Verdict
    score: float  # what a cut is held against: the cosine, or what the policy makes of it
    why: str = ""  # what refused, by name: `similarity`, `negation`


class Policy(Protocol):
    name: str

    def decide(self, cosine: float, asked: str, stored: str) -> Ruling: ...


class Cosine:
    """Similar enough is the same. What most caches do; here to compare with."""

    def __init__(self, cut: float) -> None:
        self.name = f"cosine >= {cut:g}"
        self._cut = cut

    def decide(self, cosine: float, asked: str, stored: str) -> Ruling:  # noqa: ARG002 - the protocol's
        return Ruling(Verdict.SERVE, cosine) if cosine >= self._cut else Ruling(Verdict.REFUSE, cosine, "similarity")
