"""A model in threads of its own, as an embedder.

It loads there too, and goes on trying when that fails; until then every text is told so at once, without waiting.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from caches.breaker import Breaker, BreakerRules
from caches.embed.description import Description
from caches.embed.desk import BREAKER, RULES, Desk, DeskRules
from caches.embed.scripts import Scripts
from caches.embed.thread import CallThread
from caches.embed.types import EmbedderAway, Model, TooLong, Vector

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LoadRules:
    """Seconds between attempts to load: doubled each time, up to a bound."""

    first: float = 1.0
    longest: float = 60.0


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
        loading: LoadRules = LoadRules(),
    ) -> None:
        self.about = about
        self.fingerprint = about.fingerprint
        self.dimension = about.dimension
        self._load = load
        self._rng = rng
        self._loading = loading
        self._scripts = Scripts(about.scripts)
        self._idle = [CallThread(f"embedder-{n}") for n in range(rules.lanes)]
        self._desk = Desk(self._work, Breaker(clock, rng, breaker, partial(changed, about.name)), clock, rules)
        self._model: Model | None = None
        self._why = "loading"
        self._tried = asyncio.Event()
        self._loader: asyncio.Task[None] | None = None

    async def open(self) -> None:
        self._start()
        await self._tried.wait()
        if self._model is None:
            raise EmbedderAway(self._why)

    def covers(self, text: str) -> bool:
        return self._scripts.covers(text)

    async def embed(self, text: str, *, scope: str = "", within: float | None = None) -> Vector:
        if len(text) > self.about.max_chars:
            raise TooLong
        if self._model is None:
            self._start()
            raise EmbedderAway(self._why)
        return await self._desk.embed(text, scope, within)

    async def close(self) -> None:
        """At once: a call that has begun ends by itself, in its thread."""
        if self._loader is not None:
            self._loader.cancel()
            await asyncio.gather(self._loader, return_exceptions=True)
        await self._desk.close()
        self._model, self._why = None, "failed"
        for thread in self._idle:
            thread.close()

    # -- loading

    def _start(self) -> None:
        if self._loader is None:
            self._loader = asyncio.create_task(self._load_until_there())

    async def _load_until_there(self) -> None:
        pause, said = self._loading.first, ""
        while (trouble := await self._trouble()) is not None:
            if trouble != said:
                _log.warning("the embedder %s did not load, and is tried again by and by: %s", self.about.name, trouble)
                said = trouble
            self._why = "failed"
            self._tried.set()
            await asyncio.sleep(pause * self._rng.uniform(0.5, 1.0))
            pause = min(2 * pause, self._loading.longest)
        self._desk.open()
        self._tried.set()

    async def _trouble(self) -> str | None:
        """An attempt to load."""
        try:
            model = await self._idle[0].call(self._load)
        except Exception as error:  # noqa: BLE001 - the edge to files, runtimes and downloads, which raise what they like
            return f"{type(error).__name__}: {error}"
        if (model.fingerprint, model.dimension) != (self.fingerprint, self.dimension):
            return "it is another model than was described"
        self._model = model
        return None

    async def _work(self, texts: Sequence[str]) -> Sequence[Vector | None]:
        """A lane has one call at a time, so a thread is idle."""
        if self._model is None:
            raise EmbedderAway(self._why)
        thread = self._idle.pop()
        try:
            return await thread.call(partial(self._model.embed, texts))
        finally:
            self._idle.append(thread)


def changed(name: str, error: BaseException | None) -> None:
    """For a breaker: one line when it opens, one when it closes."""
    if error is None:
        _log.info("the embedder %s is back", name)
    else:
        _log.warning("the embedder %s is left alone for a while: %s: %s", name, type(error).__name__, error)
