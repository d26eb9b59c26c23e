"""A cascade replayed over parsed answers: two small models first, the large one where they do not agree.

    always large    the yardstick: cost 1
    cascade         both small models are asked; if they agree that is the answer, else the large one is asked too
    switched        the same, but each request only if the switch, which sees what came of the ones before, lets it

Costs are in units of what always asking the large model costs, where a call (or a character of a reply) of it is PRICE times as
dear as one of a small model. There are single greedy answers only: two samples of one model cannot be replayed, two models stand
for them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gateway.lab.routing.answers import Question
from gateway.lab.routing.measured import figure
from gateway.lab.routing.metrics import Floats, Resamples, interval
from routing.cascade import Switch

Json = dict[str, Any]
Flags = NDArray[np.bool_]
Agree = Callable[[str, str], bool]
PRICE = 10.0
FEWEST = 50  # questions of a subset


@dataclass(frozen=True, slots=True)
class Trio:
    first: str
    second: str
    large: str

    @property
    def models(self) -> tuple[str, str, str]:
        return self.first, self.second, self.large


# Pairs of small models before the large one of their family, as far as the public files have answers of them.
KNOWN = (
    Trio("llama-3-8b-instruct", "llama-3.1-8b-instruct", "llama-3.1-70b-instruct"),
    Trio("llama-3.1-8b-instruct", "gemma-2-9b-it", "llama-3.1-70b-instruct"),
    Trio("llama-3.1-8b-instruct", "qwen2-7b-instruct", "llama-3.1-70b-instruct"),
    Trio("llama-3.1-8b-instruct", "qwen1.5-7b-chat", "llama-3.1-70b-instruct"),
)


def having(questions: Sequence[Question], trio: Trio) -> list[Question]:
    return [it for it in questions if all(model in it.answers for model in trio.models)]


def replayed(questions: Sequence[Question], trio: Trio, agree: Agree, switch: Switch, draws: int, seed: int) -> Json:
    """Of questions that all three answered, in an order by seed."""
    order = list(questions)
    random.Random(seed).shuffle(order)
    agreed = np.array([_agreed(it, trio, agree) for it in order], dtype=np.bool_)
    weak = np.array([it.right(trio.first) for it in order], dtype=float)
    strong = np.array([it.right(trio.large) for it in order], dtype=float)
    right = np.where(agreed, weak, strong)
    tries = _tries(agreed, switch)
    resamples = Resamples(len(order), draws, seed)
    return {
        "smalls": [trio.first, trio.second],
        "large": trio.large,
        "questions": len(order),
        "small_accuracy": [float(weak.mean()), float(np.mean([it.right(trio.second) for it in order]))],
        "large_accuracy": float(strong.mean()),
        **_run(right, strong, ~agreed, order, trio, resamples),
        "switched": {
            "tried": float(tries.mean()),
            "tried_at_the_end": float(tries[-len(tries) // 4 :].mean()),
            **_run(np.where(tries, right, strong), strong, ~agreed | ~tries, order, trio, resamples, tries),
        },
    }


def _agreed(it: Question, trio: Trio, agree: Agree) -> bool:
    one, other = it.answers[trio.first], it.answers[trio.second]
    return one is not None and other is not None and agree(one, other)


def _tries(agreed: Flags, switch: Switch) -> Flags:
    tries = []
    for same in agreed:
        tries.append(switch.tries())
        if tries[-1]:
            switch.saw(escalated=not same)
    return np.array(tries, dtype=np.bool_)


def _run(
    right: Floats,
    strong: Floats,
    to_large: Flags,
    order: Sequence[Question],
    trio: Trio,
    resamples: Resamples,
    tries: Flags | None = None,
) -> Json:
    tried = np.ones(len(order), dtype=bool) if tries is None else tries
    lost = right - strong
    differences = np.concatenate([counts @ lost / len(lost) for counts in resamples])
    return {
        "accuracy": float(right.mean()),
        "over_large": figure(float(lost.mean()), interval(differences)),
        "escalated": float(to_large[tried].mean()) if tried.any() else 0.0,
        "cost_by_call": float((2 * tried / PRICE + to_large).mean()),
        "cost_by_character": _by_character(order, trio, tried, to_large),
    }


def _by_character(order: Sequence[Question], trio: Trio, tried: Flags, to_large: Flags) -> float | None:
    if not all(model in it.chars for it in order for model in trio.models):
        return None
    small = np.array([it.chars[trio.first] + it.chars[trio.second] for it in order])
    large = np.array([it.chars[trio.large] for it in order])
    return float((small * tried + PRICE * large * to_large).sum() / (PRICE * large.sum()))
