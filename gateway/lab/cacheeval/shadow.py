"""Shadow verification in a simulation: some answers are checked after the fact, and what is learned moves the cut.

A share of the questions that were served by meaning, and every one in the grey zone, goes to the model as well, until the
budget is spent. The clusters say what that finds, or the scripted judge, errors included.

Rules:
- An approved question becomes an exact entry of its own: it is served from then on without being compared.
- A rejected pair is never served again, and the fresh answer is stored for the question.
- Of what was served only some is verified, so each verification speaks for so many more.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from gateway.lab.cacheeval.judge import Judge
from gateway.lab.cacheeval.learner import Learner

RATE = 0.03


@dataclass(slots=True)
class Shadow:
    budget: int
    learner: Learner
    random: Random
    rate: float = RATE
    judge: Judge | None = None  # None: it finds what is so
    spent: int = 0
    rejected: set[tuple[str, str]] = field(default_factory=set)  # (asked, stored)

    def checks(self, *, served: bool) -> bool:
        """Whether this one is verified; it then counts."""
        if self.spent >= self.budget or (served and self.random.random() >= self.rate):
            return False
        self.spent += 1
        return True

    def learn(self, asked: str, stored: str, score: float, *, same: bool, served: bool) -> bool:
        """What the verification finds."""
        right = same if self.judge is None else self.judge.approves(asked, stored, same=same)
        self.learner.learn(score, right=right, weight=1 / self.rate if served else 1.0)
        if not right:
            self.rejected.add((asked, stored))
        return right
