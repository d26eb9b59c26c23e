"""Ridge regression on sparse rows by conjugate gradients (Hestenes and Stiefel 1952) with the diagonal as preconditioner."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_STEPS = 60
_ENOUGH = 1e-4


@dataclass(frozen=True, slots=True)
class Sparse:
    """Rows of a sparse matrix: `columns` and `values` of row i lie from `starts[i]` to `starts[i + 1]`."""

    starts: Ints
    rows: Ints
    columns: Ints
    values: Floats
    width: int

    @classmethod
    def of(cls, rows: Ints, columns: Ints, values: Floats, shape: tuple[int, int]) -> Sparse:
        """`rows` in rising order."""
        counts = np.bincount(rows, minlength=shape[0])
        return cls(np.concatenate([[0], np.cumsum(counts)]), rows, columns, values, shape[1])

    def take(self, chosen: Ints) -> Sparse:
        """The chosen rows, in that order."""
        counts = self.starts[chosen + 1] - self.starts[chosen]
        rows = np.repeat(np.arange(len(chosen)), counts)
        inside = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        places = self.starts[chosen][rows] + inside
        return Sparse.of(rows, self.columns[places], self.values[places], (len(chosen), self.width))

    def times(self, vector: Floats) -> Floats:
        sums = np.concatenate([[0.0], np.cumsum(self.values * vector[self.columns])])
        totals: Floats = sums[self.starts[1:]] - sums[self.starts[:-1]]
        return totals

    def transposed_times(self, vector: Floats) -> Floats:
        totals: Floats = np.bincount(self.columns, self.values * vector[self.rows], self.width).astype(np.float64)
        return totals


def ridge(
    grams: Sparse,
    dense: Floats,
    wanted: Floats,
    weights: Floats,
    penalty: float,
    dense_penalty: Floats,
) -> tuple[Floats, Floats]:
    """The coefficients of the sparse and of the dense columns that minimise Σ weight × error² + Σ penalty × coefficient²."""
    wide = grams.width

    def curved(at: Floats) -> Floats:
        error = weights * (grams.times(at[:wide]) + dense @ at[wide:])
        return np.concatenate([grams.transposed_times(error) + penalty * at[:wide], dense.T @ error + dense_penalty * at[wide:]])

    squares = np.bincount(grams.columns, weights=grams.values**2 * weights[grams.rows], minlength=wide)
    diagonal = np.concatenate([squares + penalty, (dense**2 * weights[:, None]).sum(axis=0) + dense_penalty])
    left = np.concatenate([grams.transposed_times(weights * wanted), dense.T @ (weights * wanted)])
    found = np.zeros_like(left)
    enough = _ENOUGH * float(np.linalg.norm(left))
    towards = way = left / diagonal
    square = float(left @ towards)
    for _ in range(_STEPS):
        if float(np.linalg.norm(left)) <= enough:
            break
        bent = curved(way)
        step = square / float(way @ bent)
        found = found + step * way
        left = left - step * bent
        towards = left / diagonal
        square, before = float(left @ towards), square
        way = towards + square / before * way
    return found[:wide], found[wide:]


def folds(groups: Ints, count: int, rng: np.random.Generator) -> Ints:
    """The fold of each row: whole groups together, by chance, the larger ones first into the smallest fold."""
    keys, members, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    order = rng.permutation(len(keys))
    order = order[np.argsort(-sizes[order], kind="stable")]
    fold_of = np.zeros(len(keys), dtype=np.int64)
    filled = np.zeros(count)
    for key in order:
        fold_of[key] = int(np.argmin(filled))
        filled[fold_of[key]] += sizes[key]
    return fold_of[members]
