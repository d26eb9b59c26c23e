"""How good an order of prompts is at choosing what to send to the strong model, and how true its probabilities are.

APGR and CPT are those of RouteLLM (Ong et al., "RouteLLM: Learning to Route LLMs with Preference Data", 2024). Prompts are sent
to the strong model from the highest score downwards. With a share a of them sent, the mean quality is Q(a), and
    PGR(a) = (Q(a) - Q(0)) / (Q(1) - Q(0))    performance gap recovered
    APGR   = ∫ PGR(a) da over 0..1            a random order, or one score for all, has .50
    CPT(x) = the least a with PGR(a) >= x     CPT(50), CPT(80): calls to the strong model that buy so much of the gap

Rules
- Equal scores are sent in random order, in expectation: across a tie the curve is a straight line.
- A score of NaN is "don't know": one tie on the side of the default tier, beyond all scores (`placed`).
- Where the strong model is not the better one on the rows at hand, APGR and CPT mean nothing, and are NaN.
- The bootstrap draws rows with replacement, by seed: the same draws for all that is measured on the same rows, so that
  differences may be paired. An interval is the middle 95 % of the draws; there is none where too many draws have no gap.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Side = Literal["small", "large"]

BINS = 10  # of equal width over 0..1, in `ece`
DRAWS = 1000
CONFIDENCE = 0.95
UNDEFINED = 0.01  # at most so many draws may be without a gap where an interval is told

_CHUNK = 1 << 20  # cells of a table of draws that are held at once


def placed(scores: Sequence[float | None] | Floats, default: Side = "large") -> Floats:
    """Scores as numbers, with "don't know" beyond all others on the side of the default tier."""
    known = np.array([np.nan if score is None else score for score in scores], dtype=np.float64)
    return np.where(np.isnan(known), np.inf if default == "large" else -np.inf, known)


def ranked(scores: Floats) -> Floats:
    """Scores as their middle ranks, 0-1, ties alike; "don't know" stays what it is and counts as above all others.

    For orders that are to be put together though their scores mean different things.
    """
    ordered = placed(scores)
    _, which, counts = np.unique(ordered, return_inverse=True, return_counts=True)
    middle = (np.cumsum(counts) - counts / 2) / max(1, len(scores))
    return np.where(np.isnan(scores), np.nan, middle[which])


@dataclass(frozen=True, slots=True)
class Curves:
    """Curves of quality against share, one a row; each is straight between its points.

    `sent`: shares from 0 to 1. `gained`: mean quality above the weak model's at that share. `weak`: the weak model's mean.
    """

    sent: Floats
    gained: Floats
    weak: Floats

    def apgr(self) -> Floats:
        width = np.diff(self.sent, axis=1)
        area = (width * (self.gained[:, 1:] + self.gained[:, :-1])).sum(axis=1) / 2
        return _over(area, self.gained[:, -1])

    def cpt(self, recovered: float) -> Floats:
        """The least share that recovers so much of the gap: where the curve first reaches it."""
        wanted = recovered * self.gained[:, -1]
        return np.where(self.gained[:, -1] > 0, self._first(wanted), np.nan)

    def quality(self, share: float) -> Floats:
        """Mean quality with that share sent to the strong model."""
        after = np.clip((self.sent < share).sum(axis=1), 1, self.sent.shape[1] - 1)
        return self.weak + self._between(self.sent, self.gained, np.full(len(self.weak), share), after)

    def gap(self) -> Floats:
        return self.gained[:, -1]

    def _first(self, wanted: Floats) -> Floats:
        after = np.clip((self.gained >= wanted[:, None]).argmax(axis=1), 1, None)
        return self._between(self.gained, self.sent, wanted, after)

    def _between(self, along: Floats, value: Floats, place: Floats, after: NDArray[np.intp]) -> Floats:
        row = np.arange(len(after))
        low, high = along[row, after - 1], along[row, after]
        step = high - low
        part = np.divide(place - low, step, out=np.zeros_like(step), where=step != 0)
        return np.asarray(value[row, after - 1] + np.clip(part, 0, 1) * (value[row, after] - value[row, after - 1]))


def curves(scores: ArrayLike, weak: ArrayLike, strong: ArrayLike, counts: NDArray[np.generic] | None = None) -> Curves:
    """`counts`: how often each row is there, one curve for each line of them; None: each once."""
    score, low, high = (np.asarray(values, dtype=np.float64) for values in (scores, weak, strong))
    if not len(score) == len(low) == len(high) or not len(score):
        raise ValueError("scores and outcomes are to be of one length, and of one row at least")
    if np.isnan(score).any():
        raise ValueError("a score is missing: see `placed`")
    times = np.ones((1, len(score))) if counts is None else counts.astype(np.float64)
    order = np.argsort(-score, kind="stable")
    down = score[order]
    starts = np.flatnonzero(np.concatenate(([True], down[1:] != down[:-1])))
    total = times.sum(axis=1, keepdims=True)
    sent = np.add.reduceat(times[:, order], starts, axis=1).cumsum(axis=1) / total
    gained = np.add.reduceat(times[:, order] * (high - low)[order], starts, axis=1).cumsum(axis=1) / total
    nothing = np.zeros((len(times), 1))
    mean = (times @ low) / total[:, 0]
    return Curves(np.hstack([nothing, sent]), np.hstack([nothing, gained]), mean)


def apgr(scores: ArrayLike, weak: ArrayLike, strong: ArrayLike) -> float:
    return float(curves(scores, weak, strong).apgr()[0])


def cpt(scores: ArrayLike, weak: ArrayLike, strong: ArrayLike, recovered: float) -> float:
    return float(curves(scores, weak, strong).cpt(recovered)[0])


def quality_at(scores: ArrayLike, weak: ArrayLike, strong: ArrayLike, share: float) -> float:
    return float(curves(scores, weak, strong).quality(share)[0])


def ece(told: ArrayLike, was: ArrayLike, counts: NDArray[np.generic] | None = None, bins: int = BINS) -> Floats:
    """Expected calibration error: |mean told - mean outcome| over bins of equal width, weighted by rows. One for each line of
    `counts`.

    Binned by what was told, as in Guo et al., "On Calibration of Modern Neural Networks" (2017). Outcomes are 0-1. Even what is
    perfectly calibrated measures above nothing, the more so the fewer the rows.
    """
    guess, outcome = _pair(told, was)
    times = np.ones((1, len(guess))) if counts is None else counts.astype(np.float64)
    place = np.minimum((guess * bins).astype(np.intp), bins - 1)
    off = np.zeros(len(times))
    for number in range(bins):
        inside = place == number
        if inside.any():
            off += np.abs(times[:, inside] @ (guess - outcome)[inside])
    return np.asarray(off / times.sum(axis=1))


def brier(told: ArrayLike, was: ArrayLike) -> float:
    """Mean squared distance of what was told from the outcome."""
    guess, outcome = _pair(told, was)
    return float(((guess - outcome) ** 2).mean())


@dataclass(frozen=True, slots=True)
class Resamples:
    """Draws of `rows` rows with replacement: the same ones each time they are gone through."""

    rows: int
    draws: int = DRAWS
    seed: int = 0

    def __iter__(self) -> Iterator[NDArray[np.uint16]]:
        """How often each row was drawn, some draws at a time."""
        random = np.random.default_rng([self.seed, self.rows])
        some = max(1, _CHUNK // max(1, self.rows))
        for start in range(0, self.draws, some):
            count = min(some, self.draws - start)
            drawn = [np.bincount(random.integers(0, self.rows, self.rows), minlength=self.rows) for _ in range(count)]
            yield np.array(drawn, dtype=np.uint16)


@dataclass(frozen=True, slots=True)
class Interval:
    low: float
    high: float


def interval(values: Floats) -> Interval | None:
    """The middle 95 % of draws; None where more than UNDEFINED of them mean nothing."""
    known = values[~np.isnan(values)]
    if len(known) < len(values) * (1 - UNDEFINED) or not len(known):
        return None
    edge = (1 - CONFIDENCE) / 2
    low, high = np.quantile(known, [edge, 1 - edge])
    return Interval(float(low), float(high))


@dataclass(frozen=True, slots=True)
class Drawn:
    """What the draws of one router on one set of rows measured, in the order of the draws."""

    apgr: Floats
    cpt50: Floats
    cpt80: Floats
    qualities: Floats  # draws × shares


def drawn(scores: Floats, weak: Floats, strong: Floats, resamples: Resamples, shares: Sequence[float] = ()) -> Drawn:
    """Subtract two of them for a paired difference."""
    parts = [curves(scores, weak, strong, counts) for counts in resamples]
    qualities = [np.stack([it.quality(share) for share in shares], axis=1) for it in parts] if shares else []
    return Drawn(
        np.concatenate([it.apgr() for it in parts]),
        np.concatenate([it.cpt(0.5) for it in parts]),
        np.concatenate([it.cpt(0.8) for it in parts]),
        np.concatenate(qualities) if qualities else np.zeros((resamples.draws, 0)),
    )


def _over(value: Floats, gap: Floats) -> Floats:
    return np.asarray(np.divide(value, gap, out=np.full(len(gap), np.nan), where=gap > 0))


def _pair(told: ArrayLike, was: ArrayLike) -> tuple[Floats, Floats]:
    guess, outcome = np.asarray(told, dtype=np.float64), np.asarray(was, dtype=np.float64)
    if guess.shape != outcome.shape or guess.ndim != 1 or not len(guess):
        raise ValueError("what was told and what came of it are to be of one length, and of one row at least")
    if not ((guess >= 0) & (guess <= 1)).all() or not ((outcome >= 0) & (outcome <= 1)).all():
        raise ValueError("probabilities and outcomes go from 0 to 1")
    return guess, outcome
