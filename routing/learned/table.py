"""Outcomes as numbers: what `train` computes with."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from zlib import crc32

import numpy as np

from routing.grams import Grams
from routing.learned.policy import IDF_STEP, MOST_UNMET, Policy
from routing.learned.ridge import Floats, Ints, Sparse

LEAST_TEXTS = 3  # texts that a gram must be in: it is named in explanations, and a word of one text is that text's own
_OPENING = 60  # characters that two texts of one template have in common
_TINY = 1e-12


@dataclass(frozen=True, slots=True)
class Row:
    """One outcome: how good an answer of the cheapest and of the dearest tier was, 0-1; None is not known."""

    text: str
    small: float | None
    large: float | None
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The grams that count, in rising order, their idf in whole steps, and the idf of any other."""

    keys: Ints
    idf: Floats
    unmet: float

    @classmethod
    def of(cls, read: Sequence[Grams]) -> Vocabulary:
        keys, counts = np.unique(_flat(read), return_counts=True)
        kept = counts >= LEAST_TEXTS
        idf = np.log((1 + len(read)) / (1 + counts[kept])) + 1
        steps = np.clip(np.round(idf * IDF_STEP), 1, 255)
        return cls(keys[kept], steps / IDF_STEP, math.log((1 + len(read)) / 2) + 1)


@dataclass(frozen=True, slots=True)
class Table:
    """`dense`: a column of ones, then the amounts. `gap` and `mean`: of both scores; of a row with one score the gap is NaN, and
    `mean` is that score, `side` -1 for small and 1 for large, else 0. `base_gap`, `base_mean`: what the base policy judged.
    `familiar`: the share of each text's weight that is in the vocabulary.
    """

    grams: Sparse
    dense: Floats
    gap: Floats
    mean: Floats
    side: Floats
    base_gap: Floats
    base_mean: Floats
    weights: Floats
    groups: Ints
    familiar: Floats

    def take(self, chosen: Ints) -> Table:
        return Table(
            self.grams.take(chosen),
            self.dense[chosen],
            self.gap[chosen],
            self.mean[chosen],
            self.side[chosen],
            self.base_gap[chosen],
            self.base_mean[chosen],
            self.weights[chosen],
            self.groups[chosen],
            self.familiar[chosen],
        )

    def with_both(self) -> Table:
        return self.take(np.flatnonzero(self.side == 0))


def table_of(rows: Sequence[Row], read: Sequence[Grams], base: Policy | None, words: Vocabulary) -> Table:
    """`read`: the grams of each row's text. Every row has a score."""
    sparse, familiar = _sparse(read, words)
    small = np.array([math.nan if row.small is None else row.small for row in rows])
    large = np.array([math.nan if row.large is None else row.large for row in rows])
    gap = large - small
    side = np.where(np.isnan(small), 1.0, np.where(np.isnan(large), -1.0, 0.0))
    judged = [] if base is None else [base.judge_grams(grams) for grams in read]
    below = np.array([(one.gap, one.mean) for one in judged]) if judged else np.zeros((len(rows), 2))
    return Table(
        grams=sparse,
        dense=np.array([[1.0, *grams.amounts] for grams in read]),
        gap=gap,
        mean=np.where(side == 0, (small + large) / 2, np.where(side < 0, small, large)),
        side=side,
        base_gap=below[:, 0],
        base_mean=below[:, 1],
        weights=np.array([row.weight for row in rows], dtype=float),
        groups=np.array([_group(row.text) for row in rows]),
        familiar=familiar,
    )


def _flat(read: Sequence[Grams]) -> Ints:
    return np.fromiter((gram for grams in read for gram in grams.in_order()), dtype=np.int64)


def _sparse(read: Sequence[Grams], words: Vocabulary) -> tuple[Sparse, Floats]:
    flat = _flat(read)
    owners = np.repeat(np.arange(len(read)), [len(grams.ids) for grams in read])
    places, met = np.zeros(len(flat), dtype=np.int64), np.zeros(len(flat), dtype=bool)
    if len(words.keys):
        places = np.minimum(np.searchsorted(words.keys, flat), len(words.keys) - 1)
        met = words.keys[places] == flat
    weight = np.full(len(flat), words.unmet)
    weight[met] = words.idf[places[met]]
    known = np.bincount(owners, weight**2 * met, len(read))
    unmet = np.bincount(owners, weight**2 * ~met, len(read))
    values = weight / np.sqrt(np.maximum(known + np.minimum(unmet, MOST_UNMET * known), _TINY))[owners]
    familiar = known / np.maximum(known + unmet, _TINY)
    return Sparse.of(owners[met], places[met], values[met], (len(read), len(words.keys))), familiar


def _group(text: str) -> int:
    """The same for texts that begin alike."""
    opening = re.sub(r"\W+", " ", text[: 4 * _OPENING].lower())[:_OPENING]
    return crc32(opening.encode("utf-8", "replace"))
