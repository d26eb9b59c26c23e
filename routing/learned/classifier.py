"""The classifier `learned`: judges the newest human ask of a request by a policy.

Small talk asks for nothing, so either tier does it and nothing is gained by the dearer, whatever was learned of its words.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from routing.features import read
from routing.following import UNSURE, hardest
from routing.grams import Grams, grams_of
from routing.learned.policy import MOST, Policy
from routing.rules import proposes, small_talk, stands_alone
from routing.types import Verdict

_SMALL_TALK = (("pleasantry", -1.0),)


class Learned:
    """Its policy may be replaced while requests are served: each text is judged by one policy as a whole."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    @property
    def middle(self) -> float:
        return self.policy.middle

    def classify(self, body: Mapping[str, Any], endpoint: str) -> Verdict:
        """The verdict on the newest human ask."""
        return hardest(self, body, endpoint)

    def ask(self, text: str, depth: int) -> tuple[Verdict, int, bool]:  # noqa: ARG002 - the interface of every judging
        grams = grams_of(text)
        return self.verdict(grams), grams.reading.units, stands_alone(grams.reading)

    def verdict(self, grams: Grams) -> Verdict:
        policy = self.policy
        if small_talk(grams.reading):
            return Verdict(0.0, None, _SMALL_TALK, MOST, MOST, policy.version, idle=True)
        judged = policy.judge_grams(grams)
        score = judged.score if judged.known else None
        return Verdict(score, None, judged.terms, judged.small, judged.large, policy.version)

    def proposal(self, reply: str) -> Verdict:
        return self.ask(reply, 0)[0] if proposes(read(reply), reply) else UNSURE
