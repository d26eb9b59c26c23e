"""How many answers are verified after the fact, and which."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from gateway.lab.cacheeval.judge import Judge

SHARE = 0.02  # as the product's default has it


@dataclass(slots=True)
class Shadow:
    """`share` of what is served by meaning, and all that was nearly served, until the budget is spent."""

    budget: int
    random: Random
    max_error: float
    share: float = SHARE
    judge: Judge | None = None  # what a verification finds; None: what is so
    spent: int = 0

    def checks(self, *, served: bool) -> bool:
        """Whether this one is verified; it then counts."""
        if self.spent >= self.budget or (served and self.random.random() >= self.share):
            return False
        self.spent += 1
        return True

    def finds(self, asked: str, stored: str, *, same: bool) -> bool:
        return same if self.judge is None else self.judge.approves(asked, stored, same=same)
