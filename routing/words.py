"""The words of a request that a classifier is shown which knows nothing of conversations: its newest ask.

A short follow-up ("yes", "改一下") is shown after what it follows up. Of a long text its beginning and its end are shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from routing.features import read
from routing.following import UNSURE, hardest
from routing.types import Verdict

_SURE = Verdict(0.0)  # so that a text is taken as a follow-up for its words alone


class _Walk:
    middle = 0.0

    def __init__(self) -> None:
        self.texts: list[str] = []

    def ask(self, text: str, depth: int) -> tuple[Verdict, int, bool]:  # noqa: ARG002 - the interface of every judging
        self.texts.append(text)
        return _SURE, read(text).units, False

    def proposal(self, reply: str) -> Verdict:  # noqa: ARG002 - as above
        return UNSURE


def words(body: Mapping[str, Any], endpoint: str, most: int) -> str:
    """At most so many characters; empty where nobody asks anything. Never raises."""
    walk = _Walk()
    hardest(walk, body, endpoint)
    text = "\n".join(reversed(walk.texts))
    half = most // 2
    return text if len(text) <= most else text[:half] + "\n" + text[-(most - half - 1) :]
