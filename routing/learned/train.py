"""Outcomes of real models → a policy.

Method
- Features: TF-IDF of the hashed words and pairs that several texts have, and the amounts. Two ridge regressions: on the gap
  (large - small), for that is what a decision needs, and on the mean of both; the two heads are mean ∓ gap / 2.
- The penalty of the gap is the largest that ranks held-out texts about as well as the best does (the sum of rank times gap, with
  which the area under the curve of quality against share grows), that of the mean the one with the least held-out error.
- A base policy is a prior: what it judges is believed as far as the labels say, and corrected.
- Held out are whole groups: texts that begin alike, since those share a template.
- Calibration: a straight line from what held-out texts were judged to what they scored, for gap and mean. It never turns an order
  round or makes all texts alike: a regression that says little more than the mean of what it saw says less of a fold that scored
  more, so that of few labels the line seems to fall though the order is sound.
- A row with one score says something of the mean only, once the gap is known.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from routing.grams import Grams, grams_of
from routing.learned.file import write_policy
from routing.learned.policy import IDF_STEP, Head, Policy
from routing.learned.ridge import Floats, Ints, folds, ridge
from routing.learned.table import Row, Table, Vocabulary, table_of

__all__ = ["LEAST_ROWS", "Row", "TooFewRows", "train"]

LEAST_ROWS = 20
FOLDS = 5
MOST_PRIOR = 512
MOST_TRIED = 8000
LEAST_SLOPE, MOST_SLOPE = 0.1, 1.5
SLOPE_ROWS = 500  # labels that it takes to believe that a held-out slope is not 1
BASE_ROWS = 200  # labels that it takes to believe that a base policy's slope is not the usual one
USUAL_SLOPES = (0.6, 0.8)  # what the gap and the mean of a base policy are worth on other traffic
FAMILIAR = 0.01  # the share of held-out texts that may be called unknown, for their words and for their amounts each
FAMILIAR_PART = 0.1  # of what they have of the vocabulary: held-out texts have less of it than those it was made of
STRANGE = 1.5  # how much further from the usual than those an amount may be
DOUBT = 0.5  # standard errors of that sum that are about as well
LEAST_STRANGE = 30.0  # a feature that training never had, there in full, is 50
_FREE = 1e-3


@dataclass(frozen=True, slots=True)
class Penalty:
    """What a squared coefficient costs: of a gram, and of an amount."""

    grams: float
    amounts: float


# Amounts are few and in every text. At the price of grams they outweigh them in the gap, where they tell sets apart, not asks.
AMOUNTS_COST = 100.0
GAP_GRAMS = (5.0, 12.0, 30.0, 80.0, 400.0, 4000.0)
MEAN_PENALTIES = tuple(Penalty(grams, 10 * grams) for grams in (1.0, 3.0, 8.0, 20.0, 60.0, 400.0))


class TooFewRows(ValueError):  # noqa: N818 - says what is the matter
    """Less than LEAST_ROWS rows with both scores."""


@dataclass(frozen=True, slots=True)
class _Line:
    """A regression: coefficients of the grams and of the dense columns, and of what the base says."""

    grams: Floats
    dense: Floats
    slope: float

    def judge(self, table: Table, base: Floats) -> Floats:
        judged: Floats = table.grams.times(self.grams) + table.dense @ self.dense + self.slope * base
        return judged

    def straightened(self, at: float, slope: float) -> _Line:
        dense = self.dense * slope
        dense[0] += at
        return _Line(self.grams * slope, dense, self.slope * slope)


@dataclass(frozen=True, slots=True)
class _Aim:
    """What is regressed: a column of the table, and the base's judgement of it."""

    wanted: Callable[[Table], Floats]
    base: Callable[[Table], Floats]
    usual: float

    def fit(self, table: Table, penalty: Penalty) -> _Line:
        wanted, base, weights = self.wanted(table), self.base(table), table.weights
        slope = _slope(base, wanted, weights, self.usual, BASE_ROWS, 1.0)
        costs = np.full(table.dense.shape[1], penalty.amounts)
        costs[0] = _FREE
        grams, dense = ridge(table.grams, table.dense, wanted - slope * base, weights, penalty.grams, costs)
        return _Line(grams, dense, slope)

    def held_out(self, table: Table, fold: Ints, penalty: Penalty) -> Floats:
        """What each row is judged by a regression that has not seen its group."""
        judged = np.zeros(len(fold))
        for one in range(FOLDS):
            away, here = np.flatnonzero(fold == one), np.flatnonzero(fold != one)
            if len(away) and len(here):
                told = table.take(away)
                judged[away] = self.fit(table.take(here), penalty).judge(told, self.base(told))
        return judged


_GAP = _Aim(lambda table: table.gap, lambda table: table.base_gap, USUAL_SLOPES[0])
_MEAN = _Aim(lambda table: table.mean, lambda table: table.base_mean, USUAL_SLOPES[1])


