"""A model in threads of its own, as an embedder."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from caches.breaker import BreakerRules
from caches.embed.description import Description
from caches.embed.desk import BREAKER, RULES, DeskRules
from caches.embed.running import LOADING, LoadRules, Running
from caches.embed.scripts import Scripts
from caches.embed.types import Model, TooLong, Vector


class ThreadedEmbedder:
    """`rules.lanes` threads share one model."""

    def __init__(
        self,
        about: Description,
        load: Callable[[], Model],
        *,
        clock: Callable[[], float],
        rng: random.Random,
        rules: DeskRules = RULES,
        breaker: BreakerRules = BREAKER,
        loading: LoadRules = LOADING,
    ) -> None:
        self.about = about
        self.fingerprint = about.fingerprint
        self.dimension = about.dimension
        self._load = load
        self._scripts = Scripts(about.scripts)
        self._running: Running[Model, str, Vector] = Running(
            f"embedder {about.name}", self._loaded, _embed, clock=clock, rng=rng, rules=rules, breaker=breaker, loading=loading
        )

    async def open(self) -> None:
        await self._running.open()

    def covers(self, text: str) -> bool:
        return self._scripts.covers(text)

    async def embed(self, text: str, *, scope: str = "", within: float | None = None) -> Vector:
        if len(text) > self.about.max_chars:
            raise TooLong
        return await self._running.ask(text, scope, within)

    async def close(self) -> None:
        """At once: a call that has begun ends by itself, in its thread."""
        await self._running.close()

    def _loaded(self) -> Model:
        model = self._load()
        if (model.fingerprint, model.dimension) != (self.fingerprint, self.dimension):
            raise ValueError("it is another model than was described")
        return model


def _embed(model: Model, texts: Sequence[str]) -> Sequence[Vector | None]:
    return model.embed(texts)
