"""The result as one JSON document. `SCHEMA` changes when a name or a meaning does.

A share is told as its counts, its point and its 95 % interval by Wilson. Texts of the data are in it only as examples of errors.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
from collections.abc import Collection, Sequence
from dataclasses import asdict
from typing import Any

from gateway import __version__
from gateway.lab.cacheeval.calibrate import Calibration, needed
from gateway.lab.cacheeval.cost import Cost
from gateway.lab.cacheeval.course import Course, End
from gateway.lab.cacheeval.curve import BOUNDS, Curve, Point
from gateway.lab.cacheeval.drawing import Ceilings
from gateway.lab.cacheeval.lookups import Found
from gateway.lab.cacheeval.pairs import Data
from gateway.lab.cacheeval.scoring import EXAMPLES, Count, Score
from gateway.lab.cacheeval.wilson import Share

SCHEMA = "tiergate.cache-eval/1"
Json = dict[str, Any]


def share(it: Share) -> Json:
    low, high = it.interval
    return {"hits": it.hits, "of": it.of, "share": _rounded(it.point), "low": _rounded(low), "high": _rounded(high)}


def data(it: Data) -> Json:
    return {
        "name": it.name,
        "kind": it.kind.value,
        "pairs": len(it.pairs),
        "wanted": it.wanted,
        "traps": it.traps,
        "left_out": it.left_out,
        "files": [asdict(source) for source in it.sources],
    }


def count(it: Count) -> Json:
    served, wrong, right = it.shares
    return {"served": share(served), "traps_served": share(wrong), "precision": share(right)}


def score(it: Score) -> Json:
    return {
        "policy": it.policy,
        **count(it.total),
        "judge_asked": it.asked,
        "categories": {name: count(part) for name, part in sorted(it.categories.items()) if name},
        "refused_by": dict(it.refused.most_common()),
        "traps_refused_by": dict(it.stopped.most_common()),
        "examples": it.examples,
    }


def found(it: Found) -> Json:
    return {
        "policy": it.policy,
        "hits": share(Share(it.right + it.wrong, it.asked)),
        "right": share(Share(it.right, it.asked)),
        "wrong": share(Share(it.wrong, it.asked)),
        "judge_asked": it.verified,
        "missed_by": dict(it.missed.most_common()),
        "examples": it.examples,
    }


def curve(it: Curve) -> Json:
    return {
        "name": it.name,
        "wanted": it.wanted,
        "traps": it.traps,
        "at_error": [{"bound": bound, **_point(it, it.widest(bound))} for bound in BOUNDS],
        "points": [_point(it, point) for point in it.thinned()],
    }


def course(it: Course, apart: Collection[tuple[int, int]], beside: Course | None = None) -> Json:
    """`apart`: clusters that labels tell apart.

    `beside`: the same stream without learning, told for the questions after the last verification.
    """
    whole = {"policy": it.policy, **_ends(it, 0)}
    if it.learned_at is not None and beside is not None:
        whole["after_learning"] = {"from": it.learned_at, **_ends(it, it.learned_at)}
        whole["without_learning"] = _ends(beside, it.learned_at)
    return whole | {
        "embedded": it.embedded,
        "judge_asked": it.verified,
        "shadow_verified": it.shadowed,
        "wrong_once": share(Share(it.wrong_texts, len(it.ends))),
        "wrong_by_label": share(Share(it.labelled(apart), len(it.ends))),
        "examples": [
            {"stored": stored, "asked": asked, "times": times} for (stored, asked), times in it.wrong.most_common(EXAMPLES)
        ],
    }


def ceilings(it: Ceilings) -> Json:
    return {"asks": it.asks, "exact_alone": share(Share(it.texts, it.asks)), "ceiling": share(Share(it.clusters, it.asks))}


def calibration(it: Calibration, own_chosen: Count, own_told: Count) -> Json:
    """`own_…`: what the preset's own cut does on either half."""
    return {
        "own": {"chosen": count(own_chosen), "told": count(own_told)},
        "max_error": it.max_error,
        "chosen_on": it.chosen_on,
        "told_on": it.told_on,
        "cut": it.cut,
        "needed": needed(it.max_error),
        "chosen": None if it.chosen is None else count(it.chosen),
        "told": None if it.told is None else count(it.told),
    }


def cost(it: Cost) -> Json:
    return {"count": it.count, "mean_ms": _rounded(it.mean), "p50_ms": _rounded(it.p50), "p95_ms": _rounded(it.p95)}


def machine(packages: Sequence[str]) -> Json:
    return {
        "system": f"{platform.system()} {platform.release()}",
        "architecture": platform.machine(),
        "cores": os.cpu_count(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "versions": {"tiergate": __version__, **{name: _version(name) for name in packages}},
    }


def _ends(it: Course, begin: int) -> Json:
    ends, of = it.count(begin), len(it.ends) - begin
    hits = of - ends[End.MISS]
    parts = {"hits": hits, "exact": ends[End.EXACT], "semantic": ends[End.SEMANTIC], "wrong": ends[End.WRONG]}
    return {"asks": of, **{name: share(Share(part, of)) for name, part in parts.items()}}


def _point(it: Curve, point: Point | None) -> Json:
    if point is None:
        return {"cut": None, "served": 0, "wrong": 0, "recall": 0.0, "error": None}
    return {
        "cut": _rounded(point.cut),
        "served": point.served,
        "wrong": point.wrong,
        "recall": _rounded(it.recall(point)),
        "error": _rounded(point.error),
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
