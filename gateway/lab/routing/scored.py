"""What a router said of the prompts of a set, and routers that need no training.

A score is higher where the strong model is more worth its price; NaN is "don't know".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from gateway.lab.routing.metrics import Floats
from gateway.lab.routing.outcomes import Outcomes
from routing.types import Classifier, Verdict

Judge = Callable[[str], Verdict]  # of a prompt that is a conversation's only message
Tell = Callable[[int, int], None]  # how many of how many are done
LEARNED = "learned"
SHIPPED = "learned, as shipped"
MEANS = "means of other tasks"
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


def scored(router: str, judge: Judge, prompts: Sequence[str], tell: Tell = lambda _done, _of: None) -> Scored:
    return of_verdicts(router, _judged(judge, prompts, tell))


def of_verdicts(router: str, verdicts: Iterable[Verdict]) -> Scored:
    said = [(verdict.score, verdict.small, verdict.large) for verdict in verdicts]
    score, small, large = np.array(said, dtype=np.float64).reshape(-1, 3).T  # None becomes NaN
    return Scored(router, score) if np.isnan(small).all() else Scored(router, score, small, large)


def _judged(judge: Judge, prompts: Sequence[str], tell: Tell) -> Iterator[Verdict]:
    for done, prompt in enumerate(prompts, 1):
        yield judge(prompt)
        tell(done, len(prompts))


def by(classifier: Classifier) -> Judge:
    return lambda prompt: classifier.classify(body_of(prompt), "chat")


def body_of(prompt: str) -> dict[str, object]:
    return {"model": "auto", "messages": [{"role": "user", "content": prompt}]}


def length(prompt: str) -> Verdict:
    return Verdict(float(len(prompt)))


def yardsticks(rows: Outcomes) -> list[Scored]:
    """What no router is: chance, and those that have seen the answers of these very rows."""
    return [Scored(RANDOM, np.zeros(len(rows))), Scored(TASK_ORACLE, _task_means(rows)), Scored(ORACLE, rows.gap)]


def _task_means(rows: Outcomes) -> Floats:
    gaps = defaultdict(list)
    for category, gap in zip(rows.categories, rows.gap, strict=True):
        gaps[category].append(gap)
    mean = {category: float(np.mean(found)) for category, found in gaps.items()}
    return np.array([mean[category] for category in rows.categories])
