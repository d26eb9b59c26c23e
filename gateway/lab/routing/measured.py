"""The figures of one router on one set of rows, with their intervals, as the document has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gateway.lab.routing.metrics import (
    Drawn,
    Floats,
    Interval,
    Resamples,
    Side,
    apgr,
    brier,
    cpt,
    curves,
    drawn,
    ece,
    interval,
    placed,
    ranked,
)
from gateway.lab.routing.outcomes import Outcomes
from gateway.lab.routing.scored import Scored

Json = dict[str, Any]
SHARES = tuple(round(share / 20, 2) for share in range(21))  # of the picture


class Measuring:
    """`beside`: by set, the router that all others are compared with, draw by draw; it is to be measured first."""

    def __init__(self, beside: str, draws: int, seed: int, default: Side) -> None:
        self._beside = beside
        self._draws = draws
        self._seed = seed
        self._default = default
        self._first: dict[str, tuple[float, Floats]] = {}

    def of(self, said: Scored, rows: Outcomes) -> Json:
        resamples = Resamples(len(rows), self._draws, self._seed)
        score = placed(said.scores, self._default)
        draws = drawn(score, rows.weak, rows.strong, resamples, SHARES)
        value = apgr(score, rows.weak, rows.strong)
        if said.router == self._beside:
            self._first[rows.name] = value, draws.apgr
        other, others = self._first[rows.name]
        figures = _figures(said, score, rows, draws, self._default)
        return {
            **figures,
            "apgr": figure(value, interval(draws.apgr)),
            f"over_{self._beside}": figure(value - other, interval(draws.apgr - others)),
            "calibration": calibration(said, rows, resamples),
        }


def _figures(said: Scored, score: Floats, rows: Outcomes, draws: Drawn, default: Side) -> Json:
    return {
        "router": said.router,
        "rows": len(rows),
        "abstained": said.abstained,
        "cpt50": figure(cpt(score, rows.weak, rows.strong, 0.5), interval(draws.cpt50)),
        "cpt80": figure(cpt(score, rows.weak, rows.strong, 0.8), interval(draws.cpt80)),
        "quality": _qualities(score, rows, draws),
        "within_categories": within(said.scores, rows, default),
    }


def figure(value: float, around: Interval | None) -> Json:
    return {
        "value": None if np.isnan(value) else value,
        "low": None if around is None else around.low,
        "high": None if around is None else around.high,
    }


def calibration(said: Scored, rows: Outcomes, resamples: Resamples) -> Json | None:
    """Of the rows that the router claims to know, where it tells probabilities; None where it tells none."""
    if said.small is None or said.large is None:
        return None
    known = ~(np.isnan(said.scores) | np.isnan(said.small) | np.isnan(said.large))
    if not known.any():
        return None
    heads = {}
    for name, told, was in (("small", said.small, rows.weak), ("large", said.large, rows.strong)):
        guess, outcome = told[known], was[known]
        own = Resamples(len(guess), resamples.draws, resamples.seed)
        around = interval(np.concatenate([ece(guess, outcome, counts) for counts in own]))
        heads[name] = {"ece": figure(float(ece(guess, outcome)[0]), around), "brier": brier(guess, outcome)}
    return {"rows": int(known.sum()), **heads}


def within(scores: Floats, rows: Outcomes, default: Side) -> float | None:
    """APGR where each category sends the same share of its rows: no credit for telling categories apart."""
    if len(set(rows.categories)) < 2:
        return None
    categories, order = np.array(rows.categories), np.empty(len(rows))
    for category in set(rows.categories):
        inside = categories == category
        order[inside] = ranked(placed(scores[inside], default))
    value = apgr(order, rows.weak, rows.strong)
    return None if np.isnan(value) else value


def _qualities(score: Floats, rows: Outcomes, draws: Drawn) -> list[Mapping[str, float]]:
    """`low`, `high`: of the distance from chance, which is the straight line from the weak model to the strong one; paired, since
    how good the two are on these rows is not the router's matter.
    """
    curve = curves(score, rows.weak, rows.strong)
    share = np.array(SHARES)
    weak, strong = draws.qualities[:, :1], draws.qualities[:, -1:]
    edges = np.quantile(draws.qualities - (weak + (strong - weak) * share), [0.025, 0.975], axis=0)
    chance = rows.weak.mean() + rows.gap.mean() * share
    return [
        {"share": at, "value": float(curve.quality(at)[0]), "low": float(line + low), "high": float(line + high)}
        for at, line, low, high in zip(SHARES, chance, *edges, strict=True)
    ]
