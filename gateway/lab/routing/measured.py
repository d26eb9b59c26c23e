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


def measured(said: Scored, rows: Outcomes, resamples: Resamples, default: Side) -> Json:
    score = placed(said.scores, default)
    draws = drawn(score, rows.weak, rows.strong, resamples, SHARES)
    return {
        "router": said.router,
        "rows": len(rows),
        "abstained": said.abstained,
        "apgr": figure(apgr(score, rows.weak, rows.strong), interval(draws.apgr)),
        "cpt50": figure(cpt(score, rows.weak, rows.strong, 0.5), interval(draws.cpt50)),
        "cpt80": figure(cpt(score, rows.weak, rows.strong, 0.8), interval(draws.cpt80)),
        "quality": _qualities(score, rows, draws),
        "calibration": calibration(said, rows, resamples),
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
