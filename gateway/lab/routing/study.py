"""All routers over all sets, by all protocols: the document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gateway.lab.progress import Progress
from gateway.lab.routing import travel
from gateway.lab.routing.latency import latency, long_asks, prompts_of
from gateway.lab.routing.learning import Learning, seen
from gateway.lab.routing.measured import Measuring
from gateway.lab.routing.outcomes import Outcomes
from gateway.lab.routing.scored import LENGTH, SHIPPED, Judge, Scored, length, scored, yardsticks
from gateway.lab.routing.settings import Settings
from gateway.lab.routing.stream import streams

Json = dict[str, Any]


class Study:
    """`routers`: those that judge a prompt as they are, by name. The length of the prompt is always one of them, and the first:
    what is no better is not worth having.
    """

    def __init__(self, sets: Sequence[Outcomes], routers: Mapping[str, Judge], settings: Settings, progress: Progress) -> None:
        self._sets = sets
        self._routers = {LENGTH: length, **routers}
        self._settings = settings
        self._progress = progress
        self._said: dict[tuple[int, str], Scored] = {}
        self._measuring = Measuring(LENGTH, settings.draws, settings.seed, settings.default)

    def document(self, parameters: Json) -> Json:
        learning = Learning(self._sets, self._settings, self._progress)
        learned = (self._result(said, self._sets[number], **more) for said, number, more in learning.results())
        results = [*self._alone(), *learned]
        order = {rows.name: number for number, rows in enumerate(self._sets)}
        results.sort(key=lambda it: order[it["set"]])
        return {
            "parameters": parameters,
            "sets": [about(rows) for rows in self._sets],
            "results": results,
            "splits": list(learning.splits()),
            "travel": list(self._travels()) if len(self._sets) > 1 else [],
            "streams": list(self._streams()),
            "latency": list(self._latencies()) if self._sets else [],
        }

    def _alone(self) -> Iterator[Json]:
        for number, rows in enumerate(self._sets):
            for name, score in self._routers.items():
                said = scored(name, score, rows.prompts, self._progress.step(f"{rows.name}: {name}", len(rows)))
                self._said[number, name] = said
                yield self._result(said, rows, "alone", seen=name == SHIPPED and seen(rows.name))
            for said in yardsticks(rows):
                yield self._result(said, rows, "yardstick")

    def _result(self, said: Scored, rows: Outcomes, protocol: str, **more: Any) -> Json:
        return {"set": rows.name, "protocol": protocol, **more, **self._measuring.of(said, rows)}

    def _travels(self) -> Iterator[Json]:
        """For each router that needs no training: a threshold tuned on one set, and what it sends on each."""
        for name in self._routers:
            shares = [[self._sent(name, tuned, told) for told in range(len(self._sets))] for tuned in range(len(self._sets))]
            yield {"router": name, "tuned_to": travel.TUNED, "shares": shares}

    def _sent(self, name: str, tuned: int, told: int) -> float:
        default = self._settings.default
        cut = travel.threshold(self._said[tuned, name].scores, travel.TUNED, default)
        return travel.share(self._said[told, name].scores, cut, default)

    def _streams(self) -> Iterator[Json]:
        budgets = self._settings.budgets
        return streams(self._sets, budgets, self._settings, self._progress) if budgets else iter(())

    def _latencies(self) -> Iterator[Json]:
        prompts = prompts_of([prompt for rows in self._sets for prompt in prompts_of(rows.prompts)])
        long = long_asks(prompts)
        for name, score in self._routers.items():
            yield {"router": name, "prompts": latency(score, prompts), "long": latency(score, long)}


def about(rows: Outcomes) -> Json:
    return {
        "name": rows.name,
        "rows": len(rows),
        "of": rows.of,
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
