"""`learned`, trained by every protocol over all sets."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from gateway.lab.progress import Progress
from gateway.lab.routing import protocols, travel
from gateway.lab.routing.folds import keys
from gateway.lab.routing.lessons import Lesson, School, Taught, Told
from gateway.lab.routing.outcomes import Outcomes
from gateway.lab.routing.protocols import Parts
from gateway.lab.routing.scored import LEARNED, MEANS, Scored
from gateway.lab.routing.settings import Settings
from gateway.lab.routing.splits import splits
from routing.learned.sources import SOURCES

Json = dict[str, Any]
Result = tuple[Scored, int, Json]  # of the set of that number, and what the document has beside its figures
BASED = 300  # labels of one's own with which a base is still of interest


class Learning:
    def __init__(self, sets: Sequence[Outcomes], settings: Settings, progress: Progress) -> None:
        self._sets = sets
        self._settings = settings
        self._progress = progress
        self._base: Path | None = None
        self._by_key = [keys(rows.prompts) for rows in sets]
        self._school = School([Taught(tuple(rows.prompts), rows.weak, rows.strong) for rows in sets])

    def splits(self) -> Iterator[Json]:
        return splits(self._sets, self._school, self._settings, self._progress) if "own" in self._settings.protocols else iter(())

    def results(self) -> Iterator[Result]:
        wanted = self._settings.protocols
        own = self._own() if "own" in wanted else {}
        tasks = self._tasks() if "task" in wanted else {}
        with tempfile.TemporaryDirectory() as place:
            crossed = protocols.cross(self._sets, self._settings.seed, Path(place)) if "cross" in wanted else []
            lessons = [lesson for parts in (*own.values(), *tasks.values()) for lesson, _ in parts]
            told = self._taught([*lessons, *(it.lesson for it in crossed)], "policies trained")
            yield from self._of_own(own, told, "own")
            for number, parts in tasks.items():
                yield protocols.together(LEARNED, parts, told, "bare"), number, {"protocol": "task", "levelled": False}
                yield protocols.together(LEARNED, parts, told, "levelled"), number, {"protocol": "task", "levelled": True}
                yield (
                    replace(protocols.together(MEANS, parts, told, "means"), small=None, large=None),
                    number,
                    {"protocol": "yardstick"},
                )
            yield from _of_crossed(crossed, told)
            if self._settings.base is not None:
                self._base = Path(place) / "base.policy"
                self._settings.base.save(self._base)
            bases = {it.tells[0]: it.lesson.keep for it in crossed if it.lesson.keep is not None}
            based = self._own(bases) if "own" in wanted else {}
            told = self._taught([lesson for parts in based.values() for lesson, _ in parts], "policies trained on a base")
            for said, number, more in self._of_own(based, told, "based"):
                shown = self._settings.base_ships and number not in bases and seen(self._sets[number].name)
                yield said, number, {**more, "seen": shown}

    def _own(self, bases: dict[int, Path] | None = None) -> dict[tuple[int, int], Parts]:
        """By set and by the labels that there are of those asked for. `bases`: of the sets by which to begin with one."""
        made: dict[tuple[int, int], Parts] = {}
        for number, found in enumerate(self._by_key):
            base = None if bases is None else bases.get(number, self._base)
            if bases is not None and base is None:
                continue
            for labels in sorted(set(self._settings.labels)):
                if base is None or labels <= BASED:
                    parts = protocols.own(found, number, labels, self._settings.seed, base)
                    if parts:
                        made[number, min(protocols.learned(lesson) for lesson, _ in parts)] = parts
        return made

    def _of_own(self, own: dict[tuple[int, int], Parts], told: dict[str, Told], protocol: str) -> Iterator[Result]:
        for (number, labels), parts in own.items():
            yield protocols.together(LEARNED, parts, told, "ranks"), number, {"protocol": protocol, "labels": labels}

    def _tasks(self) -> dict[int, Parts]:
        seed = self._settings.seed
        made = {
            number: protocols.tasks(found, self._sets[number].categories, number, seed)
            for number, found in enumerate(self._by_key)
        }
        return {number: parts for number, parts in made.items() if parts}

    def _taught(self, lessons: Sequence[Lesson], what: str) -> dict[str, Told]:
        if not lessons:
            return {}
        return self._school.all(lessons, self._settings.jobs, self._progress.step(what, len(lessons)))


def seen(name: str) -> bool:
    """Whether the policy that ships was trained on the file of that name, or on one that its name begins with."""
    return any(name.startswith(source.file) for source in SOURCES)


def _of_crossed(crossed: Sequence[protocols.Crossed], told: dict[str, Told]) -> Iterator[Result]:
    for it in crossed:
        for number, said in zip(it.tells, told[it.lesson.name].said, strict=True):
            yield said, number, {"protocol": "cross", "learned_from": it.learned_from, **_sent(told[it.lesson.name], said)}


def _sent(told: Told, said: Scored) -> Json:
    """The share that goes to the strong model by the threshold that the policy's own held-out rows ask for."""
    if not len(told.scores):
        return {}
    cut = travel.threshold(told.scores)
    return {"tuned_to": travel.TUNED, "sent": travel.share(np.nan_to_num(said.scores, nan=np.inf), cut)}
