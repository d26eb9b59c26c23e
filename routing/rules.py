"""The classifier `rules`: how hard a request is, by features and weights that anybody can read and dispute.

The score is `1 / (1 + exp(-(BIAS + Σ weight × feature)))`: features from 0 to 1 (`features`), weights in the table below. Above
one half means more signs of a hard request than of an easy one; it is no probability that a small model fails. Rules about words
cannot give that: they see what a request is about, not whether it is hard.

Rules
- Judged is the newest human ask. Neither the system prompt, nor tool schemas, tool results or blocks put in by programs count.
- A follow-up is judged by the hardest of: itself, the asks that it follows up, and what it agrees to ("yes" to a plan is as hard
  as the plan). Thanks, a small chore or a fact asked in passing stand for themselves.
- "Don't know" is an outcome of its own: nothing that speaks, no text, a language that the words do not cover. Length, number of
  questions and the like do not speak alone. Nothing is called easy for want of signs that it is hard.
- Nothing raises for any body, and the work is bounded: FOLLOW_UPS steps back, each within the bounds of `conversation`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from routing.conversation import thread_of
from routing.features import Reading, read
from routing.types import Verdict

BIAS = -0.4
WEIGHTS: Mapping[str, float] = {
    # signs of a hard request
    "proof": 2.4,  # prove, derive, theorem
    "domain": 2.2,  # terms of law, medicine, finance, science, mathematics
    "work": 1.8,  # analyse, design, compare, debug, refactor, optimise
    "maths": 1.6,  # LaTeX, powers, equations
    "reasoning": 1.4,  # "step by step", "think hard"
    "trace": 1.4,  # a stack trace
    "length": 1.2,  # logarithm of the length, from 80 characters to 5,000
    "code": 1.0,  # a code block
    "quantities": 0.8,  # a word problem: numbers and "how many"
    "steps": 0.9,  # numbered or bulleted items
    "options": 0.6,  # an examination question
    "constraint": 0.8,  # must, exactly, unless, each
    "coding": 0.7,  # function, regex, SQL
    "questions": 0.5,  # more than one question
    "format": 0.3,  # a table, sections, YAML
    "depth": 0.3,  # steps back to the ask that a follow-up serves
    # signs of an easy one
    "brief": -0.6,  # "in one word"
    "creative": -0.8,  # a poem, a joke, an email
    "fact": -1.6,  # who, when, capital of
    "chore": -1.7,  # translate, summarise, extract, classify
    "arithmetic": -2.4,  # 17 * 23
    "pleasantry": -3.0,  # hello, thanks
}
# Features that shade a judgement but are none by themselves.
_MUTE = frozenset({"length", "options", "questions", "depth", "format"})
# The least that the others must say together; of a proposal, more, since a reply is full of words.
EVIDENCE = 0.5
PROPOSAL_EVIDENCE = 1.0

FOLLOW_UPS = 6
FOLLOW_UP_UNITS = 90
FOLLOW_UP_CHARACTERS = 200
UNSURE_UNITS = 240
TERMS = 6

_CLASSIFIED = frozenset({"chat", "completions", "responses", "messages"})
_PLAIN = ("pleasantry", "chore", "arithmetic", "fact", "creative")
_UNSURE = Verdict(None)
_HARD = frozenset(name for name, weight in WEIGHTS.items() if weight > 0)

_GOES_ON = re.compile(
    r"(?:y|n|yes|yep|yeah|yup|no|nope|ok|okay|k|sure|right|correct|exactly|agreed|approved?|confirm(?:ed)?|lgtm|go|continue"
    r"|proceed|carry on|keep|do|please|pls|just|start|next|more|again|retry|try|redo|undo|revert|run|fix|commit|push|merge|ship"
    r"|apply|save|finish|great|perfect|nice|cool|good|awesome|sounds|looks|fine|and|also|but|then|now|so|or|instead|actually|wait"
    r"|hmm|why|how about|what about|what if|what else|use|make|change|add|remove|delete|update|rename|move|option|both|all|none"
    r"|either|first|second|third|the (?:first|second|third|last|former|latter|other)|\d{1,2}|[a-e])\b",
)
_GOES_ON_ZH = """
    是 好 行 可以 对 對 嗯 继续 繼續 接着 接著 开始 開始 同意 确认 確認 没问题 沒問題 就这 就這 改 再 换 換 那 还有 還有 然后
    然後 为什么 為什麼 怎么 怎麼 试 試 提交 第 按 照 用 加 去掉 删 刪 修 不 请继续 請繼續 下一步 执行 執行 运行 運行 重来 重來
    把它 把这 把這 全部 都 另外 但 先
