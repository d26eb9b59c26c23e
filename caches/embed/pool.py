"""Vectors from an engine that serves them: one of the operator's own pools, behind `/v1/embeddings`."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import numpy as np

from caches.breaker import Breaker, BreakerRules
from caches.embed.description import Description
from caches.embed.desk import BREAKER, Desk, DeskRules
from caches.embed.running import changed
from caches.embed.scripts import Scripts
from caches.embed.types import TooLong, Vector
from caches.embed.vector import unit

Ask = Callable[[Sequence[str]], Awaitable[Sequence[Sequence[float]]]]
"""The call of the engine: numbers a text, in their order. Raises TooLong where the engine says so, or what it likes."""

CALLS = DeskRules(batch=32, lanes=4)


class PoolEmbedder:
    """What waits while the lanes are busy goes in one call."""

    def __init__(
        self,
        about: Description,
        ask: Ask,
        *,
        clock: Callable[[], float],
        rng: random.Random,
        rules: DeskRules = CALLS,
        breaker: BreakerRules = BREAKER,
    ) -> None:
        self.about = about
        self.fingerprint = about.fingerprint
        self.dimension = about.dimension
        self._ask = ask
        self._deadline = rules.deadline
        self._scripts = Scripts(about.scripts)
        self._desk: Desk[str, Vector] = Desk(
            self._work, Breaker(clock, rng, breaker, partial(changed, f"embedder {about.name}")), clock, rules
        )

    async def open(self) -> None:
        """Whether the engine answers is seen when it is asked: it may start later than we do."""
        self._desk.open()

    def covers(self, text: str) -> bool:
        return self._scripts.covers(text)

    async def embed(self, text: str, *, scope: str = "", within: float | None = None) -> Vector:
        if len(text) > self.about.max_chars:
            raise TooLong
        self._desk.open()
        return await self._desk.ask(text, scope, within)

    async def close(self) -> None:
        await self._desk.close()

    async def _work(self, texts: Sequence[str]) -> list[Vector | None]:
        async with asyncio.timeout(self._deadline):
            try:
                return await self._vectors(texts)
            except TooLong:  # one of them: found by asking for each
                return [None] if len(texts) == 1 else [vector for text in texts for vector in await self._work([text])]

    async def _vectors(self, texts: Sequence[str]) -> list[Vector | None]:
        rows = await self._ask([self.about.prefix + text for text in texts])
        if len(rows) != len(texts) or any(len(row) != self.dimension for row in rows):
            raise ValueError(f"not a vector of {self.dimension} numbers for each text")
        return [unit(np.asarray(row, np.float32)) for row in rows]
