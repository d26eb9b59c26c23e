"""All routers over all sets, by all protocols: the document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from gateway.lab.progress import Progress
from gateway.lab.routing import protocols, travel
from gateway.lab.routing.folds import keys
from gateway.lab.routing.latency import latency, long_asks, prompts_of
from gateway.lab.routing.lessons import Lesson, School, Taught, Told
from gateway.lab.routing.measured import measured
from gateway.lab.routing.metrics import Resamples
from gateway.lab.routing.outcomes import Outcomes
from gateway.lab.routing.scored import Score, Scored, scored, yardsticks
from gateway.lab.routing.settings import Settings

Json = dict[str, Any]
LEARNED = "learned"


class Study:
    """`routers`: those that score a prompt as they are, by name."""

    def __init__(self, sets: Sequence[Outcomes], routers: Mapping[str, Score], settings: Settings, progress: Progress) -> None:
        self._sets = sets
        self._routers = routers
        self._settings = settings
        self._progress = progress
        self._said: dict[tuple[int, str], Scored] = {}

    def document(self, parameters: Json) -> Json:
        results = [*self._alone(), *self._learned()]
        order = {rows.name: number for number, rows in enumerate(self._sets)}
        results.sort(key=lambda it: order[it["set"]])
        return {
            "parameters": parameters,
            "sets": [about(rows) for rows in self._sets],
            "results": results,
            "travel": list(self._travels()) if len(self._sets) > 1 else [],
            "latency": list(self._latencies()),
        }

    def _alone(self) -> Iterator[Json]:
        for number, rows in enumerate(self._sets):
            for name, score in self._routers.items():
                said = scored(name, score, rows.prompts, self._progress.step(f"{rows.name}: {name}", len(rows)))
                self._said[number, name] = said
                yield self._result(said, rows, "alone")
            for said in yardsticks(rows):
                yield self._result(said, rows, "yardstick")

    def _learned(self) -> Iterator[Json]:
        by_key = [keys(rows.prompts) for rows in self._sets]
        own = self._own(by_key)
        tasks = self._tasks(by_key)
        crossed = protocols.cross(self._sets, self._settings.seed) if "cross" in self._settings.protocols else []
        lessons = [lesson for parts in (*own.values(), *tasks.values()) for lesson, _ in parts]
        lessons += [lesson for lesson, _, _ in crossed]
        told = self._taught(lessons)
        for (number, labels), parts in own.items():
            said = protocols.together(LEARNED, parts, told, ranks=True)
            yield self._result(said, self._sets[number], "own", labels=labels)
        for number, parts in tasks.items():
            said = protocols.together(LEARNED, parts, told, ranks=False)
            yield self._result(said, self._sets[number], "task")
        for lesson, learned_from, numbers in crossed:
            for number, said in zip(numbers, told[lesson.name].said, strict=True):
                yield self._result(said, self._sets[number], "cross", learned_from=learned_from, **_sent(told[lesson.name], said))

    def _own(self, by_key: Sequence[Sequence[str]]) -> dict[tuple[int, int], protocols.Parts]:
        if "own" not in self._settings.protocols:
            return {}
        made: dict[tuple[int, int], protocols.Parts] = {}
        for number, found in enumerate(by_key):
            for labels in sorted(set(self._settings.labels)):
                parts = protocols.own(found, number, labels, self._settings.seed)
                if parts:
                    made[number, min(protocols.learned(lesson) for lesson, _ in parts)] = parts
        return made

    def _tasks(self, by_key: Sequence[Sequence[str]]) -> dict[int, protocols.Parts]:
        if "task" not in self._settings.protocols:
            return {}
        made = {
            number: protocols.tasks(found, self._sets[number].categories, number, self._settings.seed)
            for number, found in enumerate(by_key)
        }
        return {number: parts for number, parts in made.items() if parts}

    def _taught(self, lessons: Sequence[Lesson]) -> dict[str, Told]:
        if not lessons:
            return {}
        school = School([Taught(tuple(rows.prompts), rows.weak, rows.strong) for rows in self._sets])
        return school.all(lessons, self._settings.jobs, self._progress.step("policies trained", len(lessons)))

    def _result(self, said: Scored, rows: Outcomes, protocol: str, **more: Any) -> Json:
        settings = self._settings
        figures = measured(said, rows, Resamples(len(rows), settings.draws, settings.seed), settings.default)
        return {"set": rows.name, "protocol": protocol, **more, **figures}

    def _travels(self) -> Iterator[Json]:
        """For each router that needs no training: a threshold tuned on one set, and what it sends on each."""
        for name in self._routers:
            shares = [[self._sent(name, tuned, told) for told in range(len(self._sets))] for tuned in range(len(self._sets))]
            yield {"router": name, "tuned_to": travel.TUNED, "shares": shares}

    def _sent(self, name: str, tuned: int, told: int) -> float:
        default = self._settings.default
        cut = travel.threshold(self._said[tuned, name].scores, travel.TUNED, default)
        return travel.share(self._said[told, name].scores, cut, default)

    def _latencies(self) -> Iterator[Json]:
        prompts = prompts_of([prompt for rows in self._sets for prompt in prompts_of(rows.prompts)])
        long = long_asks(prompts)
        for name, score in self._routers.items():
            yield {"router": name, "prompts": latency(score, prompts), "long": latency(score, long)}


def about(rows: Outcomes) -> Json:
    return {
        "name": rows.name,
        "rows": len(rows),
        "weak": rows.pair[0],
        "strong": rows.pair[1],
        "pair": rows.chosen,
        "scale": rows.scale,
        "weak_mean": float(rows.weak.mean()),
        "strong_mean": float(rows.strong.mean()),
        "categories": len(set(rows.categories)),
        "unpaired": rows.unpaired,
        "contaminated": rows.contaminated,
        "sha256": rows.digest,
    }


def _sent(told: Told, said: Scored) -> Json:
    """The share that goes to the strong model by the threshold that the policy's own held-out rows ask for."""
    if not len(told.prior):
        return {}
    cut = travel.threshold((1 + told.prior[:, 1] - told.prior[:, 0]) / 2)
    return {"tuned_to": travel.TUNED, "sent": travel.share(np.nan_to_num(said.scores, nan=np.inf), cut)}
