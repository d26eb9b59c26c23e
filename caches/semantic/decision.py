"""May the answer to a stored question serve another one?

A guard that vetoes has the last word. Without one, a score is made of the cosine, and must reach the preset's cut, or a
stricter one that was learned.
"""

from __future__ import annotations

from dataclasses import dataclass

from caches.guards import Reading, veto


@dataclass(frozen=True, slots=True)
class Preset:
    name: str
    serve: float  # least score that serves
    sure: float  # least score that serves where a verifier could be asked instead
    grey: float  # least score that is worth verifying


STRICT = Preset("strict", serve=0.95, sure=0.98, grey=0.7)
BALANCED = Preset("balanced", serve=0.85, sure=0.98, grey=0.6)


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
    reason = veto(question, stored)
    if reason is not None:
        return Verdict(serve=False, score=0.0, reason=reason)
    least = preset.serve if cut is None else max(cut, preset.serve)
    if cosine >= least:
        return Verdict(serve=True, score=cosine)
    return Verdict(serve=False, score=cosine, reason="similarity", grey=cosine >= preset.grey)
