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
from pathlib import Path
from statistics import median

from routing.grams import AMOUNTS, Grams, grams_of

TERMS = 6
IDF_STEP = 24  # an idf is kept as a byte, in steps of 1/24
LEAST, MOST = 0.01, 0.99
MOST_UNMET = 3.0  # of the weight that is known, so much of the unknown lengthens a vector: at most to twice its length
_KNEE = 0.9  # of gaps
_LEAST_SPREAD = 0.02  # variance that any amount may have, though training showed less
# Where the fields of `Policy._known` begin, and what each may come to: sums of 659 grams, and places of 400,000.
_SHIFT = 128
_MEAN, _SQUARE, _STRENGTH, _PLACE = 20, 40, 68, 20
_WEIGHTS, _SQUARES, _PLACES = (1 << 20) - 1, (1 << 28) - 1, (1 << 20) - 1


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

    def of(self, steps: float, told: Sequence[tuple[int, float]]) -> float:
        """`told`: the amounts that are not 0, each behind its place."""
        amounts, added = self.amounts, 0.0
        for place, amount in told:
            added += amounts[place] * amount
        return self.bias + steps * self.step + added


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
    def _known(self) -> Mapping[int, int]:
        """What a text takes of each gram, as fields of one number: so it is looked up once, and one sum has those of all fields.

        From below: its weights in both heads (made positive), the square of its idf, its place; and how much it says of the gap.
        """
        parts = zip(self.keys, self.gap.weights, self.mean.weights, self.idf, strict=True)
        return {
            key: (abs(gap) << _PLACE | place) << _STRENGTH | idf * idf << _SQUARE | mean + _SHIFT << _MEAN | gap + _SHIFT
            for place, (key, gap, mean, idf) in enumerate(parts)
        }

    @cached_property
    def _variances(self) -> list[float]:
        return [spread + _LEAST_SPREAD for spread in self.spread]

    @cached_property
    def _unspoken(self) -> list[float]:
        """How far each amount is away from what is usual where it is 0."""
        return [usual * usual / variance for usual, variance in zip(self.usual, self._variances, strict=True)]

    @cached_property
    def _silence(self) -> float:
        """The same of all of them."""
        return sum(self._unspoken)

    def judge(self, text: str) -> Judged:
        """A text of bounded length (see `conversation`)."""
        return self.judge_grams(grams_of(text))

    def judge_grams(self, grams: Grams) -> Judged:
        below = None if self.base is None else self.base.judge_grams(grams)
        met = list(filter(None, map(self._known.get, grams.ids)))
        total, count = sum(met), len(met)
        scale, share = self._scaled((total >> _SQUARE & _SQUARES) / IDF_STEP**2, len(grams.ids) - count)
        told = [(place, amount) for place, amount in enumerate(grams.amounts) if amount]
        gap = self.gap.of(((total & _WEIGHTS) - count * _SHIFT) * scale, told)
        mean = self.mean.of(((total >> _MEAN & _WEIGHTS) - count * _SHIFT) * scale, told)
        known = share >= self.familiar and share > 0 and self._away(told) <= self.strange
        terms = self._terms(grams, met, told, scale)
        if below is not None:
            gap += self.gap.base * below.gap
            mean += self.mean.base * below.mean
            known = known or below.known
            terms += [(name, part * self.gap.base) for name, part in below.terms]
        terms.sort(key=_weight)
        named = tuple([(_name(grams, term) if isinstance(term, int) else term, part) for term, part in terms[:TERMS]])
        return Judged(_bounded(mean - gap / 2), _bounded(mean + gap / 2), known, named, gap, mean)

    def strangeness(self, amounts: Sequence[float]) -> float:
        """How far amounts are from those of the training: the sum of squares, each over its variance."""
        return self._away([(place, amount) for place, amount in enumerate(amounts) if amount])

    def _away(self, told: Sequence[tuple[int, float]]) -> float:
        """The same, of those that are not 0: most are, and what that is away is known beforehand."""
        usual, variances, unspoken = self.usual, self._variances, self._unspoken
        away = self._silence
        for place, amount in told:
            apart = amount - usual[place]
            away += apart * apart / variances[place] - unspoken[place]
        return away

    def _scaled(self, met_square: float, unmet: int) -> tuple[float, float]:
        """What a weight is scaled by, and the known share of the text's weight."""
        if not met_square:
            return 0.0, 0.0
        unmet_square = unmet * self.unmet**2
        square = met_square + min(unmet_square, MOST_UNMET * met_square)
        return 1.0 / math.sqrt(square), met_square / (met_square + unmet_square)

    def _terms(
        self, grams: Grams, met: list[int], told: Sequence[tuple[int, float]], scale: float
    ) -> list[tuple[str | int, float]]:
        """The strongest grams, and the amounts, by what they add to the gap; an amount against what is usual of it."""
        terms: list[tuple[str | int, float]] = []
        step, of = scale * self.gap.step, self.gap.weights
        if grams.words:
            for gram in sorted(met)[: -TERMS - 1 : -1]:  # by what they say of the gap, and then by their place
                place = gram >> _STRENGTH & _PLACES
                if of[place]:
                    terms.append((self.keys[place], of[place] * step))
        weights, usual = self.gap.amounts, self.usual
        for place, amount in told:
            if weights[place]:
                terms.append((AMOUNTS[place], weights[place] * (amount - usual[place])))
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


def _weight(term: tuple[str | int, float]) -> float:
    return -abs(term[1])


def _bounded(value: float) -> float:
    return min(MOST, max(LEAST, value))


def _name(grams: Grams, gram: int) -> str:
    """The word or pair that a hash stands for in this text, in quotation marks: it is no feature."""
    words, place = grams.words, grams.hashed.index(gram)
    if place < len(words):
        return f'"{words[place]}"'
    place -= len(words)
    return f'"{words[place]} {words[place + 1]}"'
