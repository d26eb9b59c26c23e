"""The classifier `learned`: judges the newest human ask of a request by a policy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from routing.features import read
from routing.following import UNSURE, hardest
from routing.grams import Grams, grams_of
from routing.learned.policy import Policy
from routing.rules import proposes, stands_alone
from routing.types import Verdict


class Learned:
    """Its policy may be replaced while requests are served: each text is judged by one policy as a whole."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    def classify(self, body: Mapping[str, Any], endpoint: str) -> Verdict:
        """The verdict on the newest human ask."""
        return hardest(self, body, endpoint)

    def ask(self, text: str, depth: int) -> tuple[Verdict, int, bool]:  # noqa: ARG002 - the interface of every judging
        grams = grams_of(text)
        return self.verdict(grams), grams.reading.units, stands_alone(grams.reading)

    def verdict(self, grams: Grams) -> Verdict:
        policy = self.policy
        judged = policy.judge_grams(grams)
        score = judged.score if judged.known else None
        return Verdict(score, None, judged.terms, judged.small, judged.large, policy.version)

    def proposal(self, reply: str) -> Verdict:
        return self.ask(reply, 0)[0] if proposes(read(reply), reply) else UNSURE
