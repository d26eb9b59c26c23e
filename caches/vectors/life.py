"""The engine's process through its lives: begun, begun again when it died, given up when it is silent."""

from __future__ import annotations

from collections.abc import Callable
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
_END_SECONDS = 10.0  # for the last writing down; killing it then loses nothing that was answered


class EngineLife:
    def __init__(self, setup: Setup, steady: Callable[[], float]) -> None:
        self._setup = setup
        self._steady = steady
        self._process: EngineProcess | None = None
        self._deaths = 0

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.alive

    @property
    def crowded(self) -> bool:
        process = self._process
        return process is not None and (process.waiting >= _MOST_WAITING or process.unread > _MOST_UNREAD)

    async def begin(self) -> str:
        """Raises EngineGone and OSError."""
        await self.kill()
        try:
            self._process = await EngineProcess.start(
                msgspec.structs.replace(self._setup, aside=self._deaths >= _DEATHS), self._steady
            )
        except EngineGone as error:
            self._deaths += not error.told
            raise
        self._deaths = 0
        hello = self._process.hello
        if hello.trouble is not None:
            log.warning("the vector store begins anew (%s); what was there is at %s", hello.trouble, hello.aside)
        return f"{hello.points} points"

    async def ask(self, ask: asks.Ask, kind: type[T]) -> T:
        """Raises EngineGone and EngineError."""
        if self._process is None:
            raise EngineGone("the engine's process has not begun")
        return msgspec.msgpack.decode(await self._process.ask(ask), type=kind)

    async def part(self, silent: float) -> None:
        """Give up a process that has been silent for longer than that, while an answer was awaited."""
        process = self._process
        if process is not None and process.alive and process.silent_for() > silent:
            log.warning("the vector store's process has been silent for %.0f s, and is replaced", process.silent_for())
            await self.kill()

    async def kill(self) -> None:
        await self.end(0.0)

    async def end(self, seconds: float = _END_SECONDS) -> None:
        process, self._process = self._process, None
        if process is not None:
            await process.end(seconds)
