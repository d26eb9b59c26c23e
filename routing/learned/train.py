"""Outcomes of real models → a policy.

Method
- Features: TF-IDF of the hashed words and pairs that LEAST_TEXTS texts have, the amounts, and, where there is a base policy, what
  it judges. Each head is a ridge regression on its own scores; one penalty serves both, so that their difference is a ridge
  regression on the gap. The penalty is the one whose held-out error of the gap is least.
- The base policy is a prior: its gap is offered as a feature, and the fewer labels there are the less is moved away from it.
- Held out are whole groups: texts that begin alike, since those share a template.
- Calibration: a straight line from what held-out texts were judged to what they scored, for the gap and for the mean of both
  heads, its slope between 0 and 1.
"""

from __future__ import annotations

import hashlib
import math
import re
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace
from zlib import crc32

import numpy as np

from routing.grams import Grams, grams_of
from routing.learned.file import write_policy
from routing.learned.policy import IDF_STEP, LEAST, MOST, Head, Policy
from routing.learned.ridge import Floats, Ints, Sparse, folds, ridge

LEAST_TEXTS = 3  # texts that a gram must be in: it is named in explanations, and a word of one text is that text's own
LEAST_ROWS = 20
PENALTIES = (3.0, 10.0, 30.0, 100.0)
FOLDS = 5
MOST_PRIOR = 512
_OPENING = 60  # characters that two texts of one template have in common
_FREE = 1e-3
AMOUNT_PENALTY = 10.0  # of an amount, in penalties of a gram: they are common, and few
# What a base policy's gap and mean are worth elsewhere, as slopes, and the labels that it takes to think otherwise.
USUAL_GAP_SLOPE = 0.5
USUAL_MEAN_SLOPE = 0.7
_BASE = 100.0
_SPREAD = 0.01  # variance of what a base policy says
FAMILIAR = 0.1


@dataclass(frozen=True, slots=True)
class Row:
    """One outcome: how good an answer of the cheapest and of the dearest tier was, 0-1; None is not known."""

    text: str
    small: float | None
    large: float | None
    weight: float = 1.0


class TooFewRows(ValueError):  # noqa: N818 - says what is the matter
    """Less than LEAST_ROWS rows with both scores."""


@dataclass(frozen=True, slots=True)
class _Table:
    """The rows as numbers. `scores` and `base`: of small and of large, two columns; scores are NaN where not known."""

    grams: Sparse
    dense: Floats
    base: Floats
    scores: Floats
    weights: Floats
    groups: Sequence[int]
    familiar: Floats

    def take(self, chosen: Ints) -> _Table:
        return _Table(
            self.grams.take(chosen),
            self.dense[chosen],
            self.base[chosen],
            self.scores[chosen],
            self.weights[chosen],
            [self.groups[row] for row in chosen],
            self.familiar[chosen],
        )


@dataclass(frozen=True, slots=True)
class _Heads:
    """Coefficients of small and of large: the grams', the dense columns'; and the base's slopes in gap and mean."""

    grams: tuple[Floats, Floats]
    dense: tuple[Floats, Floats]
    slopes: tuple[float, float]

    def judge(self, table: _Table) -> Floats:
        """Two columns: small and large."""
        heads = [table.grams.times(self.grams[side]) + table.dense @ self.dense[side] for side in (0, 1)]
        return np.stack(heads, axis=1) + _offset(table, self.slopes)


def train(rows: Sequence[Row], *, base: Policy | None, seed: int, read: Sequence[Grams] | None = None) -> Policy:
    """A policy for what these rows came from; `read`: their grams, where they were read before. Raises TooFewRows."""
    both = sum(row.small is not None and row.large is not None for row in rows)
    if both < LEAST_ROWS:
        raise TooFewRows(f"{both} rows have a score of either tier; {LEAST_ROWS} is the least")
    rng = np.random.default_rng(seed)
    read = [grams_of(row.text) for row in rows] if read is None else read
    keys, idf, unmet = _vocabulary(read)
    table = _table(rows, read, base, keys, idf, unmet)
    fold = folds(table.groups, FOLDS, rng)
    tried = [(_held_out(table, fold, penalty), penalty) for penalty in PENALTIES]
    held, penalty = min(tried, key=lambda one: _gap_error(one[0], table))
    heads = _fit(table, penalty)
    calibration = _calibration(held, table)
    return _policy(heads, keys, idf, unmet, calibration, _prior(held, calibration, rng), base)


