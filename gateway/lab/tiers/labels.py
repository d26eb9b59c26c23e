"""Outcomes of two models on real prompts, and the scores that a classifier gives to prompts which it was not trained on."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import IO, NamedTuple

from routing.aims import WINDOW
from routing.learned.classifier import Learned
from routing.rules import Rules
from routing.types import Classifier

_MOST = 100_000
_EVEN = [place / WINDOW for place in range(WINDOW)]


class Prompt(NamedTuple):
    """A prompt, and how good either model's answer to it was."""

    text: str
    small: float
    large: float


class Label(NamedTuple):
    """One prompt: how good either model's answer was, 0-1, and its score; None where the classifier does not know."""

    small: float
    large: float
    score: float | None


class Labels(NamedTuple):
    """`prior`: what the classifier expects the scores to be."""

    labels: Sequence[Label]
    prior: Sequence[float]


def labels_of(path: Path, small: str, large: str, classifier: str, seed: int) -> Labels:
    """Half of the prompts, drawn by the seed, train the classifier; the others are the labels. Raises ValueError, OSError."""
    rows = read(path, small, large)
    random.Random(seed).shuffle(rows)
    half = len(rows) // 2
    prior: Sequence[float] = _EVEN
    judge: Classifier = Rules()
    if classifier != "rules":
        from routing.learned.train import Row, train  # noqa: PLC0415 - numpy, which only training needs

        policy = train([Row(*row) for row in rows[:half]], base=None, seed=seed)
        judge, prior = Learned(policy), policy.scores[:WINDOW]
    return Labels([_judged(row, judge) for row in rows[half:]], prior)


def read(path: Path, small: str, large: str) -> list[Prompt]:
    """Lines of JSON with `prompt` and `scores`, a number for each model; gzipped if the name says so."""
    found: list[Prompt] = []
    with _opened(path) as lines:
        for number, line in enumerate(lines, 1):
            try:
                fields = json.loads(line)
                scores, prompt = fields["scores"], fields["prompt"]
                if small in scores and large in scores:
                    found.append(Prompt(str(prompt), float(scores[small]), float(scores[large])))
            except (ValueError, KeyError, TypeError):
                raise ValueError(f"{path.name}, line {number}: no prompt with scores of models") from None
            if len(found) == _MOST:
                break
    if len(found) < 100:
        raise ValueError(f"{path.name}: {len(found)} prompts have scores of both {small} and {large}; a hundred are needed")
    return found


def _opened(path: Path) -> IO[str]:
    return gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8")


def _judged(row: Prompt, judge: Classifier) -> Label:
    verdict = judge.classify({"messages": [{"role": "user", "content": row.text}]}, "chat")
    return Label(row.small, row.large, verdict.score)
