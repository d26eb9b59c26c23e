"""Which rows a policy learns from and which it is told on, as lessons; and their answers put together again.

own     folds of whole templates: N labels of the other folds, told on this one
task    whole categories are left out: the rest is learned, told on what was left out
cross   another file is learned, or all others together; rows that this file has too are left out of the learning
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Literal

import numpy as np

from gateway.lab.routing.folds import grouped, keys, others, sample
from gateway.lab.routing.lessons import Lesson, Places, Told
from gateway.lab.routing.metrics import Floats, ranked
from gateway.lab.routing.outcomes import Outcomes
from gateway.lab.routing.scored import Scored

FOLDS = 5
TASKS = 20  # at most so many lessons of whole categories; more categories share a lesson
MOST_TASKS = 80_000  # rows that these lessons learn together: of a large set more categories share one
MOST = 8_000  # rows that a lesson of other categories or files learns, drawn from all of them alike
LEAST = 50  # labels that a lesson of the same file has, or it is not held
LEAST_ELSEWHERE = 100  # and one that is told on other files: `tiergate calibrate` makes no policy of fewer
REST = "all others"


How = Literal["ranks", "bare", "levelled", "means"]
"""How scores of several policies become one order.

ranks       within each part: what is compared is the policies' orders, as where parts are folds by chance
bare        as they are
levelled    less what each policy says on average of its own held-out rows: one that has not seen the task that gains most
            believes that all gains less, so that bare scores of policies with a task left out are in a wrong order by themselves
means       nothing but that average, bare: how wrong that order is of policies that know nothing of any prompt
"""
Parts = list[tuple[Lesson, list[int]]]  # lessons, each with the places that it tells


def own(by_key: Sequence[str], number: int, labels: int, seed: int, base: Path | None = None) -> Parts:
    """A lesson for each fold; none where the other folds have too few labels to tell."""
    folds = grouped(by_key, FOLDS, seed)
    lessons = []
    for fold, places in enumerate(folds):
        learn = sample(others(places, len(by_key)), labels, seed + fold)
        if len(folds) < FOLDS or len(learn) < LEAST:
            return []
        name = f"{number}/own/{labels}/{fold}"
        lessons.append((Lesson(name, _one(number, learn), _one(number, places), seed, base), places))
    return lessons


def tasks(by_key: Sequence[str], categories: Sequence[str], number: int, seed: int) -> Parts:
    """None where there is one category only. What shares a template with a category that is left out is left out too."""
    left_out = grouped(categories, min(TASKS, max(FOLDS, MOST_TASKS // len(by_key))), seed)
    if len(left_out) < 2:
        return []
    lessons = []
    for part, places in enumerate(left_out):
        known = {by_key[place] for place in places}
        learn = sample([place for place in others(places, len(by_key)) if by_key[place] not in known], MOST, seed)
        lessons.append((Lesson(f"{number}/task/{part}", _one(number, learn), _one(number, places), seed), places))
    return lessons if all(learned(lesson) >= LEAST for lesson, _ in lessons) else []


@dataclass(frozen=True, slots=True)
class Crossed:
    """`tells`: numbers of the sets that are told."""

    lesson: Lesson
    learned_from: str
    tells: tuple[int, ...]


def cross(sets: Sequence[Outcomes], seed: int, place: Path) -> list[Crossed]:
    """What learns all others but one is kept in a file of that folder."""
    if len(sets) < 2:
        return []
    by_set = keys_of_all(sets)
    made = [_rest(sets, by_set, one, seed, place) for one in range(len(sets))]
    if len(sets) > 2:
        made += [_from_one(sets, by_set, one, seed) for one in range(len(sets))]
    return [it for it in made if learned(it.lesson) >= LEAST_ELSEWHERE]


def _from_one(sets: Sequence[Outcomes], by_set: Sequence[Sequence[str]], one: int, seed: int) -> Crossed:
    """Rows that any other set has too are left out."""
    tells = tuple(number for number in range(len(sets)) if number != one)
    elsewhere = set().union(*(by_set[number] for number in tells))
    learn = _drawn([(one, [place for place, key in enumerate(by_set[one]) if key not in elsewhere])], seed)
    tell = tuple((number, tuple(range(len(sets[number])))) for number in tells)
    return Crossed(Lesson(f"{one}/cross", learn, tell, seed), sets[one].name, tells)


def _rest(sets: Sequence[Outcomes], by_set: Sequence[Sequence[str]], one: int, seed: int, folder: Path) -> Crossed:
    """All other sets are learned; rows that this one has too are left out."""
    here = set(by_set[one])
    others = [number for number in range(len(sets)) if number != one]
    learn = _drawn([(number, [place for place, key in enumerate(by_set[number]) if key not in here]) for number in others], seed)
    tell = _one(one, range(len(sets[one])))
    lesson = Lesson(f"{one}/rest", learn, tell, seed, keep=folder / f"{one}.policy")
    return Crossed(lesson, REST if len(others) > 1 else sets[others[0]].name, (one,))


def together(router: str, parts: Parts, told: Mapping[str, Told], how: How) -> Scored:
    """One answer for all rows, of policies of which each tells a part. "Don't know" stays what it is."""
    count = sum(len(places) for _, places in parts)
    score, small, large = (np.full(count, np.nan) for _ in range(3))
    for lesson, places in parts:
        said = told[lesson.name].said[0]
        at = np.asarray(places, dtype=np.intp)
        score[at] = _ordered(told[lesson.name], how)
        if said.small is not None and said.large is not None:
            small[at], large[at] = said.small, said.large
    return Scored(router, score, small, large)


def _ordered(told: Told, how: How) -> Floats:
    scores = told.said[0].scores
    if how == "ranks":
        return ranked(scores)
    if how == "means":
        return np.full(len(scores), _usual(told))
    return scores - _usual(told) if how == "levelled" else scores


def _usual(told: Told) -> float:
    """How far from the middle of the scale a policy's scores are on average, on what it was tried on."""
    return float(told.scores.mean()) - 0.5 if len(told.scores) else 0.0


def keys_of_all(sets: Sequence[Outcomes]) -> list[list[str]]:
    """By set: keys that mean the same in all of them."""
    everything = keys([prompt for rows in sets for prompt in rows.prompts])
    ends = np.cumsum([0, *(len(rows) for rows in sets)])
    return [everything[start:end] for start, end in pairwise(ends)]


def learned(lesson: Lesson) -> int:
    return sum(len(places) for _, places in lesson.learn)


def _drawn(learn: Sequence[tuple[int, list[int]]], seed: int) -> Places:
    """MOST rows of all, by the same share of each."""
    share = min(1.0, MOST / max(1, sum(len(places) for _, places in learn)))
    return tuple((number, tuple(sample(places, round(share * len(places)), seed))) for number, places in learn)


def _one(number: int, places: Sequence[int]) -> Places:
    return ((number, tuple(places)),)
