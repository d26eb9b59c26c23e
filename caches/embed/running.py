"""A model in threads of its own: loaded there, and asked there.

It goes on trying when loading fails; until then whoever asks is told so at once, without waiting.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from caches.breaker import Breaker, BreakerRules
from caches.embed.desk import BREAKER, RULES, Desk, DeskRules
from caches.embed.thread import CallThread
from caches.embed.types import EmbedderAway

_log = logging.getLogger(__name__)

L = TypeVar("L")  # a model, loaded
A = TypeVar("A", bound=Hashable)  # what it is asked
M = TypeVar("M")  # what it makes of that


@dataclass(frozen=True, slots=True)
class LoadRules:
    """Seconds between attempts to load: doubled each time, up to a bound."""

    first: float = 1.0
    longest: float = 60.0


LOADING = LoadRules()


class Running(Generic[L, A, M]):
    """`rules.lanes` threads share one model. `what` it is, with its name, is for the log.

    `call` has an outcome for each that was asked; None where the model cannot read it whole.
    """

    def __init__(
        self,
        what: str,
        load: Callable[[], L],
        call: Callable[[L, Sequence[A]], Sequence[M | None]],
        *,
        clock: Callable[[], float],
        rng: random.Random,
        rules: DeskRules = RULES,
        breaker: BreakerRules = BREAKER,
        loading: LoadRules = LOADING,
    ) -> None:
        self._what = what
        self._load = load
        self._call = call
        self._rng = rng
        self._loading = loading
        self._idle = [CallThread(f"{what.split(maxsplit=1)[0]}-{n}") for n in range(rules.lanes)]
        self._desk: Desk[A, M] = Desk(self._work, Breaker(clock, rng, breaker, partial(changed, what)), clock, rules)
        self._model: L | None = None
        self._why = "loading"
        self._tried = asyncio.Event()
        self._loader: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Raises EmbedderAway when it does not load; it goes on trying by itself."""
        self._start()
        await self._tried.wait()
        if self._model is None:
            raise EmbedderAway(self._why)

    async def ask(self, what: A, scope: str = "", within: float | None = None) -> M:
        """Raises EmbedderAway and TooLong."""
        if self._model is None:
            self._start()
            raise EmbedderAway(self._why)
        return await self._desk.ask(what, scope, within)

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
                _log.warning("the %s did not load, and is tried again by and by: %s", self._what, trouble)
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
            self._model = await self._idle[0].call(self._load)
        except Exception as error:  # noqa: BLE001 - the edge to files, runtimes and downloads, which raise what they like
            return f"{type(error).__name__}: {error}"
        return None

    async def _work(self, asked: Sequence[A]) -> Sequence[M | None]:
        """A lane has one call at a time, so a thread is idle."""
        if self._model is None:
            raise EmbedderAway(self._why)
        thread = self._idle.pop()
        try:
            return await thread.call(partial(self._call, self._model, asked))
        finally:
            self._idle.append(thread)


def changed(what: str, error: BaseException | None) -> None:
    """For a breaker: one line when it opens, one when it closes."""
    if error is None:
        _log.info("the %s is back", what)
    else:
        _log.warning("the %s is left alone for a while: %s: %s", what, type(error).__name__, error)
