"""Classifiers that have to be awaited: they ask another machine, or a model in a thread.

Nobody waits for one while a request is admitted: what it asks of a model first is left open (`Undecided`), and the verdict is
awaited once no cache has answered. What fails or is late is judged by a classifier that needs nobody.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from routing.types import Classifier, Verdict


class Undecided(Exception):  # noqa: N818 - it names what is the matter
    """The verdict has to be awaited."""


class Asked(Protocol):
    async def judge(self, body: Mapping[str, Any], endpoint: str) -> Verdict:
        """Never raises but for a cancellation, and is bounded in time."""
        ...


class NobodyAsked:
    """The classifier answers at once."""

    def __init__(self, classifier: Classifier) -> None:
        self._classifier = classifier

    async def judge(self, body: Mapping[str, Any], endpoint: str) -> Verdict:
        return self._classifier.classify(body, endpoint)
