"""A cross-encoder as a folder, run by ONNX Runtime on one thread.

Rules
1. Both ways round, and the lower score counts: which question came first must not matter, and a doubt is a no.
2. Two questions are read whole or not at all: one with a sign that the tokenizer does not know has no score.
3. One pair a run, as texts are embedded (`caches.embed.onnx`): a score does not depend on another tenant's pairs.
4. A score is a number from 0 to 1. A model that says anything else has failed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from tokenizers import Encoding

from caches.embed.description import Folder
from caches.embed.onnx import broken, inputs, legible, session, tokenizer, unknown_token
from caches.verify.description import PairDescription

Pair = tuple[str, str]
_TRIED = ("How do I reset my password?", "How long does a parcel take?")


class OnnxPairs:
    """May be asked by several threads at once."""

    def __init__(self, folder: Folder[PairDescription]) -> None:
        """Loads it. Raises ValueError, OSError and whatever ONNX Runtime and the tokenizer find wrong with their files."""
        folder.check()
        about = self.about = folder.about
        self._tokenizer = tokenizer(folder.path)
        self._unknown = unknown_token(self._tokenizer)
        self._session = session(folder.path)
        self._inputs = inputs(self._session, about.name)
        (self._output, *_) = [node.name for node in self._session.get_outputs()]
        if self._one(_TRIED) is None:
            raise ValueError(f"{about.name} does not read two short questions")

    def scores(self, pairs: Sequence[Pair]) -> list[float | None]:
        """How sure it is that one answer serves both; None where it cannot read them whole. Raises ValueError."""
        return [self._one(pair) for pair in pairs]

    def _one(self, pair: Pair) -> float | None:
        one, other = pair
        if len(one) + len(other) > self.about.max_chars or broken(one) or broken(other):
            return None
        one, other = legible(one), legible(other)
        ways = self._tokenizer.encode_batch_fast([(one, other), (other, one)])
        return min(map(self._score, ways)) if all(map(self._whole, ways)) else None

    def _whole(self, read: Encoding) -> bool:
        told = {text for text in read.sequence_ids if text is not None}
        return len(read.ids) <= self.about.max_tokens and self._unknown not in read.ids and told == {0, 1}

    def _score(self, read: Encoding) -> float:
        row, kinds = np.array([read.ids], np.int64), np.array([read.type_ids], np.int64)
        fed = {"input_ids": row, "attention_mask": np.ones_like(row), "token_type_ids": kinds}
        (out,) = self._session.run([self._output], {name: fed[name] for name in self._inputs})
        score = probability(np.asarray(out, np.float64).ravel(), self.about)
        if not 0 <= score <= 1:
            raise ValueError(f"{self.about.name} said {score}, which is no probability")
        return score


def probability(said: NDArray[np.float64], about: PairDescription) -> float:
    """NaN stays NaN. Raises ValueError where it is not as many numbers as described."""
    if about.output == "classes":
        if len(said) <= max(1, about.same):
            raise ValueError(f"{about.name} says {len(said)} numbers, and not one for class {about.same} and another")
        powers = np.exp(said - said.max())
        return float(powers[about.same] / powers.sum())
    if len(said) != 1:
        raise ValueError(f"{about.name} says {len(said)} numbers, not one {about.output}")
    return float(said[0]) if about.output == "probability" else float(0.5 * (1 + np.tanh(0.5 * said[0])))
