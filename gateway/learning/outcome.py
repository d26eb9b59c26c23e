"""How good each tier was, from the two answers to one request.

Rules
- Answers that agree: both were good. Answers that can be checked and differ: the large tier's is taken as right. That it is
  wrong, too, is not seen: a share of such labels is false, and what they teach is how often the small tier does as the large one.
- Where nobody can tell, a judge is asked, if the operator names one: twice, each answer first once, for models prefer a place.
  What it says only in one order is a draw. A draw, and the small tier's answer: small is good enough.
- No label is better than a guess: None.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from gateway.learning.line import Source
from routing.agreement import agree

Winner = Literal["first", "second", "same"]


@dataclass(frozen=True, slots=True)
class Outcome:
    small: float
    large: float
    source: Source


class Compares(Protocol):
    async def better(self, ask: str, first: str, second: str) -> Winner | None:
        """None: it did not say."""


async def outcome(ask: str, small: str, large: str, judge: Compares | None) -> Outcome | None:
    """None: nobody can tell."""
    same = agree(small, large)
    if same is not None:
        return Outcome(1.0 if same else 0.0, 1.0, "agreement")
    if judge is None:
        return None
    one = await judge.better(ask, small, large)
    other = None if one is None else await judge.better(ask, large, small)
    if one is None or other is None:
        return None
    if one == "first" and other == "second":
        return Outcome(1.0, 0.0, "judge")
    return Outcome(0.0 if one == "second" and other == "first" else 1.0, 1.0, "judge")
