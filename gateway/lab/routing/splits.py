"""How published figures are split: rows by chance, so that what begins alike is on both sides. Beside folds of whole templates
(`protocols.own`), which are stricter, and nearer to asks that are new.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from gateway.lab.progress import Progress
from gateway.lab.routing.folds import others, sample
from gateway.lab.routing.lessons import Lesson, School
from gateway.lab.routing.measured import within
from gateway.lab.routing.metrics import Floats, Side, apgr, cpt, placed
from gateway.lab.routing.outcomes import Outcomes
from gateway.lab.routing.protocols import Parts
from gateway.lab.routing.scored import LEARNED, Scored, length
from gateway.lab.routing.settings import Settings

Json = dict[str, Any]
SPLITS = 5
FEWEST = 1000  # labels below which a split is not held, and rows that it tells at least


def splits(sets: Sequence[Outcomes], school: School, settings: Settings, progress: Progress) -> Iterator[Json]:
    """For each set and number of labels: SPLITS policies, each told on all rows but those that it learned from."""
    held = {
        (number, labels): by_row(len(rows), number, labels, settings.seed)
        for number, rows in enumerate(sets)
        for labels in sorted(set(settings.labels))
        if labels >= FEWEST and len(rows) - labels >= FEWEST
    }
    lessons = [lesson for parts in held.values() for lesson, _ in parts]
    if not lessons:
        return
    told = school.all(lessons, settings.jobs, progress.step("policies trained on rows by chance", len(lessons)))
    for (number, labels), parts in held.items():
        rows = sets[number]
        found = [_figures(told[lesson.name].said[0], rows.at(places), settings.default) for lesson, places in parts]
        means = {name: _mean([it[name] for it in found]) for name in ("apgr", "over_length", "cpt50", "cpt80")}
        inside, unsure = ([it[name] for it in found] for name in ("within_categories", "abstained"))
        yield {
            "set": rows.name,
            "router": LEARNED,
            "protocol": "split",
            "labels": labels,
            "rows": len(parts[0][1]),
            "splits": len(parts),
            **means,
            "within_categories": None if None in inside else float(np.mean(inside)),
            "abstained": float(np.mean(unsure)),
            "calibration": None,
        }


def by_row(count: int, number: int, labels: int, seed: int) -> Parts:
    lessons = []
    for split in range(SPLITS):
        learn = sample(range(count), labels, seed + split)
        places = others(learn, count)
        name = f"{number}/split/{labels}/{split}"
        lessons.append((Lesson(name, ((number, tuple(learn)),), ((number, tuple(places)),), seed + split), places))
    return lessons


def _figures(said: Scored, rows: Outcomes, default: Side) -> Mapping[str, Any]:
    score = placed(said.scores, default)
    lengths: Floats = np.array([length(prompt).score for prompt in rows.prompts])
    value = apgr(score, rows.weak, rows.strong)
    return {
        "apgr": value,
        "over_length": value - apgr(lengths, rows.weak, rows.strong),
        "cpt50": cpt(score, rows.weak, rows.strong, 0.5),
        "cpt80": cpt(score, rows.weak, rows.strong, 0.8),
        "within_categories": within(said.scores, rows, default),
        "abstained": said.abstained,
    }


def _mean(values: Sequence[float]) -> Json:
    """`low`, `high`: the least and the most of the splits."""
    known = not np.isnan(values).any()
    return {"value": float(np.mean(values)), "low": min(values), "high": max(values)} if known else dict.fromkeys(_FIGURE)


_FIGURE = ("value", "low", "high")
