"""The engine's process through its lives: begun, begun again when it died, given up when it is silent."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from caches.vectors import asks
from caches.vectors.engine import Setup
from caches.vectors.faults import LITTLE, short
from caches.vectors.process import EngineGone, EngineProcess
from caches.vectors.watch import log

T = TypeVar("T")

_MOST_QUEUED = 4096  # who waits has a deadline; this bounds what so many asks hold in memory
_DEATHS = 2  # in a row, before it has said a word, or soon, of something that it should read: then it is that what kills it
_SOON = 60.0  # seconds
_END_SECONDS = 10.0  # for the last writing down; killing it then loses nothing that was answered


class EngineLife:
    def __init__(self, setup: Setup, steady: Callable[[], float]) -> None:
        self._setup = setup
        self._steady = steady
        self._process: EngineProcess | None = None
        self._deaths = 0
        self._began_at = 0.0
        self._damage: str | None = None
        self.declines: str | None = None  # why it wrote nothing when it began
        self.renewals = 0  # how often what was there was set aside

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.alive

    @property
    def crowded(self) -> bool:
        process = self._process
        return process is not None and process.queued >= _MOST_QUEUED

    async def begin(self) -> str:
        """Raises EngineGone and OSError."""
        await self.kill()
        if self._deaths >= _DEATHS:
            self._damage = self._damage or "the process that read it died"
        try:
            self._process = await EngineProcess.start(msgspec.structs.replace(self._setup, aside=self._damage), self._steady)
        except EngineGone as error:
            self._died(counts=not error.told)
            raise
        self._began_at = self._steady()
        hello = self._process.hello
        self.declines = hello.declines
        if self._damage is not None or hello.trouble is not None:
            self._damage, self._deaths = None, 0
            self.renewals += 1
        if hello.trouble is not None:
            log.warning("the vector store begins anew (%s); what was there is at %s", hello.trouble, hello.aside)
        return f"{hello.points} points"

    async def ask(self, ask: asks.Ask, kind: type[T], patience: float) -> T:
        """Raises EngineGone, EngineError and Declined."""
        if self._process is None:
            raise EngineGone("the engine's process has not begun")
        return msgspec.msgpack.decode(await self._process.ask(ask, patience), type=kind)

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
        if process is None:
            return
        self._damage = self._damage or process.damage
        if not process.alive:
            if self._steady() - self._began_at > _SOON:
                self._deaths = 0
            self._died(counts=process.died_reading)
        await process.end(seconds)

    def _died(self, *, counts: bool) -> None:
        """Of a full disk it dies too, when it writes."""
        if counts and not short(self._setup.home, LITTLE):
            self._deaths += 1
