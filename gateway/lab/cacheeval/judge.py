"""Verifiers, as `tiergate cache eval` asks them: one by script, and a cross-encoder on disk.

The one by script answers right with given probabilities, and the same pair always the same. It stands for a model that is asked
"would one answer serve both?", so that the mechanism around one can be measured without it. Its errors depend on the seed and the
pair alone, not on the order in which pairs come.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Protocol

from caches.embed.scripts import Scripts


class Judge(Protocol):
    """`same` is what is so, for one that is told what to say."""

    def approves(self, asked: str, stored: str, *, same: bool) -> bool: ...


@dataclass(frozen=True, slots=True)
class ScriptedJudge:
    right: float  # the share of right pairs that it approves
    wrong: float  # the share of traps that it approves
    seed: int = 0

    @classmethod
    def parse(cls, text: str, seed: int = 0) -> ScriptedJudge:
        """`0.98/0.01`. Raises ValueError."""
        try:
            right, wrong = (float(part) for part in text.split("/"))
        except ValueError:
            right = wrong = -1.0
        if not (0 <= right <= 1 and 0 <= wrong <= 1):
            raise ValueError(f"{text!r} is no judge: write the share of right pairs and of traps it approves, like 0.98/0.01")
        return cls(right, wrong, seed)

    def approves(self, asked: str, stored: str, *, same: bool) -> bool:
        draw = Random(f"{self.seed}\0{asked}\0{stored}").random()
        return draw < (self.right if same else self.wrong)


class CrossEncoderJudge:
    """What `verifier: {kind: onnx}` runs, asked directly: without its thread and its deadline."""

    def __init__(self, path: Path, threshold: float | None = None) -> None:
        """`threshold`: None is what its description says. Raises ValueError."""
        from caches.verify.description import read_folder  # noqa: PLC0415 - the command line is read without what runs a model
        from caches.verify.onnx import OnnxPairs  # noqa: PLC0415 - likewise

        folder = read_folder(path)
        self.name = folder.about.name
        self.threshold = folder.about.threshold if threshold is None else threshold
        try:
            self._model = OnnxPairs(folder)
        except Exception as error:  # noqa: BLE001 - the edge to files and runtimes, which raise what they like
            raise ValueError(f"{path} does not load: {error}") from None
        self._covers = Scripts(folder.about.scripts).covers
        self._known: dict[tuple[str, str], bool] = {}

    def approves(self, asked: str, stored: str, *, same: bool) -> bool:  # noqa: ARG002 - the protocol's
        pair = asked, stored
        if pair not in self._known:
            score = self.score(asked, stored)
            self._known[pair] = score is not None and score >= self.threshold
        return self._known[pair]

    def score(self, asked: str, stored: str) -> float | None:
        """None: it does not read them."""
        reads = self._covers(asked) and self._covers(stored)
        return self._model.scores([(stored, asked)])[0] if reads else None
