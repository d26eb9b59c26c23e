"""How good each tier was, from the two answers to one request.

Rules
- Answers that agree: both were good.
- Answers that do not, or of which nobody can tell, go to a judge if the operator names one: twice, each answer first once, for
  models prefer a place. What it says only in one order is a draw. A draw, and the small tier's answer: small is good enough.
- Without a judge, of answers that can be checked and differ the large tier's is taken as right. That it is wrong, too, is not
  seen: where both tiers fail often such labels mislead (`gateway.lab.calibrate.rule`).
- A judge that cannot be asked, or says none of what it may, has not judged: no label comes of that, or its absence would count
  against the small tier.
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


class NotJudged(Exception):  # noqa: N818 - names what happened
    """A judge has not answered, or not with A, B or C."""


class Compares(Protocol):
    async def better(self, ask: str, first: str, second: str) -> Winner:
        """Raises NotJudged."""


async def outcome(ask: str, small: str, large: str, judge: Compares | None) -> Outcome | None:
    """None: nobody can tell. Raises NotJudged."""
    same = agree(small, large)
    if same:
        return Outcome(1.0, 1.0, "agreement")
    if judge is None:
        return None if same is None else Outcome(0.0, 1.0, "agreement")
    one, other = await judge.better(ask, small, large), await judge.better(ask, large, small)
    if one == "first" and other == "second":
        return Outcome(1.0, 0.0, "judge")
    return Outcome(0.0 if one == "second" and other == "first" else 1.0, 1.0, "judge")
