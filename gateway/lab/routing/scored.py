"""What a router said of the prompts of a set, and routers that need no training.

A score is higher where the strong model is more worth its price; NaN is "don't know".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from gateway.lab.routing.metrics import Floats
from gateway.lab.routing.outcomes import Outcomes
from routing.types import Classifier

Score = Callable[[str], float | None]
Tell = Callable[[int, int], None]  # how many of how many are done
RANDOM, LENGTH, TASK_ORACLE, ORACLE = "random", "length", "task oracle", "oracle"


@dataclass(frozen=True, slots=True)
class Scored:
    """`small` and `large`: P(good enough), of routers that tell, else None; as long as `scores`."""

    router: str
    scores: Floats
    small: Floats | None = None
    large: Floats | None = None

    @property
    def abstained(self) -> float:
        """The share of "don't know"."""
        return float(np.isnan(self.scores).mean())


def scored(router: str, score: Score, prompts: Sequence[str], tell: Tell = lambda _done, _of: None) -> Scored:
    said = []
    for done, prompt in enumerate(prompts, 1):
        said.append(score(prompt))
        tell(done, len(prompts))
    return Scored(router, np.array([np.nan if it is None else it for it in said], dtype=np.float64))


def by(classifier: Classifier) -> Score:
    """What a classifier of the gateway says of a prompt that is a conversation's only message."""
    return lambda prompt: classifier.classify(body_of(prompt), "chat").score


def body_of(prompt: str) -> dict[str, object]:
    return {"model": "auto", "messages": [{"role": "user", "content": prompt}]}


def length(prompt: str) -> float:
    return float(len(prompt))


def yardsticks(rows: Outcomes) -> list[Scored]:
    """What no router is: chance, and those that have seen the answers of these very rows."""
    return [Scored(RANDOM, np.zeros(len(rows))), Scored(TASK_ORACLE, _task_means(rows)), Scored(ORACLE, rows.gap)]


def _task_means(rows: Outcomes) -> Floats:
    gaps = defaultdict(list)
    for category, gap in zip(rows.categories, rows.gap, strict=True):
        gaps[category].append(gap)
    mean = {category: float(np.mean(found)) for category, found in gaps.items()}
    return np.array([mean[category] for category in rows.categories])
