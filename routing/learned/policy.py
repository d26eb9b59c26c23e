"""What was learned, and a text judged by it.

Two linear heads over the grams and amounts of a text, P(small is good enough) and P(large is good enough). A gram weighs by its
rarity (TF-IDF: its presence times `idf`, over the length of the vector), and grams that training never met lengthen the vector:
a text of unknown words is pulled towards what is usual, and where too little of it is known nothing is claimed (`known`).
The heads are linear, so their difference is itself a ridge regression on the gap, which is what a decision needs.
"""

from __future__ import annotations

import heapq
import math
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from routing.grams import AMOUNTS, Grams, grams_of, hashes, pairs

TERMS = 6
IDF_STEP = 24  # an idf is kept as a byte, in steps of 1/24
LEAST, MOST = 0.01, 0.99


@dataclass(frozen=True, slots=True)
class Judged:
    """P(good enough) of either end of the tiers, whether enough of the text was known to say so, and what spoke, by its part in
    the difference `large - small`, strongest first. A gram is named only if training met it in several texts.
    """

    small: float
    large: float
    known: bool
    terms: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class Head:
    """`weights` of the grams in steps of `step`, idf included; `amounts` in the order of AMOUNTS."""

    bias: float
    step: float
    weights: array[int]
    amounts: Sequence[float]


@dataclass(frozen=True)
class Policy:
    """`keys`: hashes of the grams in the order of the heads' weights. `idf`: theirs, in steps. `unmet`: the idf of all others.

    `calibration`: (intercept, slope) of the gap and of the mean of both heads. `familiar`: the least share of a text's weight
    that must have been met in training. `prior`: what held-out texts of the training were judged, (small, large) each. `base`:
    the policy that this one corrects, and `slopes`: how much its gap and its mean count.
    """

    version: str
    keys: Sequence[int]
    idf: bytes
    unmet: float
    small: Head
    large: Head
    calibration: tuple[tuple[float, float], tuple[float, float]]
    familiar: float
    prior: Sequence[tuple[float, float]]
    base: Policy | None = None
    slopes: tuple[float, float] = (0.0, 0.0)

    @cached_property
    def _places(self) -> Mapping[int, int]:
        return {key: place for place, key in enumerate(self.keys)}

    @cached_property
    def _squares(self) -> array[float]:
        return array("f", [(step / IDF_STEP) ** 2 for step in self.idf])

    def judge(self, text: str) -> Judged:
        """A text of bounded length (see `conversation`)."""
        return self.judge_grams(grams_of(text))

    def judge_grams(self, grams: Grams) -> Judged:
        find = self._places.get
        met = [place for gram in grams.ids if (place := find(gram)) is not None]
        met_square = sum(map(self._squares.__getitem__, met))
        square = met_square + (len(grams.ids) - len(met)) * self.unmet**2
        scale = 1.0 / math.sqrt(square) if square else 0.0
        small, large = self._raw(self.small, grams, met, scale), self._raw(self.large, grams, met, scale)
        (gap_at, gap_slope), (mean_at, mean_slope) = self.calibration
        gap = gap_at + gap_slope * (large - small)
        mean = mean_at + mean_slope * (large + small) / 2
        known = bool(square) and met_square >= self.familiar * square
        terms = self._terms(grams, met, scale)
        if self.base is not None:
            below = self.base.judge_grams(grams)
            gap += gap_slope * self.slopes[0] * (below.large - below.small)
            mean += mean_slope * self.slopes[1] * (below.large + below.small) / 2
            known = known or below.known
            terms += [(name, part * self.slopes[0] * gap_slope) for name, part in below.terms]
        terms.sort(key=_weight)
        return Judged(_bounded(mean - gap / 2), _bounded(mean + gap / 2), known, tuple(terms[:TERMS]))

    @staticmethod
    def _raw(head: Head, grams: Grams, met: list[int], scale: float) -> float:
        spoken = sum(map(head.weights.__getitem__, met)) * head.step * scale
        return head.bias + spoken + sum(weight * amount for weight, amount in zip(head.amounts, grams.amounts, strict=True))

    def _terms(self, grams: Grams, met: list[int], scale: float) -> list[tuple[str, float]]:
        """The strongest grams and amounts, by what they add to the gap."""
        small, large, slope = self.small, self.large, self.calibration[0][1]
        up, down = large.step * scale * slope, small.step * scale * slope
        parts = [(large.weights[place] * up - small.weights[place] * down, place) for place in met]
        strongest = [(part, self.keys[place]) for part, place in heapq.nlargest(TERMS, parts, key=_strength) if part]
        named = _names(grams.words, {key for _, key in strongest})
        terms = [(named[key], part) for part, key in strongest]
        for name, amount, more, less in zip(AMOUNTS, grams.amounts, large.amounts, small.amounts, strict=True):
            if amount and more != less:
                terms.append((name, (more - less) * amount * slope))
        return terms

    @classmethod
    def load(cls, path: Path) -> Policy:
        """Raises BadPolicy (see `file`) or OSError."""
        from routing.learned.file import read_policy  # noqa: PLC0415 - the two describe each other

        return read_policy(path.read_bytes())

    def save(self, path: Path) -> None:
        from routing.learned.file import write_policy  # noqa: PLC0415 - the two describe each other

        path.write_bytes(write_policy(self))


def _weight(term: tuple[str, float]) -> float:
    return -abs(term[1])


def _strength(part: tuple[float, int]) -> float:
    return abs(part[0])


def _bounded(value: float) -> float:
    return min(MOST, max(LEAST, value))


def _names(words: Sequence[str], wanted: set[int]) -> dict[int, str]:
    """The words or pairs that the hashes stand for in this text, in quotation marks: they are words, not features."""
    hashed = hashes(words)
    named = {gram: f'"{word}"' for word, gram in zip(words, hashed, strict=True) if gram in wanted}
    for place, gram in enumerate(pairs(hashed)):
        if gram in wanted:
            named[gram] = f'"{words[place]} {words[place + 1]}"'
    return named
