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
    async def judge(self, body: Mapping[str, Any], endpoint: str, tenant: str) -> Verdict:
        """Never raises but for a cancellation, and is bounded in time. What one tenant asks speeds nothing up for another."""
        ...


class Unknown:
    """A classifier that knows nothing: the default tier has every request."""

    def classify(self, body: Mapping[str, Any], endpoint: str) -> Verdict:  # noqa: ARG002 - the protocol's
        return Verdict(None)


class NobodyAsked:
    """The classifier answers at once."""

    def __init__(self, classifier: Classifier) -> None:
        self._classifier = classifier

    async def judge(self, body: Mapping[str, Any], endpoint: str, tenant: str) -> Verdict:  # noqa: ARG002 - the protocol's
        return self._classifier.classify(body, endpoint)
