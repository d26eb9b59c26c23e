"""A cross-encoder as a verifier: loaded and run in a thread of its own, under a deadline and a breaker.

No word from it in time is no yes: what was doubtful is a miss.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Protocol

from caches.breaker import BreakerRules
from caches.embed.desk import BREAKER, RULES, DeskRules
from caches.embed.running import LOADING, LoadRules, Running
from caches.embed.scripts import Scripts
from caches.embed.types import EmbedderAway, TooLong
from caches.verify.description import PairDescription
from caches.verify.onnx import Pair
from caches.verify.types import VerifierAway


class Scorer(Protocol):
    """Blocking. A score a pair, 0 to 1; None for one that it cannot read whole."""

    def scores(self, pairs: Sequence[Pair]) -> Sequence[float | None]: ...


class CrossEncoder:
    """`threshold`: the least score that approves; None: what the description says. `all` as in `Verifier`."""

    def __init__(
        self,
        about: PairDescription,
        load: Callable[[], Scorer],
        *,
        clock: Callable[[], float],
        rng: random.Random,
        threshold: float | None = None,
        all: bool = False,  # noqa: A002 - the config's word
        rules: DeskRules = RULES,
        breaker: BreakerRules = BREAKER,
        loading: LoadRules = LOADING,
    ) -> None:
        self.all = all
        self._about = about
        self._threshold = about.threshold if threshold is None else threshold
        self._scripts = Scripts(about.scripts)
        self._running: Running[Scorer, Pair, float] = Running(
            f"verifier {about.name}", load, _scores, clock=clock, rng=rng, rules=rules, breaker=breaker, loading=loading
        )

    async def approves(self, question: str, kept: str, *, scope: str = "") -> bool:
        if not self._reads(question, kept):
            return False
        try:
            return await self._running.ask((kept, question), scope) >= self._threshold
        except TooLong:
            return False
        except EmbedderAway as away:
            raise VerifierAway(away.reason) from None

    async def open(self) -> None:
        try:
            await self._running.open()
        except EmbedderAway as away:
            raise VerifierAway(away.reason) from None

    async def close(self) -> None:
        """At once: a call that has begun ends by itself, in its thread."""
        await self._running.close()

    def _reads(self, *texts: str) -> bool:
        return sum(map(len, texts)) <= self._about.max_chars and all(map(self._scripts.covers, texts))


def _scores(model: Scorer, pairs: Sequence[Pair]) -> Sequence[float | None]:
    return model.scores(pairs)
