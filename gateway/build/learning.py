"""Learning on own traffic, wired: what passes by in each process that answers, and the one that writes."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from gateway.behind import Behind
from gateway.config import Config
from gateway.config.ends import ends
from gateway.inner import Inner
from gateway.learning.journal import Journal
from gateway.learning.judge import Referee
from gateway.learning.schedule import Schedule
from gateway.learning.watching import NothingLearned, Watching
from gateway.metrics import Metrics
from gateway.shadow import Budget
from routing.types import Classifier

Clock = Callable[[], float]
_AT_ONCE = 1.0
"""Requests that a process which has just begun may ask twice: with a minute's worth each reload would add as many."""


class Keeps(Protocol):
    """Whoever writes lines down."""

    def note(self, line: bytes) -> None: ...
    def close(self) -> None: ...


class KeepsNothing:
    def note(self, line: bytes) -> None:
        """Nobody wants to know."""

    def close(self) -> None:
        """Nothing is open."""


class NeverDue:
    async def run(self) -> None:
        """Returns at once."""


class Runs(Protocol):
    async def run(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Learns:
    """Where a process takes what it has seen; `elsewhere`: whom it tells of feedback that it does not understand, if anybody."""

    note: Callable[[bytes], None]
    elsewhere: Callable[[str, str, float], Awaitable[bool]] | None = None


def journal_of(config: Config) -> Keeps:
    """The owner's."""
    own = config.routing.learning
    if not own.enabled:
        return KeepsNothing()
    return Journal(own.path / "log", max_age=own.max_age, max_bytes=own.max_bytes)


def schedule_of(config: Config) -> Runs:
    """The owner's."""
    own = config.routing.learning
    return NeverDue() if own.calibrate is None else Schedule(own.path, own.calibrate, config.routing.classifier.policy)


def watching_of(
    config: Config, learns: Learns, behind: Behind, inner: Inner, metrics: Metrics, clock: Clock, wall: Clock
) -> NothingLearned:
    own, workers = config.routing.learning, config.server.workers
    tiers = ends(config)
    if not own.enabled or tiers is None:
        return NothingLearned()
    tokens = own.tokens_per_minute
    return Watching(
        tiers=tiers,
        behind=behind,
        note=learns.note,
        elsewhere=learns.elsewhere,
        judge=None if own.judge is None else Referee(inner, own.judge),
        share=own.share,
        budgets=(Budget(own.per_minute / workers, clock, _AT_ONCE), None if tokens is None else Budget(tokens / workers, clock)),
        tenants=own.tenants,
        grams=_grams if own.keep == "grams" else None,
        metrics=metrics,
        clock=clock,
        wall=wall,
        rng=random.Random(),
    )


def learned_classifier(config: Config) -> Classifier:
    """With the policy that the config names, or the one that ships."""
    from routing.learned.classifier import Learned  # noqa: PLC0415 - loaded only where it is used
    from routing.learned.policy import Policy  # noqa: PLC0415 - as above
    from routing.learned.shipped import shipped  # noqa: PLC0415 - as above

    path = config.routing.classifier.policy
    return Learned(shipped() if path is None else Policy.load(path))


def following_of(config: Config, classifier: Classifier, changed: Callable[[], None]) -> Runs:
    """What keeps a learned classifier at the policy that is in force; it has that one when this returns. `changed` is called
    whenever the classifier has another one.
    """
    if config.routing.classifier.kind != "learned":
        return NeverDue()
    from gateway.learning.following import Following  # noqa: PLC0415 - loaded only where it is used
    from routing.learned.classifier import Learned  # noqa: PLC0415 - as above

    assert isinstance(classifier, Learned), "made for this kind"
    following = Following(config.routing.learning.path / "policies", classifier, classifier.policy)
    following.on_change(lambda _: changed())
    following.load()
    return following


def _grams(text: str) -> tuple[list[int], list[float]]:
    from routing.grams import grams_of  # noqa: PLC0415 - its lexicon is loaded only where it is used

    read = grams_of(text)
    return sorted(read.ids), [round(amount, 4) for amount in read.amounts]
