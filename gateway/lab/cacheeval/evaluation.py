"""One embedder over all the data: what is scored, drawn or calibrated, as one part of the document."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor
from random import Random
from typing import Any

from caches.semantic.presets import MEASURED
from gateway.lab.cacheeval import report
from gateway.lab.cacheeval.calibrate import Calibration, calibrate, lines
from gateway.lab.cacheeval.clusters import clusters_of
from gateway.lab.cacheeval.cost import of_decision, of_embedding, of_verification
from gateway.lab.cacheeval.course import Course
from gateway.lab.cacheeval.curve import Curve, curve
from gateway.lab.cacheeval.drawing import Ask, Plan, ceilings, draw
from gateway.lab.cacheeval.halves import halves
from gateway.lab.cacheeval.judge import CrossEncoderJudge
from gateway.lab.cacheeval.lookups import Lookup, look_up, lookups
from gateway.lab.cacheeval.pairs import BadData, Data, Kind
from gateway.lab.cacheeval.policies import ALL, Cosine, Policy, Verdict
from gateway.lab.cacheeval.product import run as run_product
from gateway.lab.cacheeval.scoring import Candidate, candidates, rule, score
from gateway.lab.cacheeval.settings import Guards, Opened, Settings
from gateway.lab.cacheeval.shadow import Shadow
from gateway.lab.cacheeval.shelf import choose
from gateway.lab.cacheeval.stream import run as run_policy
from gateway.lab.cacheeval.vectors import Vectors
from gateway.lab.progress import Progress

_LEAST = 0.01  # the lowest cut that a config takes
Scored = list[tuple[float | None, bool]]


class Evaluation:
    def __init__(self, settings: Settings, opened: Opened, guards: Guards, progress: Progress) -> None:
        self._settings = settings
        self._opened = opened
        self._guards = guards
        self._progress = progress
        self._vectors = Vectors(opened.model, opened.covers)

    def of(self, data: Data) -> report.Json:
        """What was found out about one set of data. Raises BadData."""
        head = {"data": data.name, "embedder": self._opened.name}
        if self._settings.stream is not None:
            return {**head, "kind": "stream", **self._streamed(data, self._settings.stream)}
        self._embed(data, sorted({text for pair in data.pairs if not pair.barred for text in (pair.a, pair.b)}))
        if self._settings.calibrate:
            return {**head, "kind": "calibration", **self._calibrated(data)}
        if data.kind is Kind.LOOKUPS:
            return {**head, "kind": "lookups", **self._looked_up(data)}
        return {**head, "kind": "scores", **self._scored(data)}

    def cost(self) -> report.Json:
        """CPU of one lookup, over a sample of all texts."""
        pairs = [(pair.a, pair.b) for data in self._settings.data for pair in data.pairs if self._opened.covers(pair.b)]
        seed = self._settings.seed
        embedding = of_embedding(self._opened.model, [asked for _, asked in pairs], seed)
        deciding = of_decision(self._guards.all(self._settings.presets[0]), pairs, seed)
        told = {"embedding": report.cost(embedding), "decision": report.cost(deciding)}
        judge = self._settings.judge
        if isinstance(judge, CrossEncoderJudge):
            told["verification"] = report.cost(of_verification(judge, pairs, seed))
        return told

    def _embed(self, data: Data, texts: Sequence[str]) -> None:
        self._vectors.learn(texts, self._progress.step(f"{data.name}: embedding with {self._opened.name}", len(texts)))

    def _policies(self) -> list[Policy]:
        return [*map(self._guards.preset, self._settings.presets), *self._compared()]

    def _compared(self) -> list[Policy]:
        """Cuts of the user's own."""
        wanted = self._settings
        policies: list[Policy] = []
        for cut in wanted.thresholds:
            if wanted.guards is not True:
                policies.append(Cosine(cut))
            if wanted.guards is not False:
                policies.append(self._guards.guarded(cut))
        return policies

    # -- pair by pair

    def _scored(self, data: Data) -> report.Json:
        seen = candidates(data, self._vectors)
        scores = [report.score(score(policy, seen, self._settings.judge)) for policy in self._policies()]
        curves = [curve(name, _scores(policy, seen)) for name, policy in self._sweeps()]
        return {"scores": scores, "curves": [report.curve(it) for it in curves]}

    def _sweeps(self) -> list[tuple[str, Policy]]:
        """What is swept over all cuts: a policy that serves whatever has a vector and no veto."""
        bare: list[tuple[str, Policy]] = [("cosine", Cosine(ALL)), ("cosine + guards", self._guards.guarded(ALL))]
        return bare + [(policy.name, policy) for policy in map(self._guards.all, self._settings.presets)]

    # -- a table of lookups

    def _looked_up(self, data: Data) -> report.Json:
        asks = lookups(data, self._vectors)
        found = [report.found(look_up(policy, asks, self._settings.judge)) for policy in self._policies()]
        curves = [_lookup_curve(name, policy, asks) for name, policy in self._sweeps()]
        return {"lookups": found, "curves": [report.curve(it) for it in curves]}

    # -- a stream

    def _streamed(self, data: Data, plan: Plan) -> report.Json:
        clusters = clusters_of(data.pairs)
        if not clusters.members:
            raise BadData(f"{data.name}: no right pairs, so there are no clusters to draw from")
        asks = draw(clusters.members, plan)
        self._embed(data, sorted({ask.text for ask in asks}))
        courses = [self._product(name, asks) for name in self._settings.presets]
        told = [
            report.course(it, clusters.apart) for it in courses + [run_policy(it, asks, self._vectors) for it in self._compared()]
        ]
        if self._settings.shadow is not None:
            learning = [(still, self._learning(still.policy, asks, self._settings.shadow)) for still in courses]
            told += [report.course(it, clusters.apart, still) for still, it in learning]
        return {
            "clusters": {"used": len(clusters.members), "alone": clusters.alone, "conflicts": clusters.conflicts},
            "asks": report.ceilings(ceilings(asks)),
            "courses": told,
        }

    def _product(self, preset: str, asks: Sequence[Ask], shadow: Shadow | None = None) -> Course:
        return run_product(preset, asks, self._vectors, self._opened.covers, self._settings.judge, shadow)

    def _learning(self, preset: str, asks: Sequence[Ask], budget: int) -> Course:
        wanted = self._settings
        return self._product(preset, asks, Shadow(budget, Random(wanted.seed), wanted.max_error, wanted.shadow_share))

    # -- a calibration

    def _calibrated(self, data: Data) -> report.Json:
        if data.kind is Kind.LOOKUPS:
            raise BadData(f"{data.name}: a table of lookups has no traps, so nothing to calibrate on")
        chosen, told = halves(candidates(data, self._vectors), self._settings.seed)
        max_error = self._settings.max_error
        found = {name: self._calibration(name, chosen, told) for name in self._settings.presets}
        presets = {name: self._guards.preset(name) for name in found}
        own = {name: (score(it, chosen).total, score(it, told).total) for name, it in presets.items()}
        return {
            "fingerprint": self._opened.model.fingerprint,
            "calibrations": [{"preset": name, **report.calibration(it, *own[name])} for name, it in found.items()],
            "config": lines(
                found,
                {name: on_chosen for name, (on_chosen, _) in own.items()},
                max_error,
                measured=self._opened.model.fingerprint in MEASURED,
            ),
        }

    def _calibration(self, preset: str, chosen: Sequence[Candidate], told: Sequence[Candidate]) -> Calibration:
        policy = self._guards.all(preset)
        one, other = _scores(policy, chosen), _scores(policy, told)
        rounded = curve("chosen", [(None if cut is None or cut < _LEAST else _down(cut), same) for cut, same in one])
        return calibrate(rounded, one, other, self._settings.max_error)


def _scores(policy: Policy, seen: Sequence[Candidate]) -> Scored:
    """What a cut is held against; None where something else refuses."""
    rulings = [(rule(policy, it), it.pair.same) for it in seen]
    return [(ruling.score if ruling.verdict is Verdict.SERVE else None, same) for ruling, same in rulings]


def _lookup_curve(name: str, policy: Policy, asks: Sequence[Lookup]) -> Curve:
    served: Scored = []
    for ask in asks:
        choice = choose(policy, ask.pair.b, ask.near)
        if choice.served is not None:
            served.append((choice.served.score, choice.served.key == ask.pair.a))
    return curve(name, served, wanted=len(asks))


def _down(score: float) -> float:
    """As a cut is written into a config: exactly the scores that are at least that much then pass."""
    return floor(score * 1e4) / 1e4


def whole(settings: Settings, parts: Sequence[Any], embedders: Sequence[Any], parameters: report.Json) -> report.Json:
    return {
        "schema": report.SCHEMA,
        "parameters": parameters,
        "data": [report.data(it) for it in settings.data],
        "embedders": list(embedders),
        "results": list(parts),
        "machine": report.machine(("numpy", "onnxruntime", "tokenizers", "msgspec")),
    }
