"""A verifier by script: it answers right with given probabilities, and the same pair always the same.

It stands for a model that is asked "would one answer serve both?", so that the mechanism around one can be measured
without it. Its errors depend on the seed and the pair alone, not on the order in which pairs come.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, slots=True)
class Judge:
    right: float  # the share of right pairs that it approves
    wrong: float  # the share of traps that it approves
    seed: int = 0

    @classmethod
    def parse(cls, text: str, seed: int = 0) -> Judge:
        """`0.98/0.01`. Raises ValueError."""
        try:
            right, wrong = (float(part) for part in text.split("/"))
        except ValueError:
            right = wrong = -1.0
        if not (0 <= right <= 1 and 0 <= wrong <= 1):
            raise ValueError(f"{text!r} is no judge: write the share of right pairs and of traps it approves, like 0.98/0.01")
        return cls(right, wrong, seed)

    def approves(self, asked: str, stored: str, *, same: bool) -> bool:
        draw = Random(f"{self.seed}\0{asked}\0{stored}").random()
        return draw < (self.right if same else self.wrong)
