"""The classifier `rules`: how hard a request is, by features and weights that anybody can read and dispute.

The score is `1 / (1 + exp(-(BIAS + Σ weight × feature)))`: features from 0 to 1 (`features`), weights in the table below. Above
one half means more signs of a hard request than of an easy one; it is no probability that a small model fails. Rules about words
cannot give that: they see what a request is about, not whether it is hard.

Rules
- Judged is the newest human ask. Neither the system prompt, nor tool schemas, tool results or blocks put in by programs count.
- A follow-up is judged by the hardest of: itself, the asks that it follows up, and what it agrees to ("yes" to a plan is as hard
  as the plan; `following`). Thanks, a small chore or a fact asked in passing stand for themselves.
- "Don't know" is an outcome of its own: nothing that speaks, no text, a language that the words do not cover. Length, number of
  questions and the like do not speak alone. Nothing is called easy for want of signs that it is hard.
- Nothing raises for any body, and the work is bounded: FOLLOW_UPS steps back, each within the bounds of `conversation`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from routing.features import Reading, read
from routing.following import FOLLOW_UP_CHARACTERS, FOLLOW_UP_UNITS, FOLLOW_UPS, UNSURE, goes_on, hardest
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

TERMS = 6

_HARD = frozenset(name for name, weight in WEIGHTS.items() if weight > 0)
_PLAIN = ("pleasantry", "chore", "arithmetic", "fact", "creative")


class Rules:
    """Scores by the table above. Stateless; one serves everybody."""

    middle = 0.5

    def classify(self, body: Mapping[str, Any], endpoint: str) -> Verdict:
        """The verdict on the newest human ask."""
        return hardest(self, body, endpoint)

    def ask(self, text: str, depth: int) -> tuple[Verdict, int, bool]:
        reading = read(text)
        if depth:
            reading.values["depth"] = depth / FOLLOW_UPS
        return judge(reading), reading.units, stands_alone(reading)

    def proposal(self, reply: str) -> Verdict:
        return judge_proposal(reply)


def judge(reading: Reading, evidence_needed: float = EVIDENCE) -> Verdict:
    """The score of one text by itself."""
    if not reading.known:
        return UNSURE
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
        return UNSURE
    spoken.sort(key=_strength)
    score = 1.0 / (1.0 + math.exp(-(BIAS + total)))
    return Verdict(score, None, tuple(spoken[:TERMS]), idle=small_talk(reading))


def judge_proposal(reply: str) -> Verdict:
    """The score of what a reply proposes to do, where it does: in steps, or with a question at its end.

    Only the hard work that it speaks of counts: that a reply contains something easy makes nothing easier.
    """
    reading = read(reply)
    if not proposes(reading, reply):
        return UNSURE
    hard = {name: value for name, value in reading.values.items() if name in _HARD}
    return judge(Reading(hard, reading.units, reading.known), PROPOSAL_EVIDENCE)


def small_talk(reading: Reading) -> bool:
    """Whether a text is nothing but a greeting or thanks."""
    return "pleasantry" in reading.values


def stands_alone(reading: Reading) -> bool:
    """Whether a text is too plain a request to lean on what was said before it."""
    values = reading.values
    for name in _PLAIN:  # noqa: SIM110 -- a loop costs half of what any() does, on the request path
        if name in values and values[name] >= 0.5:
            return True
    return False


def leans(text: str) -> bool:
    """Whether a short text goes on with what was said before it ("commit it", "yes", "继续"), or is nothing but small talk."""
    if len(text) > FOLLOW_UP_CHARACTERS:
        return False
    reading = read(text)
    if small_talk(reading):
        return True
    return reading.units <= FOLLOW_UP_UNITS and not stands_alone(reading) and goes_on(text)


def proposes(reading: Reading, reply: str) -> bool:
    """Whether a reply says what it would do: in steps, or with a question at its end."""
    return "steps" in reading.values or "?" in (end := reply[-200:]) or "？" in end


def _strength(term: tuple[str, float]) -> float:
    return -abs(term[1])
