"""The classifier that never looks: every open request goes to one tier."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from routing.types import Verdict


class Fixed:
    """Names one tier, with no score: the decision's reason is `default`."""

    def __init__(self, tier: str) -> None:
        self._verdict = Verdict(None, tier)

    def classify(self, body: Mapping[str, Any], endpoint: str) -> Verdict:  # noqa: ARG002 -- the interface of every classifier
        return self._verdict
