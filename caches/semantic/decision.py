"""May the answer to a stored question serve another one?

A guard that vetoes has the last word. Without one, a score is made of the cosine and of what the two questions do not share,
and must reach the preset's cut, or a stricter one that was learned. So a true paraphrase, the same words in another order or
form, is served at a cosine where two questions that differ by one word are not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from caches.guards import Reading, veto
from caches.guards.question import apart
from caches.guards.structure import Alignment, align


@dataclass(frozen=True, slots=True)
class Preset:
    name: str
    base: float  # the cosine that two questions of the same matter need
    edit: float  # how much what they do not share counts, 1: in full, where one is a small edit of the other
    reword: float  # and where the one is another wording of the other, or long
    turned: float  # how much more is needed where shared words stand in another order
    long: float  # weight of the words in common from which on a text is too long to be a small edit; a word is 1
    reworded: float  # the cosine from which on a veto is overruled where the one is another wording of the other
    most: float  # the cosine from which on what they do not share no longer counts
    serve: float = 0.5  # least score that serves
    sure: float = 0.8  # least score that serves where a verifier could be asked instead
    exchanged: bool = True  # one word for another in a short text, and nothing else, may be served
    grey: float = 0.25  # least cosine that is worth verifying


STRICT = Preset(
    "strict", base=0.68, edit=0.9, reword=0.7, turned=0.1, long=math.inf, reworded=math.inf, most=0.872, exchanged=False
)  # fmt: skip
BALANCED = Preset("balanced", base=0.605, edit=0.7, reword=0.2, turned=0.03, long=5.0, reworded=0.84, most=math.inf)

_STEEPNESS = 25.0  # of the score around the cosine that is needed
_OPEN, _MOST_OPEN = 0.8, 0.25  # the cosine that is needed more, by the share of what is not shared
_INSERTED, _SUBSTITUTED = 0.22, 0.23  # at least so much, if a word of weight is in one text only, or in each another
_MANY = 3.5  # weight of the words in common from which on one that was exchanged counts by its cosine
_MANNER = frozenset({"direction", "scope", "format", "question", "persons", "shades", "degrees", "tense", "plurals", "grammar"})
"""Guards that another wording alone sets off now and then. Their veto is never final: a verifier may overrule it."""
_NEVER_OVERRULED = frozenset({"numbers", "units", "quotes", "code", "length", "pictures", "letters"})
"""Guards that neither a cosine nor a verifier overrules."""
_REWORDED = 1.5  # weight of unmatched words on each side from which on two texts are not a small edit of each other
_EDIT = 2.6  # and on both together: one word for another, and one of little weight


@dataclass(frozen=True, slots=True)
class Verdict:
    serve: bool
    score: float
    reason: str = ""
    grey: bool = False  # not served, but no guard forbids it for certain: worth verifying


def judge(question: Reading, stored: Reading, cosine: float, preset: Preset = STRICT, cut: float | None = None) -> Verdict:
    """`cut` is a learned threshold on the score, in place of the preset's. It does not weigh against a guard's veto."""
    if question.text == stored.text:
        return Verdict(serve=True, score=1.0)
    if cosine < preset.grey:
        return Verdict(serve=False, score=0.0, reason="similarity")
    laid = align(question, stored)
    score = 1 / (1 + math.exp(-_STEEPNESS * (cosine - needed(laid, apart(question, stored), preset))))
    reason = veto(question, stored)
    if reason is not None and not (_reworded(reason, laid, preset) and cosine >= preset.reworded):
        final = reason in _NEVER_OVERRULED or (reason not in _MANNER and _edited(laid))
        return Verdict(serve=False, score=score, reason=reason, grey=not final)
    if not preset.exchanged and laid.shared <= _MANY and _exchanged(laid) and question.negations == stored.negations:
        return Verdict(serve=False, score=score, reason="word", grey=True)
    if score >= (preset.serve if cut is None else cut):
        return Verdict(serve=True, score=score)
    return Verdict(serve=False, score=score, reason="similarity", grey=True)


def needed(laid: Alignment, kinds_apart: float, preset: Preset) -> float:
    """The cosine from which on two questions are more likely the same than not."""
    more = _OPEN * min(_MOST_OPEN, laid.open) + kinds_apart
    if max(laid.left, laid.right) >= 1:
        both = min(laid.left, laid.right) >= 1
        more = max(more, _SUBSTITUTED if both else _INSERTED) + 0.1 * max(0.0, min(0.3, laid.open - 0.1))
    small = min(laid.left, laid.right) < _REWORDED and laid.shared < preset.long
    whole = preset.base + (preset.edit if small else preset.reword) * more
    return (whole if _exchanged(laid) else min(preset.most, whole)) + preset.turned * laid.turned


def _exchanged(laid: Alignment) -> bool:
    """One word for another, which no table knows for the same, is about all the difference there is."""
    return min(laid.left, laid.right) >= 1 and laid.left + laid.right <= _EDIT


def _edited(laid: Alignment) -> bool:
    """The one is a small edit of the other: what a guard found is all the difference there is."""
    return min(laid.left, laid.right) < _REWORDED and laid.left + laid.right <= _EDIT


def _reworded(reason: str, laid: Alignment, preset: Preset) -> bool:
    """The one says the same in many other words, as far as can be told: guards err more often there."""
    if reason in _NEVER_OVERRULED:
        return False
    return min(laid.left, laid.right) >= _REWORDED or (reason in _MANNER and laid.shared >= preset.long)
