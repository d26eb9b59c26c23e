"""The engine's process through its lives: begun, begun again when it died, given up when it is silent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from caches.vectors import asks
from caches.vectors.engine import Setup
from caches.vectors.process import EngineGone, EngineProcess
from caches.vectors.watch import log

T = TypeVar("T")

_MOST_WAITING = 64
_MOST_UNREAD = 32 * 2**20  # bytes that the engine has not taken yet
_DEATHS = 2  # in a row, before it has said a word: then it is what it reads that kills it


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds."""

    silent: float = 30.0  # without any answer, while one is awaited
    restart: float = 1.0  # before the second try; twice as long before each that follows
    most_restart: float = 60.0


class EngineLife:
    def __init__(self, setup: Setup, patience: Patience, steady: Callable[[], float]) -> None:
        self._setup = setup
        self._patience = patience
        self._steady = steady
        self._process: EngineProcess | None = None
        self._deaths = 0
        self._failures = 0
        self._retry_at = steady()

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.alive

    @property
    def due(self) -> bool:
        """Whether it is time to try again."""
        return self._steady() >= self._retry_at

    @property
    def crowded(self) -> bool:
        process = self._process
        return process is not None and (process.waiting >= _MOST_WAITING or process.unread > _MOST_UNREAD)

    async def begin(self, seconds: float) -> str:
        """How it began. Raises EngineGone, TimeoutError and OSError."""
        await self.end(0.0)
        setup = msgspec.structs.replace(self._setup, aside=self._deaths >= _DEATHS)
        try:
            self._process = await EngineProcess.start(setup, seconds, self._steady)
        except EngineGone:
            self._deaths += 1
            raise
        self._deaths = 0
        hello = self._process.hello
        if hello.trouble is not None:
            log.warning("the vector store begins anew (%s); what was there is at %s", hello.trouble, hello.aside)
        return f"{hello.points} points"

    def failed(self) -> None:
        """It did not begin, or not well."""
        wait = self._patience.restart * 2 ** min(self._failures, 16)
        self._failures += 1
        self._retry_at = self._steady() + min(wait, self._patience.most_restart)

    def succeeded(self) -> None:
        self._failures = 0

    async def ask(self, ask: asks.Ask, kind: type[T]) -> T:
        """Raises EngineGone and EngineError."""
        if self._process is None:
            raise EngineGone("the engine's process is not there yet")
        return msgspec.msgpack.decode(await self._process.ask(ask), type=kind)

    async def part(self) -> None:
        """Give up a process that has been silent for too long."""
        process = self._process
        if process is not None and process.alive and process.silent_for() > self._patience.silent:
            log.warning("the vector store's process has been silent for %.0f s, and is replaced", process.silent_for())
            await process.end(0.0)

    async def end(self, seconds: float | None = None) -> None:
        process, self._process = self._process, None
        if process is not None:
            await (process.end() if seconds is None else process.end(seconds))

    async def tidy(self, seconds: float) -> None:
        """Raises EngineGone, EngineError and TimeoutError: then it is given up."""
        try:
            async with asyncio.timeout(seconds):
                await self.ask(asks.Tidy(), bool)
        except TimeoutError:
            await self.end(0.0)
            raise
