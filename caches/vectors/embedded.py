"""Qdrant's own engine on a directory of this machine, in a process of its own (see `engine` for why).

- A few asks are with the engine at a time, the others wait for their turn, until their deadline. An answer that comes after it
  is read and thrown away.
- A process that died, or has been silent for too long, is replaced by a new one.
- What `put` and `delete` have returned from survives a kill of either process at any moment. A loss of power takes what came
  since the last tidying, at most.
- The points are tidied (written down, laid out anew) when many have changed, best while nobody searches. A search waits for the
  end of it, and is `busy` if that does not come in time.
- What it cannot read it sets aside, and begins anew. A disk that is full or may not be written is no such thing: it goes on
  reading, and what is to be written is declined.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ParamSpec, TypeVar

from caches.vectors import asks
from caches.vectors.backend import Numbers, Sheet
from caches.vectors.engine import Setup
from caches.vectors.faults import Declined, reason_of
from caches.vectors.life import EngineLife
from caches.vectors.notes import NoteFiles
from caches.vectors.options import IndexOptions
from caches.vectors.rows import Row, Where
from caches.vectors.store import QdrantStore, Times

P = ParamSpec("P")
T = TypeVar("T")
_WAIT = 0.75  # of its deadline an ask waits for its turn at most: the rest is for the answer
MARK = "mark-"  # in front of names


@dataclass(frozen=True, slots=True)
class Tidying:
    """When. Seconds, but for `changes`."""

    changes: int = 5_000  # points put or deleted
    idle: float = 0.5  # without a search, to begin; not awaited when four times as many have changed
    rest: float = 300.0  # after this long a single change is enough
    most: float = 900.0  # what it may take
    silent: float = 30.0  # what any other answer may take, before the process is given up


LOCK_SECONDS = 5.0
"""A gateway that ends still has its directory for a moment."""

_OPTIONS, _TIDYING, _TIMES = IndexOptions(), Tidying(), Times()


def embedded_store(
    path: Path,
    name: str,
    dimension: int,
    *,
    options: IndexOptions = _OPTIONS,
    max_points: int = 100_000,
    tidying: Tidying = _TIDYING,
    times: Times = _TIMES,
    lock_seconds: float = LOCK_SECONDS,
    as_it_is: bool = False,
    clock: Callable[[], float] = time.time,
    steady: Callable[[], float] = time.monotonic,
    rng: random.Random | None = None,
) -> QdrantStore:
    """`path` is a directory for any number of collections, `name` this one's (`rows.collection_name`); the oldest of more than
    `max_points` go. A directory that another process has is waited for `lock_seconds`. `as_it_is`: one that cannot be opened is
    left as it is, rather than moved aside and begun anew.
    """
    setup = Setup(str(path), name, dimension, options, max_points, lock_seconds, as_it_is=as_it_is)
    engine = EmbeddedEngine(setup, tidying, times, steady)
    return QdrantStore(engine, dimension, times=times, clock=clock, steady=steady, rng=rng)


async def _on_disk(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Raises Declined, and OSError where that says more than that the system refuses."""
    try:
        return await asyncio.to_thread(work, *args, **kwargs)
    except OSError as error:
        reason = reason_of(error)
        if reason is None:
            raise
        raise Declined(reason) from error


class EmbeddedEngine:
    notes_apart = True

    def __init__(self, setup: Setup, tidying: Tidying, times: Times, steady: Callable[[], float]) -> None:
        self.name = f"the vector store {setup.home}"
        self._life = EngineLife(setup, steady)
        self._notes = NoteFiles(setup.home.with_name(f"{setup.name}.notes"))
        self._tidying = tidying
        self._short, self._long = _WAIT * times.search, _WAIT * times.write
        self._steady = steady
        self._rested = asyncio.Event()  # it does not tidy
        self._rested.set()
        self._changes = 0
        self._searched_at = self._tidied_at = steady()

    @property
    def alive(self) -> bool:
        return self._life.alive

    async def begin(self) -> str:
        return await self._life.begin()

    async def end(self) -> None:
        await self._life.end()

    @property
    def declines(self) -> str | None:
        return self._life.declines

    @property
    def renewals(self) -> int:
        return self._life.renewals

    async def refusal(self, *, search: bool, seconds: float) -> str | None:
        if search and not self._rested.is_set():
            try:
                async with asyncio.timeout(_WAIT * seconds):
                    await self._rested.wait()
            except TimeoutError:
                return "busy"
        return "overload" if self._life.crowded else None

    async def search(self, where: Where, vector: bytes, limit: int) -> list[Row]:
        self._searched_at = self._steady()
        return await self._life.ask(asks.Search(where, vector, limit), list[Row], self._short)

    async def fetch(self, numbers: Sequence[str]) -> list[Row]:
        return await self._life.ask(asks.Fetch(list(numbers)), list[Row], self._short)

    async def put(self, rows: Sequence[Row]) -> None:
        await self._life.ask(asks.Put(list(rows)), type(None), self._long)
        self._changes += len(rows)

    async def delete(self, numbers: Sequence[str]) -> None:
        await self._life.ask(asks.Delete(list(numbers)), type(None), self._long)
        self._changes += len(numbers)

    async def page(self, where: Where, fields: Sequence[str], limit: int, start: str | None, *, delete: bool) -> Sheet:
        sheet = await self._life.ask(asks.Page(where, list(fields), limit, start, delete), Sheet, self._long)
        self._changes += len(sheet.rows) if delete else 0
        return sheet

    async def stats(self) -> Numbers:
        return await self._life.ask(asks.Stats(), Numbers, self._long)

    async def note(self, name: str) -> bytes | None:
        return await _on_disk(self._notes.read, name)

    async def keep_note(self, name: str, data: bytes) -> None:
        await _on_disk(self._notes.write, name, data)

    async def mark(self, name: str, data: bytes) -> None:
        await _on_disk(self._notes.write, MARK + name, data)

    async def marks(self) -> dict[str, bytes]:
        found = await _on_disk(self._notes.all, MARK)
        return {name.removeprefix(MARK): data for name, data in found.items()}

    async def unmark(self, names: Sequence[str]) -> None:
        for name in names:
            await _on_disk(self._notes.drop, MARK + name)

    async def tend(self) -> None:
        await self._life.part(self._tidying.silent)
        if self._life.alive and self._due():
            await self.tidy()

    async def tidy(self) -> None:
        """Write everything down, and lay the points out anew where enough of them have changed."""
        changes = self._changes
        self._rested.clear()
        try:
            async with asyncio.timeout(self._tidying.most):
                await self._life.ask(asks.Tidy(), bool, self._tidying.most)
        except TimeoutError:
            await self._life.kill()
            raise
        finally:
            self._rested.set()
            self._tidied_at = self._steady()
            self._changes -= changes

    def _due(self) -> bool:
        now, when = self._steady(), self._tidying
        wanted = self._changes >= (1 if now - self._tidied_at >= when.rest else when.changes)
        return wanted and (now - self._searched_at >= when.idle or self._changes >= 4 * when.changes)
