"""What a weak and a strong model scored on the same prompts, from 0 to 1.

Rules
- The scale is the file's: 1, 10 or 100, the least that holds every score in it; all are divided by it.
- The pair is the one asked for; else the first known one that the file has; else the worst and the best model by mean score.
- Rows that lack one of the two are left out, and counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gateway.lab.routing.data import BadData, Data, Row
from gateway.lab.routing.metrics import Floats

SCALES = (1.0, 10.0, 100.0)
# Pairs of the public files whose scores are sound: a weak and a strong model of one family, or those of a publication.
KNOWN: tuple[tuple[str, str], ...] = (
    ("llama-3.1-8b-instruct", "llama-3.1-nemotron-51b-instruct"),
    ("llama-3.1-8b-instruct", "llama-3.1-70b-instruct"),
    ("mixtral-8x7b-instruct-v0.1", "gpt-4-1106-preview"),
)
FEWEST = 20  # rows with both scores, below which nothing is told
MOSTLY = 0.9  # of rows that a known pair must have scored to be taken without being asked for


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Rows in the file's order. `chosen`: who named the pair: "asked", "known" or "extremes"."""

    name: str
    pair: tuple[str, str]
    chosen: str
    scale: float
    rows: tuple[Row, ...]
    weak: Floats
    strong: Floats
    unpaired: int
    contaminated: int
    digest: str
    of: int  # rows of the file, before any were drawn

    @property
    def prompts(self) -> list[str]:
        return [row.prompt for row in self.rows]

    @property
    def categories(self) -> list[str]:
        return [row.category for row in self.rows]

    @property
    def gap(self) -> Floats:
        return self.strong - self.weak

    def at(self, places: Sequence[int]) -> Outcomes:
        """Some of the rows."""
        chosen = list(places)
        rows = tuple(self.rows[place] for place in chosen)
        return replace(self, rows=rows, weak=self.weak[chosen], strong=self.strong[chosen])

    def __len__(self) -> int:
        return len(self.rows)


def outcomes(data: Data, asked: Sequence[tuple[str, str]] = ()) -> Outcomes:
    """`asked`: pairs of weak and strong; the first that the file has. Raises BadData."""
    scale = _scale(data)
    pair, chosen = _pair(data, asked)
    rows = tuple(row for row in data.rows if pair[0] in row.scores and pair[1] in row.scores)
    if len(rows) < FEWEST:
        raise BadData(f"{data.name}: {len(rows)} rows have scores of both {pair[0]} and {pair[1]}; at least {FEWEST} are needed")
    weak, strong = (np.array([row.scores[model] for row in rows], dtype=np.float64) / scale for model in pair)
    return Outcomes(
        name=data.name,
        pair=pair,
        chosen=chosen,
        scale=scale,
        rows=rows,
        weak=weak,
        strong=strong,
        unpaired=len(data.rows) - len(rows),
        contaminated=data.contaminated,
        digest=data.digest,
        of=data.of,
    )


def _scale(data: Data) -> float:
    scores = [score for row in data.rows for score in row.scores.values()]
    if not scores:
        raise BadData(f"{data.name}: no scores in it")
    low, high = min(scores), max(scores)
    if low < 0 or high > SCALES[-1]:
        raise BadData(f"{data.name}: scores go from {low:g} to {high:g}; they are to lie within 0-1, 0-10 or 0-100")
    return next(scale for scale in SCALES if high <= scale)


def _pair(data: Data, asked: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], str]:
    scored = Counter(model for row in data.rows for model in row.scores)
    for pair in asked:
        if pair[0] in scored and pair[1] in scored:
            return pair, "asked"
    if asked:
        wanted = ", ".join(" and ".join(pair) for pair in asked)
        raise BadData(f"{data.name}: it does not have both of {wanted}; it has {', '.join(sorted(scored))}")
    enough = MOSTLY * len(data.rows)
    for pair in KNOWN:
        if min(scored[pair[0]], scored[pair[1]]) >= enough:
            return pair, "known"
    means = {
        model: float(np.mean([row.scores[model] for row in data.rows if model in row.scores]))
        for model, count in sorted(scored.items())
        if count >= enough
    }
    if len(means) < 2:
        raise BadData(f"{data.name}: fewer than two models are scored on most rows; name two with --pair")
    return (min(means, key=lambda model: means[model]), max(means, key=lambda model: means[model])), "extremes"