def train(
    rows: Sequence[Row],
    *,
    base: Policy | None,
    seed: int,
    read: Sequence[Grams] | None = None,
    amounts_cost: float = AMOUNTS_COST,
) -> Policy:
    """A policy for what these rows came from; `read`: their grams, where they were read before. `amounts_cost`: of an amount in
    the gap, in penalties of a gram. Raises TooFewRows.
    """
    scored = [place for place, row in enumerate(rows) if row.small is not None or row.large is not None]
    read = [grams_of(rows[place].text) for place in scored] if read is None else [read[place] for place in scored]
    words = Vocabulary.of(read)
    table = table_of([rows[place] for place in scored], read, base, words)
    both = table.with_both()
    if len(both.gap) < LEAST_ROWS:
        raise TooFewRows(f"{len(both.gap)} rows have a score of either tier; {LEAST_ROWS} is the least")
    rng = np.random.default_rng(seed)
    fold = folds(both.groups, FOLDS, rng)
    costs = [Penalty(grams, amounts_cost * grams) for grams in GAP_GRAMS]
    gap, held_gap = _gap(both, fold, costs)
    mean, held_mean = _mean(_completed(table, gap), both, fold)
    prior = np.stack([held_mean - held_gap / 2, held_mean + held_gap / 2], axis=1)
    return _policy(words, gap, mean, table, rng.permutation(evenly(prior, held_gap)), base)


def _gap(both: Table, fold: Ints, penalties: Sequence[Penalty]) -> tuple[_Line, Floats]:
    """The regression on the gap, calibrated, and what it says of held-out rows."""
    tried, parts = _some(both, fold)
    ranked = [float((tried.weights * _ranks(_GAP.held_out(tried, parts, penalty))) @ tried.gap) for penalty in penalties]
    doubt = DOUBT * float(np.sqrt((tried.weights**2) @ (tried.gap - tried.gap.mean()) ** 2 / 12))
    best = penalties[max(place for place, gained in enumerate(ranked) if gained >= max(ranked) - doubt)]
    return _calibrated(_GAP.fit(both, best), _GAP.held_out(both, fold, best), both.gap, both.weights)


def _mean(table: Table, both: Table, fold: Ints) -> tuple[_Line, Floats]:
    """The same of the mean; `table` has the rows with one score as well."""
    tried, parts = _some(both, fold)
    errors = [float(tried.weights @ (_MEAN.held_out(tried, parts, penalty) - tried.mean) ** 2) for penalty in MEAN_PENALTIES]
    best = MEAN_PENALTIES[int(np.argmin(errors))]
    return _calibrated(_MEAN.fit(table, best), _MEAN.held_out(both, fold, best), both.mean, both.weights)


def _some(table: Table, fold: Ints) -> tuple[Table, Ints]:
    """Evenly taken rows, on which penalties are tried: more would take minutes and say the same."""
    step = -(-len(fold) // MOST_TRIED)
    return (table, fold) if step <= 1 else (table.take(np.arange(0, len(fold), step)), fold[::step])


def evenly(prior: Floats, by: Floats) -> Floats:
    """MOST_PRIOR of the rows, spread evenly over all: their quantiles and their mean are those of all."""
    count = min(MOST_PRIOR, len(by))
    places = ((np.arange(count) + 0.5) * len(by) / count).astype(int)
    spread: Floats = prior[np.argsort(by, kind="stable")[places]]
    return spread


def _completed(table: Table, gap: _Line) -> Table:
    """Rows with one score become means, by the gap that they are judged to have."""
    judged = gap.judge(table, table.base_gap)
    return replace(table, mean=table.mean - table.side * judged / 2)


def _ranks(values: Floats) -> Floats:
    ranks: Floats = np.argsort(np.argsort(values, kind="stable"), kind="stable") / max(1, len(values) - 1) - 0.5
    return ranks


def _calibrated(line: _Line, held: Floats, was: Floats, weights: Floats) -> tuple[_Line, Floats]:
    slope = max(LEAST_SLOPE, _slope(held, was, weights, 1.0, SLOPE_ROWS, MOST_SLOPE))
    at = float(np.average(was, weights=weights) - slope * np.average(held, weights=weights))
    return line.straightened(at, slope), at + slope * held


def _slope(said: Floats, was: Floats, weights: Floats, usual: float, rows: float, most: float) -> float:
    """Least squares, as if so many more rows had shown the usual slope; from 0 to the most."""
    total = float(weights.sum())
    apart = said - np.average(said, weights=weights)
    spread = float(weights @ apart**2)
    if spread <= 0 or total <= 0:
        return usual
    more = rows * spread / total
    slope = (float(weights @ (apart * (was - np.average(was, weights=weights)))) + more * usual) / (spread + more)
    return min(most, max(0.0, slope))


def _policy(words: Vocabulary, gap: _Line, mean: _Line, table: Table, prior: Floats, base: Policy | None) -> Policy:
    amounts = table.dense[:, 1:]
    usual, spread = amounts.mean(axis=0), amounts.var(axis=0)
    unnamed = Policy(
        version="",
        keys=array("Q", words.keys.tolist()),
        idf=bytes(np.round(words.idf * IDF_STEP).astype(int).tolist()),
        unmet=words.unmet,
        gap=_head(gap, words),
        mean=_head(mean, words),
        familiar=FAMILIAR_PART * float(np.quantile(table.familiar, FAMILIAR)),
        usual=tuple(usual.tolist()),
        spread=tuple(spread.tolist()),
        strange=0.0,
        prior=[(float(small), float(large)) for small, large in prior],
        base=base,
    )
    strangeness = [unnamed.strangeness(row) for row in amounts.tolist()]
    told = replace(unnamed, strange=max(LEAST_STRANGE, STRANGE * float(np.quantile(strangeness, 1 - FAMILIAR))))
    return replace(told, version=hashlib.sha256(write_policy(told)).hexdigest()[:12])


def _head(line: _Line, words: Vocabulary) -> Head:
    weights = line.grams * words.idf
    most = float(np.abs(weights).max(initial=0.0))
    step = most / 127 if most else 1.0
    steps = array("b", np.round(weights / step).astype(int).tolist())
    return Head(float(line.dense[0]), step, steps, tuple(line.dense[1:].tolist()), line.slope)
