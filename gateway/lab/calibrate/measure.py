"""How good a policy is on requests that it has not seen, and what two of them differ by on the same ones.

Held out is by time, as the policy would have met them: the newer half is cut into BLOCKS, and each is judged by a policy that was
trained on everything before it. What is put in force in the end is trained on all, so it knows a little more than what was
measured. A request whose very words were in the training is left out. Against it stands the policy in force, on the same
requests, of which those count that are newer than everything it was trained on. Of a block what counts is the order within it:
its scores become ranks, of both policies, since each block has a policy of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from gateway.lab.calibrate.samples import Sample
from gateway.lab.routing.metrics import Floats, Interval, Resamples, curves, drawn, ece, interval, placed, ranked
from routing.learned.policy import Judged

BLOCKS = 5
QUALITY = 0.95  # of the large tier's, for the share that is kept from it


@dataclass(frozen=True, slots=True)
class Figure:
    """A number with its interval; None where there is none."""

    value: float | None
    low: float | None = None
    high: float | None = None

    @classmethod
    def of(cls, value: float, between: Interval | None) -> Figure:
        if np.isnan(value):
            return cls(None)
        return cls(value) if between is None else cls(value, between.low, between.high)


@dataclass(frozen=True, slots=True)
class Figures:
    """`ece` is that of P(small is good enough); `kept`: the share that may stay small at QUALITY of the large tier's quality;
    `unknown`: the share that it says nothing of.
    """

    apgr: Figure
    cpt50: Figure
    cpt80: Figure
    ece: Figure
    brier: Figure
    kept: float
    unknown: float


@dataclass(frozen=True, slots=True)
class Told:
    """What one policy said of each request: the score that it is sent to the large tier by, and both probabilities."""

    scores: Floats
    small: Floats
    large: Floats
    unknown: float

    @classmethod
    def of(cls, judged: Sequence[Judged], blocks: Sequence[int] = ()) -> Told:
        """`blocks`: how many in a row are of one."""
        scores = np.array([one.score if one.known else np.nan for one in judged])
        edges = np.cumsum([0, *blocks])
        parts = [ranked(scores[start:end]) for start, end in pairwise(edges)]
        return cls(
            placed(np.concatenate(parts) if parts else scores),
            np.array([one.small for one in judged]),
            np.array([one.large for one in judged]),
            float(np.mean([not one.known for one in judged])),
        )


@dataclass(frozen=True, slots=True)
class Draws:
    apgr: Floats
    brier: Floats


@dataclass(frozen=True, slots=True)
class Outcomes:
    small: Floats
    large: Floats

    @classmethod
    def of(cls, samples: Sequence[Sample]) -> Outcomes:
        return cls(np.array([one.small for one in samples], dtype=float), np.array([one.large for one in samples], dtype=float))


@dataclass(frozen=True, slots=True)
class Block:
    """`tested` are to be judged by what is learned of the first `known`."""

    known: int
    tested: list[Sample]


def held_out(samples: Sequence[Sample], since: float) -> list[Block]:
    """The requests newer than `since` that can be held out."""
    found: list[Block] = []
    half = len(samples) // 2
    edges = [half + (len(samples) - half) * block // BLOCKS for block in range(BLOCKS + 1)]
    for start, end in pairwise(edges):
        seen = {sample.mark for sample in samples[:start]}
        block = [one for one in samples[start:end] if one.paired and one.mark not in seen and one.at > since]
        if block:
            found.append(Block(start, block))
    return found


def measure(told: Told, was: Outcomes, resamples: Resamples) -> tuple[Figures, Draws]:
    """The draws are the same for every policy that is measured on the same requests."""
    counts = np.concatenate(list(resamples))
    curve, many = curves(told.scores, was.small, was.large), drawn(told.scores, was.small, was.large, resamples)
    errors = (told.small - was.small) ** 2 + (told.large - was.large) ** 2
    brier = (counts @ errors) / counts.sum(axis=1)
    figures = Figures(
        apgr=Figure.of(float(curve.apgr()[0]), interval(many.apgr)),
        cpt50=Figure.of(float(curve.cpt(0.5)[0]), interval(many.cpt50)),
        cpt80=Figure.of(float(curve.cpt(0.8)[0]), interval(many.cpt80)),
        ece=Figure.of(float(ece(told.small, was.small)[0]), interval(ece(told.small, was.small, counts))),
        brier=Figure.of(float(errors.mean()), interval(brier)),
        kept=_kept(told, was),
        unknown=told.unknown,
    )
    return figures, Draws(many.apgr, brier)


def _kept(told: Told, was: Outcomes) -> float:
    curve, weak, strong = curves(told.scores, was.small, was.large), was.small.mean(), was.large.mean()
    wanted = QUALITY * strong - weak
    if wanted <= 0:
        return 1.0
    return 1.0 - float(curve.cpt(wanted / (strong - weak))[0])
