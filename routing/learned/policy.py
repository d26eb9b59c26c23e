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
from operator import itemgetter
from pathlib import Path
from statistics import median

from routing.grams import AMOUNTS, Grams, grams_of

TERMS = 6
IDF_STEP = 24  # an idf is kept as a byte, in steps of 1/24
LEAST, MOST = 0.01, 0.99
MOST_UNMET = 3.0  # of the weight that is known, so much of the unknown lengthens a vector: at most to twice its length
_KNEE = 0.9  # of gaps
_LEAST_SPREAD = 0.02  # variance that any amount may have, though training showed less
# Where the fields of `Policy._parts` begin, and what each may come to: sums of 659 grams. All of them have room in 62 bits: what
# has more is not added up in a machine word, which takes six times as long.
_SHIFT = 128
_MEAN, _SQUARE = 18, 36
_WEIGHTS = (1 << 18) - 1


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
    def _places(self) -> array[int]:
        """Of the grams, by what they say of the gap, and then by their place, the least first; before them, one of none."""
        said, places = [array("i") for _ in range(_SHIFT + 1)], array("i", [-1])
        for place, weight in enumerate(self.gap.weights):
            said[abs(weight)].append(place)
        for alike in said:
            places += alike
        return places

    @cached_property
    def _ranks(self) -> Mapping[int, int]:
        """Of each gram: where in `_places` it is."""
        keys = self.keys
        return {keys[place]: rank for rank, place in enumerate(self._places) if rank}

    @cached_property
    def _parts(self) -> list[int]:
        """What a text takes of each gram, by rank, as fields of one number, so that one sum has those of all fields. From below:
        its weights in both heads (made positive), the square of its idf.
        """
        parts, same = [0], dict[int, int]()  # many are alike, and share their number
        gap, mean, idf = self.gap.weights, self.mean.weights, self.idf
        for place in self._places[1:]:
            part = idf[place] * idf[place] << _SQUARE | mean[place] + _SHIFT << _MEAN | gap[place] + _SHIFT
            parts.append(same.setdefault(part, part))
        return parts

    @cached_property
    def _amounts(self) -> list[tuple[float, float, float, float, float]]:
        """Of each amount: its weights in both heads, what is usual, how much it varies, and how far 0 is away from the usual."""
        variances = [spread + _LEAST_SPREAD for spread in self.spread]
        unspoken = [usual * usual / variance for usual, variance in zip(self.usual, variances, strict=True)]
        return list(zip(self.gap.amounts, self.mean.amounts, self.usual, variances, unspoken, strict=True))

    @cached_property
    def _silence(self) -> float:
        """How far all amounts together are away where each is 0."""
        return sum(unspoken for *_, unspoken in self._amounts)

    def judge(self, text: str) -> Judged:
        """A text of bounded length (see `conversation`)."""
        return self.judge_grams(grams_of(text))

    def judge_grams(self, grams: Grams) -> Judged:
        met = list(filter(None, map(self._ranks.get, grams.ids)))
        # Two more that are nothing, since only of two or more `itemgetter` makes a tuple. It takes half of what `map` does.
        total, count = sum(itemgetter(0, 0, *met)(self._parts)), len(met)
        scale, share = self._scaled((total >> _SQUARE) / IDF_STEP**2, len(grams.ids) - count)
        gap_head, mean_head = self.gap, self.mean
        terms: list[tuple[float, int, str | int, float]] = []  # the last two are a term; before them, what they are ordered by
        if grams.words:
            step, weights, places, keys = scale * gap_head.step, gap_head.weights, self._places, self.keys
            for rank in sorted(met)[: -TERMS - 1 : -1]:
                place = places[rank]
                if weight := weights[place]:
                    part = weight * step
                    terms.append((-abs(part), len(terms), keys[place], part))
        gaps, means, away, amounts = 0.0, 0.0, self._silence, self._amounts
        for place, amount in grams.told:
            in_gap, in_mean, usual, variance, unspoken = amounts[place]
            gaps += in_gap * amount
            means += in_mean * amount
            apart = amount - usual
            away += apart * apart / variance - unspoken
            if in_gap:
                part = in_gap * apart
                terms.append((-abs(part), len(terms), AMOUNTS[place], part))
        gap = gap_head.bias + ((total & _WEIGHTS) - count * _SHIFT) * scale * gap_head.step + gaps
        mean = mean_head.bias + ((total >> _MEAN & _WEIGHTS) - count * _SHIFT) * scale * mean_head.step + means
        known = share >= self.familiar and share > 0 and away <= self.strange
        if self.base is not None:
            below = self.base.judge_grams(grams)
            gap += gap_head.base * below.gap
            mean += mean_head.base * below.mean
            known = known or below.known
            for name, said in below.terms:
                part = said * gap_head.base
                terms.append((-abs(part), len(terms), name, part))
        terms.sort()
        named = tuple([(grams.name(term) if isinstance(term, int) else term, part) for _, _, term, part in terms[:TERMS]])
        return Judged(_bounded(mean - gap / 2), _bounded(mean + gap / 2), known, named, gap, mean)

    def strangeness(self, amounts: Sequence[float]) -> float:
        """How far amounts are from those of the training: the sum of squares, each over its variance."""
        away = self._silence
        for amount, (*_, usual, variance, unspoken) in zip(amounts, self._amounts, strict=True):
            apart = amount - usual
            away += apart * apart / variance - unspoken
        return away

    def _scaled(self, met_square: float, unmet: int) -> tuple[float, float]:
        """What a weight is scaled by, and the known share of the text's weight."""
        if not met_square:
            return 0.0, 0.0
        unmet_square = unmet * self.unmet**2
        square = met_square + min(unmet_square, MOST_UNMET * met_square)
        return 1.0 / math.sqrt(square), met_square / (met_square + unmet_square)

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


def _bounded(value: float) -> float:
    return value if LEAST < value < MOST else min(MOST, max(LEAST, value))  # most are, and need no call
