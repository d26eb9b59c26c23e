"""What was learned, and a text judged by it.

Two linear functions of the grams and amounts of a text: the gap (how much likelier the dearest tier is good enough than the
cheapest) and the mean of both chances. The heads P(small is good enough) and P(large is good enough) are mean ∓ gap / 2.

A gram weighs by its rarity (TF-IDF: its presence times `idf`, over the length of the vector), and grams that training never met
lengthen the vector, up to twice: a text of unknown words is pulled towards what is usual. Where too little of its words is known,
or its amounts lie far from all that was met (`strangeness`), nothing is claimed.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter, mul, sub, truediv
from pathlib import Path
from statistics import median
from typing import TypeVar

from routing.grams import AMOUNTS, Grams, grams_of

_T = TypeVar("_T")

TERMS = 6
IDF_STEP = 24  # an idf is kept as a byte, in steps of 1/24
LEAST, MOST = 0.01, 0.99
MOST_UNMET = 3.0  # of the weight that is known, so much of the unknown lengthens a vector: at most to twice its length
_KNEE = 0.9  # of gaps
_LEAST_SPREAD = 0.02  # variance that any amount may have, though training showed less


@dataclass(slots=True)  # made for every request: a frozen one takes six times as long to make
class Judged:
    """P(good enough) of either end of the tiers, whether enough of the text was known to say so, and what spoke, by its part in
    the gap, strongest first. A gram is named only if training met it in several texts. `gap`, `mean`: unbounded.
    """

    small: float
    large: float
    known: bool
    terms: tuple[tuple[str, float], ...]
    gap: float
    mean: float

    @property
    def score(self) -> float:
        """By the gap alone: that of both chances is less where one of them meets a bound, and so in another order."""
        return score_of(self.gap)


@dataclass(frozen=True, slots=True)
class Head:
    """`weights` of the grams in steps of `step`, idf included; `amounts` in the order of AMOUNTS; `base`: how much the same head
    of the policy below counts.
    """

    bias: float
    step: float
    weights: array[int]
    amounts: Sequence[float]
    base: float = 0.0

    def of(self, steps: float, grams: Grams) -> float:
        return self.bias + steps * self.step + sum(map(mul, self.amounts, grams.amounts), 0.0)


@dataclass(frozen=True)
class Policy:
    """`keys`: hashes of the grams in the order of the heads' weights. `idf`: theirs, in steps. `unmet`: the idf of all others.

    `familiar`: the least share of a text's weight that must have been met in training. `usual`, `spread`: mean and variance of
    each amount there; `strange`: the most that a text's may be away from them. `prior`: what held-out texts of the training were
    judged, (small, large) each, unbounded. `base`: the policy that this one corrects.
    """

    version: str
    keys: Sequence[int]
    idf: bytes
    unmet: float
    gap: Head
    mean: Head
    familiar: float
    usual: Sequence[float]
    spread: Sequence[float]
    strange: float
    prior: Sequence[tuple[float, float]]
    base: Policy | None = None

    @property
    def scores(self) -> list[float]:
        """Of the prior."""
        return [score_of(large - small) for small, large in self.prior]

    @cached_property
    def middle(self) -> float:
        """The score that half of the prior is below."""
        return median(self.scores) if self.prior else 0.5

    @property
    def chances(self) -> list[tuple[float, float]]:
        """Of the prior: P(good enough) of either end."""
        return [(_bounded(small), _bounded(large)) for small, large in self.prior]

    @cached_property
    def _places(self) -> Mapping[int, int]:
        """Counted from the end, so that none is 0, which a filter would leave out."""
        return {key: place - len(self.keys) for place, key in enumerate(self.keys)}

    @cached_property
    def _squares(self) -> list[float]:
        squares = [(step / IDF_STEP) ** 2 for step in range(256)]
        return [squares[step] for step in self.idf]

    @cached_property
    def _variances(self) -> list[float]:
        return [spread + _LEAST_SPREAD for spread in self.spread]

    def judge(self, text: str) -> Judged:
        """A text of bounded length (see `conversation`)."""
        return self.judge_grams(grams_of(text))

    def judge_grams(self, grams: Grams) -> Judged:
        below = None if self.base is None else self.base.judge_grams(grams)
        met, scale, share = self._met(grams)
        weights = _picked(self.gap.weights, met)
        gap = self.gap.of(sum(weights) * scale, grams)
        mean = self.mean.of(sum(_picked(self.mean.weights, met)) * scale, grams)
        known = share >= self.familiar and share > 0 and self.strangeness(grams.amounts) <= self.strange
        terms = self._terms(grams, met, weights, scale)
        if below is not None:
            gap += self.gap.base * below.gap
            mean += self.mean.base * below.mean
            known = known or below.known
            terms += [(name, part * self.gap.base) for name, part in below.terms]
        terms.sort(key=_weight)
        return Judged(_bounded(mean - gap / 2), _bounded(mean + gap / 2), known, tuple(terms[:TERMS]), gap, mean)

    def strangeness(self, amounts: Sequence[float]) -> float:
        """How far amounts are from those of the training: the sum of squares, each over its variance."""
        away = list(map(sub, amounts, self.usual))
        return sum(map(truediv, map(mul, away, away), self._variances), 0.0)

    def _met(self, grams: Grams) -> tuple[list[int], float, float]:
        """The places of the grams that are known, what a weight is scaled by, and the known share of the text's weight."""
        met = list(filter(None, map(self._places.get, grams.ids)))
        met_square = sum(_picked(self._squares, met))
        unmet_square = (len(grams.ids) - len(met)) * self.unmet**2
        if not met_square:
            return met, 0.0, 0.0
        square = met_square + min(unmet_square, MOST_UNMET * met_square)
        return met, 1.0 / math.sqrt(square), met_square / (met_square + unmet_square)

    def _terms(self, grams: Grams, met: list[int], weights: Sequence[int], scale: float) -> list[tuple[str, float]]:
        """The strongest grams, and the amounts, by what they add to the gap; an amount against what is usual of it."""
        sizes = list(map(abs, weights))
        least = max([1, *sorted(sizes)[-TERMS:][:1]])
        strong = [(size, place) for size, place in zip(sizes, met, strict=True) if size >= least]
        strong.sort(reverse=True)
        step, of = scale * self.gap.step, self.gap.weights
        terms = [(name, of[place] * step) for _, place in strong[:TERMS] if (name := _name(grams, self.keys[place]))]
        for name, amount, weight, usual in zip(AMOUNTS, grams.amounts, self.gap.amounts, self.usual, strict=True):
            if weight and amount:
                terms.append((name, weight * (amount - usual)))
        return terms

    @classmethod
    def load(cls, path: Path) -> Policy:
        """Raises BadPolicy (see `file`) or OSError."""
        from routing.learned.file import BadPolicy, read_policy  # noqa: PLC0415 - the two describe each other

        if path.exists() and not path.is_file():
            raise BadPolicy(f"{path} is not a regular file")
        return read_policy(path.read_bytes())

    def save(self, path: Path) -> None:
        from routing.learned.file import write_policy  # noqa: PLC0415 - the two describe each other

        path.write_bytes(write_policy(self))


def score_of(gap: float) -> float:
    """From 0 to 1, in the order of the gaps: half of the gap and a half; towards the ends, where a gap is larger than any two
    chances have, ever less of it.
    """
    size = abs(gap)
    if size > _KNEE:
        gap = math.copysign(1.0 - (1.0 - _KNEE) * math.exp((_KNEE - size) / (1.0 - _KNEE)), gap)
    return (1.0 + gap) / 2.0


def _picked(values: Sequence[_T], places: Sequence[int]) -> Sequence[_T]:
    """Those at these places, in one call: a sixth of the time that one call for each takes."""
    return itemgetter(*places)(values) if len(places) > 1 else [values[place] for place in places]


def _weight(term: tuple[str, float]) -> float:
    return -abs(term[1])


def _bounded(value: float) -> float:
    return min(MOST, max(LEAST, value))


def _name(grams: Grams, gram: int) -> str | None:
    """The word or pair that a hash stands for in this text, in quotation marks: it is no feature. None without the words."""
    words = grams.words
    if not words:
        return None
    place = grams.ids[gram]
    if place < len(words):
        return f'"{words[place]}"'
    place -= len(words)
    return f'"{words[place]} {words[place + 1]}"'
