"""May the answer to a stored question serve another one?

A guard that vetoes has the last word. Without one, a score is made of the cosine and of what the two questions do not share,
and must reach the preset's cut, or a stricter one that was learned. So a true paraphrase, the same words in another order or
form, is served at a cosine where two questions that differ by one word are not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from caches.guards import Reading, veto
from caches.guards.structure import Alignment, align


@dataclass(frozen=True, slots=True)
class Preset:
    name: str
    serve: float  # least score that serves
    sure: float  # least score that serves where a verifier could be asked instead
    grey: float  # least score that is worth verifying


STRICT = Preset("strict", serve=0.5, sure=0.8, grey=0.01)
BALANCED = Preset("balanced", serve=0.2, sure=0.8, grey=0.005)

_STEEPNESS = 25.0


@dataclass(frozen=True, slots=True)
class Verdict:
    serve: bool
    score: float
    reason: str = ""
    grey: bool = False  # not served, but no guard forbids it: worth verifying


def judge(question: Reading, stored: Reading, cosine: float, preset: Preset = STRICT, cut: float | None = None) -> Verdict:
    """`cut` is a learned threshold on the score: it may only be stricter than the preset's."""
    if question.text == stored.text:
        return Verdict(serve=True, score=1.0)
    likeness = score(align(question, stored), cosine)
    reason = veto(question, stored)
    if reason is not None:
        return Verdict(serve=False, score=likeness, reason=reason)
    least = preset.serve if cut is None else max(cut, preset.serve)
    if likeness >= least:
        return Verdict(serve=True, score=likeness)
    return Verdict(serve=False, score=likeness, reason="similarity", grey=likeness >= preset.grey)


def score(laid: Alignment, cosine: float) -> float:
    """0 to 1, rising with the cosine."""
    opened = laid.left + laid.right + laid.loose
    need = 0.76 + 0.17 * min(1.0, opened) + 0.05 * (min(laid.left, laid.right) >= 1) + 0.1 * laid.turned
    return 1 / (1 + math.exp(-_STEEPNESS * (cosine - need)))
