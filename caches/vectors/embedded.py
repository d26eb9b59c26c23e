"""Qdrant's own engine on a directory of this machine, in a process of its own (see `engine` for why).

- No call waits on the event loop, and none longer than its deadline. A late answer is read and thrown away.
- So many asks may be with the engine (see `life`); what comes above is refused with `overload`.
- A process that died, or has been silent for too long, is replaced by a new one. Until then all is `failed`, then `breaker`.
- What `put` and `delete` have returned from survives a kill of either process at any moment. A loss of power takes what came
  since the last tidying, at most.
- The points are tidied (written down, laid out anew) when many have changed, best while nobody searches. Meanwhile searches are
  refused with `busy`.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from caches.embed.types import Vector
from caches.vectors import asks, points, probe, rows
from caches.vectors.engine import Setup
from caches.vectors.life import EngineLife, Patience
from caches.vectors.notes import NoteFiles, check_name
from caches.vectors.options import IndexOptions
from caches.vectors.rows import BadRow, Row, Where
from caches.vectors.types import Known, Match, Point, StoreAway, VectorStats
from caches.vectors.watch import Deadlines, Watch, log
from caches.which import Which

_PUT_ROWS = 16  # at a time: a search waits for no more than these
_PUT_BYTES = 2**20
_PAGE = 256

_OPTIONS, _DEADLINES, _PATIENCE = IndexOptions(), Deadlines(), Patience()

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Tending:
    """What is done in the background, and when. Seconds."""

    every: float = 1.0
    sweep: float = 60.0  # between looking for expired points
    changes: int = 5_000  # points put or deleted, after which all is tidied
    idle: float = 0.5  # without a search, to begin it; not awaited when four times as many have changed
    rest: float = 300.0  # after this long a single change is enough
    tidy: float = 900.0  # what it may take


class EmbeddedStore:
    """`path` is a directory for any number of collections, `name` this one's (`rows.collection_name`)."""

    def __init__(
        self,
        path: Path,
        name: str,
        dimension: int,
        *,
        options: IndexOptions = _OPTIONS,
        max_points: int = 100_000,
        deadlines: Deadlines = _DEADLINES,
        tending: Tending = Tending(),
        patience: Patience = _PATIENCE,
        clock: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
        rng: random.Random | None = None,
    ) -> None:
        self._life = EngineLife(Setup(str(path), name, dimension, options, max_points), patience, steady)
        self._watch = Watch(f"the vector store {path / name}", steady, rng or random.Random())
        self._notes = NoteFiles(path / f"{name}.notes")
        self._dimension = dimension
        self._deadlines = deadlines
        self._tending = tending
        self._clock = clock
        self._steady = steady
        self._tender: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()
        self._tidying = False
        self._changes = 0
        self._searched_at = self._tidied_at = self._swept_at = steady()

    @property
    def status(self) -> str:
        return self._watch.status

    async def open(self) -> None:
        """Raises StoreAway; the store then goes on trying by itself, until it is closed."""
        if self._tender is None:
            self._tender = asyncio.create_task(self._tend())
        await self._start()

    async def close(self) -> None:
        tender, self._tender = self._tender, None
        if tender is not None:
            tender.cancel()
            await asyncio.wait([tender])
        await self._life.end()

    async def search(self, partition: str, vector: Vector, limit: int = 5) -> list[Match]:
        self._searched_at, now = self._steady(), self._clock()
        with _refusals():
            ask = asks.Search(Where(partition=partition, alive_at=now), points.packed(vector, self._dimension), limit)
        found = await self._ask(ask, list[Row], self._deadlines.search)
        with _refusals():
            return points.matches(found, partition, vector, now)

    async def fetch(self, id: str) -> Point | None:  # noqa: A002 - the protocol's
        found = await self._ask(asks.Fetch(rows.numbers([id])), list[Row], self._deadlines.search)
        with _refusals():
            return points.only(found, id, self._dimension, self._clock())

    async def put(self, given: Sequence[Point]) -> None:
        with _refusals():
            made = [points.row(point, self._dimension) for point in given]
        for batch in _batches(made):
            await self._ask(asks.Put(batch), type(None))
            self._changes += len(batch)

    async def delete(self, ids: Sequence[str]) -> None:
        for start in range(0, len(ids), _PAGE):
            batch = rows.numbers(ids[start : start + _PAGE])
            await self._ask(asks.Delete(batch), type(None))
            self._changes += len(batch)

    async def flush(self, which: Which, *, dry_run: bool = False) -> list[str]:
        with _refusals():
            where = points.where(which, self._clock())
        return [row.id async for page in self._pages(where, ["id"], delete=not dry_run) for row in page]

    async def scan(self, since: float = 0.0) -> AsyncIterator[list[Known]]:
        async for page in self._pages(Where(born_from=since, alive_at=self._clock()), rows.KNOWN):
            yield [points.known(row) for row in page]

    async def stats(self) -> VectorStats:
        told = await self._ask(asks.Stats(), asks.Numbers)
        return VectorStats(told.points, told.segments, told.unindexed)

    async def note(self, name: str) -> bytes | None:
        check_name(name)
        with _refusals():
            return await asyncio.to_thread(self._notes.read, name)

    async def keep_note(self, name: str, data: bytes) -> None:
        check_name(name)
        with _refusals():
            await asyncio.to_thread(self._notes.write, name, data)

    async def tend(self) -> None:
        """One round of what is done in the background. Raises StoreAway."""
        await self._life.part()
        if not self._life.alive:
            await self._start()
            return
        if self._steady() - self._swept_at >= self._tending.sweep:
            await self.sweep()
        if self._due():
            await self.tidy()

    async def sweep(self) -> None:
        """Delete what has expired, a page at a time. Raises StoreAway."""
        self._swept_at = self._steady()
        async for _ in self._pages(Where(dead_by=self._clock()), ["id"], delete=True):
            await asyncio.sleep(0)

    async def tidy(self) -> None:
        """Write everything down, and lay the points out anew where enough of them have changed. Raises StoreAway."""
        changes = self._changes
        self._tidying = True
        try:
            await self._life.tidy(self._tending.tidy)
        except Exception as error:  # whatever the engine raises: it is tried again when as much has changed once more
            log.warning("the vector store could not be tidied: %s", error)
            raise StoreAway("failed") from error
        finally:
            self._tidying = False
            self._tidied_at = self._steady()
            self._changes -= changes

    def _due(self) -> bool:
        now, tending = self._steady(), self._tending
        wanted = self._changes >= (1 if now - self._tidied_at >= tending.rest else tending.changes)
        return wanted and (now - self._searched_at >= tending.idle or self._changes >= 4 * tending.changes)

    async def _tend(self) -> None:
        while True:
            await asyncio.sleep(self._tending.every)
            with contextlib.suppress(StoreAway):  # told in the log where it was raised
                await self.tend()

    async def _start(self) -> None:
        async with self._starting:
            if self._life.alive:
                return
            if not self._life.due:
                raise StoreAway("failed")
            try:
                how = await self._life.begin(self._deadlines.open)
                async with asyncio.timeout(self._deadlines.write):
                    await self._check()
            except Exception as error:  # whatever keeps it from beginning: it is told, and tried again
                self._life.failed()
                self._watch.refused(error)
                await self._life.end(0.0)
                raise StoreAway("failed") from error
            self._life.succeeded()
            self._watch.opened(how)

    async def _check(self) -> None:
        """Raises whatever is wrong."""
        life, now = self._life, self._clock()
        point = probe.point("embedded", self._dimension, now)
        row, numbers = points.row(point, self._dimension), rows.numbers([point.id])
        await life.ask(asks.Put([row]), type(None))
        found = await life.ask(asks.Search(Where(partition=point.partition, alive_at=now), row.vector, 1), list[Row])
        fetched = await life.ask(asks.Fetch(numbers), list[Row])
        await life.ask(asks.Delete(numbers), type(None))
        matches = points.matches(found, point.partition, point.vector, now)
        probe.check(point, matches, points.only(fetched, point.id, self._dimension, now))

    async def _pages(self, where: Where, fields: list[str], *, delete: bool = False) -> AsyncIterator[list[Row]]:
        start: str | None = None
        while True:
            sheet = await self._ask(asks.Page(where, fields, _PAGE, start, delete), asks.Sheet)
            self._changes += len(sheet.rows) if delete else 0
            yield sheet.rows
            start = sheet.next
            if start is None:
                return

    async def _ask(self, ask: asks.Ask, kind: type[T], seconds: float | None = None) -> T:
        if self._tidying and isinstance(ask, asks.Search | asks.Fetch):
            raise StoreAway("busy")
        if self._life.crowded:
            raise StoreAway("overload")
        return await self._watch.run(lambda: self._life.ask(ask, kind), self._deadlines.write if seconds is None else seconds)


def _batches(made: Sequence[Row]) -> Iterator[list[Row]]:
    batch: list[Row] = []
    size = 0
    for row in made:
        if batch and (len(batch) >= _PUT_ROWS or size + len(row.answer) > _PUT_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(row)
        size += len(row.answer)
    if batch:
        yield batch


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    """What is wrong with a value or a file says nothing about the engine: no breaker counts it."""
    try:
        yield
    except (BadRow, OSError) as error:
        raise StoreAway("failed") from error
