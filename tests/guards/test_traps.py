"""The decision of `strict` as the cache makes it, on pairs that must not share an answer and on repetitions that should.

`traps.tsv` holds `trap` or `same`, a kind, and two questions. Half of the pairs, by a checksum, were put aside while the guards
were written: their share is what to expect of pairs that nobody has seen. The bounds are ratchets: what is reached, and no worse.
Texts that the embedder does not read are judged as nearly equal vectors of an embedder that nobody has measured would be.
"""

from __future__ import annotations

import zlib
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

pytest.importorskip("onnxruntime")
pytest.importorskip("tokenizers")

from caches.guards import Reading
from caches.semantic.decision import judge
from caches.semantic.eligible import refusal
from caches.semantic.presets import preset_for
from gateway.lab.cacheeval.embedders import DEFAULT, open_embedder
from gateway.lab.cacheeval.vectors import Vectors

_FILE = Path(__file__).with_name("traps.tsv")
_UNREAD = 0.99  # the cosine of what the embedder does not read


class Row(NamedTuple):
    label: str
    kind: str
    one: str
    other: str

    @property
    def held(self) -> bool:
        return bool(zlib.crc32(f"{self.one}\t{self.other}".encode()) & 1)


ROWS = [Row(*line.split("\t")) for line in _FILE.read_text("utf-8").splitlines()[1:]]


@pytest.fixture(scope="module")
def served():
    """The pairs that would share an answer, whichever of the two is kept."""
    opened = open_embedder(DEFAULT)
    vectors = Vectors(opened.model, opened.covers)
    vectors.learn({text for row in ROWS for text in row[2:]})
    known, unknown = preset_for("strict", opened.model.fingerprint), preset_for("strict", "unknown")
    read = cache(Reading.of)

    def serves(row):
        if refusal(row.one) or refusal(row.other):
            return False
        cosine = vectors.cosine(row.one, row.other)
        how = (_UNREAD, unknown) if cosine is None else (cosine, known)
        one, other = read(row.one), read(row.other)
        return judge(one, other, *how).serve or judge(other, one, *how).serve

    return {row for row in ROWS if serves(row)}


def test_the_file_is_as_large_as_it_says():
    """Hundreds of traps of many kinds, ten of each at least, and repetitions; no pair twice."""
    traps = [row for row in ROWS if row.label == "trap"]
    kinds = {kind: sum(row.kind == kind for row in traps) for kind in {row.kind for row in traps}}
    assert len(traps) >= 600
    assert len(ROWS) - len(traps) >= 150
    assert min(kinds.values()) >= 10
    assert len({frozenset(row[2:]) for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize(("held", "most"), [(False, 6), (True, 25)])
def test_no_more_traps_are_served_than_were(served, held, most):
    """Of either half no more wrong answers than when the bound was set."""
    found = sorted(row for row in served if row.label == "trap" and row.held == held)
    assert len(found) <= most, found


@pytest.mark.parametrize(("held", "least"), [(False, 68), (True, 78)])
def test_no_fewer_repetitions_are_served_than_were(served, held, least):
    """Of either half no fewer true repetitions than when the bound was set."""
    wanted = [row for row in ROWS if row.label == "same" and row.held == held]
    assert sum(row in served for row in wanted) >= least, [row for row in wanted if row not in served]