def _vocabulary(read: Sequence[Grams]) -> tuple[Ints, Floats, float]:
    """The grams that LEAST_TEXTS texts have, in rising order, their idf in whole steps, and the idf of any other."""
    flat = np.fromiter((gram for grams in read for gram in grams.ids), dtype=np.int64)
    keys, counts = np.unique(flat, return_counts=True)
    kept = counts >= LEAST_TEXTS
    idf = np.log((1 + len(read)) / (1 + counts[kept])) + 1
    return keys[kept], np.minimum(np.round(idf * IDF_STEP), 255) / IDF_STEP, math.log((1 + len(read)) / 2) + 1


def _table(rows: Sequence[Row], read: Sequence[Grams], base: Policy | None, keys: Ints, idf: Floats, unmet: float) -> _Table:
    sizes = np.array([len(grams.ids) for grams in read])
    flat = np.fromiter((gram for grams in read for gram in grams.ids), dtype=np.int64)
    owners = np.repeat(np.arange(len(rows)), sizes)
    places = np.minimum(np.searchsorted(keys, flat), max(0, len(keys) - 1))
    met = keys[places] == flat if len(keys) else np.zeros(len(flat), dtype=bool)
    weight = np.where(met, idf[places], unmet) if len(keys) else np.full(len(flat), unmet)
    squares = np.bincount(owners, weights=weight**2, minlength=len(rows))
    known = np.bincount(owners, weights=weight**2 * met, minlength=len(rows))
    values = weight / np.sqrt(np.maximum(squares, 1e-12))[owners]
    judged = [base.judge_grams(grams) for grams in read] if base is not None else []
    nan = float("nan")
    return _Table(
        grams=Sparse.of(owners[met], places[met], values[met], (len(rows), len(keys))),
        dense=np.array([[1.0, *grams.amounts] for grams in read]),
        base=np.array([[one.small, one.large] for one in judged]) if judged else np.zeros((len(rows), 2)),
        scores=np.array([[nan if score is None else score for score in (row.small, row.large)] for row in rows]),
        weights=np.array([row.weight for row in rows], dtype=float),
        groups=[
            crc32(re.sub(r"\W+", " ", row.text[: 4 * _OPENING].lower())[:_OPENING].encode("utf-8", "replace")) for row in rows
        ],
        familiar=known / np.maximum(squares, 1e-12),
    )


def _fit(table: _Table, penalty: float) -> _Heads:
    slopes = _slopes(table)
    left = table.scores - _offset(table, slopes)
    dense_penalty = np.full(table.dense.shape[1], AMOUNT_PENALTY * penalty)
    dense_penalty[0] = _FREE
    found = []
    for side in (0, 1):
        has = ~np.isnan(table.scores[:, side])
        weights = np.where(has, table.weights, 0.0)
        wanted = np.where(has, left[:, side], 0.0)
        found.append(ridge(table.grams, table.dense, wanted, weights, penalty, dense_penalty))
    return _Heads((found[0][0], found[1][0]), (found[0][1], found[1][1]), slopes)


def _slopes(table: _Table) -> tuple[float, float]:
    """How far the base's gap and mean are to be believed here: least squares, pulled towards what is usual elsewhere."""
    has = ~np.isnan(table.scores).any(axis=1)
    weights = table.weights[has]
    found = []
    for of, usual in ((_gap, USUAL_GAP_SLOPE), (_mean, USUAL_MEAN_SLOPE)):
        said, was = of(table.base[has]), of(table.scores[has])
        said = said - np.average(said, weights=weights)
        was = was - np.average(was, weights=weights)
        found.append(float((weights @ (said * was) + _BASE * usual * _SPREAD) / (weights @ said**2 + _BASE * _SPREAD)))
    return max(0.0, found[0]), max(0.0, found[1])