"""
_STARTS_ZH = tuple(_GOES_ON_ZH.split())
_POINTS_BACK = re.compile(r"\b(?:it|its|that|this|these|those|them|they|same|above|previous|earlier|former|latter|one)\b")
_POINTS_BACK_ZH = re.compile(r"它|这个|這個|那个|那個|这些|這些|这样|這樣|上面|刚才|剛才|之前|前面|上述|一下")


class Rules:
    """Scores by the table above. Stateless; one serves everybody."""

    def classify(self, body: Mapping[str, Any], endpoint: str) -> Verdict:
        """The verdict on the newest human ask."""
        if endpoint not in _CLASSIFIED:
            return _UNSURE
        thread = thread_of(body, endpoint)
        hardest = _UNSURE
        for depth in range(FOLLOW_UPS):
            text = thread.ask()
            if not text:
                break
            reading = read(text)
            if depth:
                reading.values["depth"] = depth / FOLLOW_UPS
            verdict = judge(reading)
            hardest = _harder(hardest, verdict)
            if _stands_alone(reading) or (reply := thread.reply()) is None or not _follows_up(text, reading, verdict):
                break
            hardest = _harder(hardest, judge_proposal(reply))
        return hardest


def judge(reading: Reading, evidence_needed: float = EVIDENCE) -> Verdict:
    """The score of one text by itself."""
    if not reading.known:
        return _UNSURE
    spoken: list[tuple[str, float]] = []
    total = evidence = 0.0
    for name, value in reading.values.items():
        if value:
            amount = WEIGHTS[name] * value
            spoken.append((name, amount))
            total += amount
            if name not in _MUTE:
                evidence += abs(amount)
    if evidence < evidence_needed:
        return _UNSURE
    spoken.sort(key=_strength)
    return Verdict(1.0 / (1.0 + math.exp(-(BIAS + total))), None, tuple(spoken[:TERMS]))


def judge_proposal(reply: str) -> Verdict:
    """The score of what a reply proposes to do, where it does: in steps, or with a question at its end.

    Only the hard work that it speaks of counts: that a reply contains something easy makes nothing easier.
    """
    reading = read(reply)
    if "steps" not in reading.values and "?" not in (end := reply[-200:]) and "？" not in end:
        return _UNSURE
    hard = {name: value for name, value in reading.values.items() if name in _HARD}
    return judge(Reading(hard, reading.units, reading.known), PROPOSAL_EVIDENCE)


def _stands_alone(reading: Reading) -> bool:
    """Whether a text is too long, or too plain a request, to lean on what was said before it."""
    if reading.units > UNSURE_UNITS:
        return True
    values = reading.values
    return not values.keys().isdisjoint(_PLAIN) and max(values.get(name, 0.0) for name in _PLAIN) >= 0.5


def _follows_up(text: str, reading: Reading, verdict: Verdict) -> bool:
    """Whether a text that does not stand alone means something only after what was said before it."""
    if verdict.score is None:
        return True
    if reading.units > FOLLOW_UP_UNITS:
        return False
    return _goes_on(text)


def _goes_on(text: str) -> bool:
    lower = text.lower()
    return (
        bool(_GOES_ON.match(lower) or _POINTS_BACK.search(lower))
        or lower.startswith(_STARTS_ZH)
        or bool(_POINTS_BACK_ZH.search(lower))
    )


def _strength(term: tuple[str, float]) -> float:
    return -abs(term[1])


def _harder(one: Verdict, other: Verdict) -> Verdict:
    if one.score is None or (other.score is not None and other.score > one.score):
        return other
    return one


def leans(text: str) -> bool:
    """Whether a short text goes on with what was said before it: "commit it", "yes", "继续"."""
    if len(text) > FOLLOW_UP_CHARACTERS:
        return False
    reading = read(text)
    if reading.units > FOLLOW_UP_UNITS or _stands_alone(reading):
        return False
    return _goes_on(text)