def _offset(table: _Table, slopes: tuple[float, float]) -> Floats:
    gap, mean = slopes[0] * _gap(table.base), slopes[1] * _mean(table.base)
    return np.stack([mean - gap / 2, mean + gap / 2], axis=1)


def _gap(pair: Floats) -> Floats:
    return pair[:, 1] - pair[:, 0]


def _mean(pair: Floats) -> Floats:
    return (pair[:, 0] + pair[:, 1]) / 2


def _held_out(table: _Table, fold: Ints, penalty: float) -> Floats:
    """What each row is judged by heads that have not seen its group."""
    judged = np.zeros((len(fold), 2))
    for one in range(int(fold.max()) + 1):
        away = np.flatnonzero(fold == one)
        heads = _fit(table.take(np.flatnonzero(fold != one)), penalty)
        judged[away] = heads.judge(table.take(away))
    return judged


def _gap_error(held: Floats, table: _Table) -> float:
    has = ~np.isnan(table.scores).any(axis=1)
    error = _gap(held[has]) - _gap(table.scores[has])
    return float(np.average(error**2, weights=table.weights[has]))


def _calibration(held: Floats, table: _Table) -> tuple[tuple[float, float], tuple[float, float]]:
    has = ~np.isnan(table.scores).any(axis=1)
    weights, said, was = table.weights[has], held[has], table.scores[has]
    return _line(_gap(said), _gap(was), weights), _line(_mean(said), _mean(was), weights)


def _line(said: Floats, was: Floats, weights: Floats) -> tuple[float, float]:
    """Intercept and slope, the slope from 0 to 1."""
    middle, target = np.average(said, weights=weights), np.average(was, weights=weights)
    spread = weights @ (said - middle) ** 2
    slope = float(weights @ ((said - middle) * (was - target)) / spread) if spread > 0 else 0.0
    slope = min(1.0, max(0.0, slope))
    return float(target - slope * middle), slope


def _prior(
    held: Floats, calibration: tuple[tuple[float, float], tuple[float, float]], rng: np.random.Generator
) -> list[tuple[float, float]]:
    chosen = rng.permutation(len(held))[:MOST_PRIOR]
    (gap_at, gap_slope), (mean_at, mean_slope) = calibration
    gap, mean = gap_at + gap_slope * _gap(held[chosen]), mean_at + mean_slope * _mean(held[chosen])
    pairs = np.clip(np.stack([mean - gap / 2, mean + gap / 2], axis=1), LEAST, MOST)
    return [(float(small), float(large)) for small, large in pairs]


def _policy(
    heads: _Heads,
    keys: Ints,
    idf: Floats,
    unmet: float,
    calibration: tuple[tuple[float, float], tuple[float, float]],
    prior: list[tuple[float, float]],
    base: Policy | None,
) -> Policy:
    sides = [_head(heads.grams[side] * idf, heads.dense[side]) for side in (0, 1)]
    unnamed = Policy(
        version="",
        keys=array("Q", keys.tolist()),
        idf=bytes(np.round(idf * IDF_STEP).astype(int).tolist()),
        unmet=unmet,
        small=sides[0],
        large=sides[1],
        calibration=calibration,
        familiar=FAMILIAR,
        prior=prior,
        base=base,
        slopes=heads.slopes,
    )
    return replace(unnamed, version=hashlib.sha256(write_policy(unnamed)).hexdigest()[:12])


def _head(weights: Floats, dense: Floats) -> Head:
    most = float(np.abs(weights).max(initial=0.0))
    step = most / 127 if most else 1.0
    return Head(float(dense[0]), step, array("b", np.round(weights / step).astype(int).tolist()), tuple(dense[1:].tolist()))
