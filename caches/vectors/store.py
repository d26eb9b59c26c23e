"""A Qdrant as the cache knows it: deadlines, a breaker, batches, and what is done in the background. For both backends.

- Nothing but `StoreAway` comes out of it, and that in time.
- A search is filtered in the engine, and what comes back is looked at again: partition, expiry, and the cosine of the vectors.
- What is wrong with a value (a vector of another length, half a character) says nothing about the engine: no breaker counts it.
- Opened or not, it goes on trying to begin until it is closed. A store that comes back needs no restart of ours.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from caches.embed.types import Vector
from caches.vectors import points, probe, rows
from caches.vectors.backend import Backend
from caches.vectors.faults import DECLINED, Declined
from caches.vectors.notes import NoteFiles, check_name
from caches.vectors.rows import BadRow, Row, Where
from caches.vectors.types import Known, Match, Point, StoreAway, VectorStats
from caches.vectors.watch import Watch
from caches.which import Which

_PUT_ROWS = 16  # at a time: a search waits for no more than these
_PUT_BYTES = 2**20
_PAGE = 256

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds. A search stands in the path of a request, a write does not."""

    search: float = 0.05
    write: float = 10.0
    open: float = 60.0
    tend: float = 1.0  # between rounds of what is done in the background
    sweep: float = 60.0  # between looking for expired points
    retry: float = 1.0  # to the second try to begin; twice as long to each that follows
    most_retry: float = 30.0


_TIMES = Times()


class QdrantStore:
    """Made by `embedded.embedded_store` and `remote.remote_store`."""

    def __init__(
        self,
        backend: Backend,
        dimension: int,
        *,
        waiting: NoteFiles | None = None,
        times: Times = _TIMES,
        clock: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
        rng: random.Random | None = None,
    ) -> None:
        self._backend = backend
        self._waiting = waiting
        self.dimension = dimension
        self._times = times
        self._clock = clock
        self._steady = steady
        self._rng = rng or random.Random()
        self._watch = Watch(backend.name, steady, self._rng)
        self._beginning = asyncio.Lock()
        self._failures = 0
        self._retry_at = self._swept_at = steady()
        self._tender: asyncio.Task[None] | None = None

    @property
    def status(self) -> str:
        return self._watch.status

    @property
    def renewals(self) -> int:
        return self._backend.renewals

    async def open(self) -> None:
        if self._tender is None:
            self._tender = asyncio.create_task(self._tend())
        await self._begin()

    async def close(self) -> None:
        tender, self._tender = self._tender, None
        if tender is not None:
            tender.cancel()
            await asyncio.wait([tender])
        await self._backend.end()

    async def search(self, partition: str, vector: Vector, limit: int = 5) -> list[Match]:
        now, times = self._clock(), self._times
        with _refusals():
            packed = points.packed(vector, self.dimension)
        where = Where(partition=partition, alive_at=now)
        found = await self._asked(partial(self._backend.search, where, packed, limit), times.search, search=True)
        with _refusals():
            return points.matches(found, partition, vector, now)

    async def fetch(self, id: str) -> Point | None:  # noqa: A002 - the protocol's
        numbers = rows.numbers([id])
        found = await self._asked(partial(self._backend.fetch, numbers), self._times.search, search=True)
        with _refusals():
            return points.only(found, id, self.dimension, self._clock())

    async def put(self, given: Sequence[Point]) -> None:
        with _refusals():
            made = [points.row(point, self.dimension) for point in given]
        for batch in _batches(made):
            await self._kept(partial(self._backend.put, batch))

    async def delete(self, ids: Sequence[str]) -> None:
        for start in range(0, len(ids), _PAGE):
            numbers = rows.numbers(ids[start : start + _PAGE])
            await self._written(partial(self._backend.delete, numbers))

    async def flush(self, which: Which, *, dry_run: bool = False) -> list[str]:
        with _refusals():
            where = points.where(which, self._clock())
        return [row.id async for page in self._pages(where, ["id"], delete=not dry_run) for row in page]

    async def scan(self, since: float = 0.0) -> AsyncIterator[list[Known]]:
        async for page in self._pages(Where(born_from=since, alive_at=self._clock()), rows.KNOWN):
            yield [points.known(row) for row in page]

    async def stats(self) -> VectorStats:
        told = await self._written(self._backend.stats)
        return VectorStats(told.points, told.segments, told.unindexed)

    async def note(self, name: str) -> bytes | None:
        check_name(name)
        return await self._noted(partial(self._backend.note, name))

    async def keep_note(self, name: str, data: bytes) -> None:
        check_name(name)
        await self._noted(partial(self._backend.keep_note, name, data))

    async def mark(self, name: str, data: bytes) -> None:
        try:
            await self._noted(partial(self._backend.mark, check_name(name), data))
        except StoreAway:
            if self._waiting is not None:
                with contextlib.suppress(OSError):
                    await asyncio.to_thread(self._waiting.write, name, data)
            raise

    async def marks(self) -> dict[str, bytes]:
        if self._waiting is not None:
            await self._bring(self._waiting)
        return await self._noted(self._backend.marks)

    async def unmark(self, names: Sequence[str]) -> None:
        await self._noted(partial(self._backend.unmark, names))

    async def tend(self) -> None:
        """One round of what is done in the background. Raises StoreAway."""
        await self._minded(self._backend.tend)
        if not self._backend.alive:
            await self._begin()
        elif self._steady() - self._swept_at >= self._times.sweep:
            await self.sweep()

    async def tidy(self) -> None:
        """Lay the points out anew, now and not when it is due. Raises StoreAway."""
        await self._minded(self._backend.tidy)

    async def sweep(self) -> None:
        """Delete what has expired, a page at a time. Raises StoreAway."""
        self._swept_at = self._steady()
        async for _ in self._pages(Where(dead_by=self._clock()), ["id"], delete=True):
            await asyncio.sleep(0)

    async def _minded(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except Exception as error:  # whatever Qdrant raises: it is tried again in the next round
            self._watch.mention(error)
            raise StoreAway("failed") from error

    async def _tend(self) -> None:
        while True:
            await asyncio.sleep(self._times.tend)
            with contextlib.suppress(StoreAway):  # told in the log where it was raised
                await self.tend()

    async def _begin(self) -> None:
        async with self._beginning:
            if self._backend.alive:
                return
            if self._steady() < self._retry_at:
                raise StoreAway("failed")
            try:
                async with asyncio.timeout(self._times.open):
                    how = await self._backend.begin()
                    declines = self._backend.declines
                    if declines is None:
                        declines = await self._declining()
            except Exception as error:  # whatever keeps it from beginning: it is told, and tried again
                await self._put_off(error)
                raise StoreAway("failed") from error
            self._failures = 0
            self._watch.opened(how)
            self._watch.writes(declines)

    async def _put_off(self, error: Exception) -> None:
        wait = self._times.retry * 2 ** min(self._failures, 16)
        self._failures += 1
        self._retry_at = self._steady() + min(wait, self._times.most_retry)
        self._watch.refused(error)
        await self._backend.end()

    async def _declining(self) -> str | None:
        """Why it takes no probe, though there is nothing wrong with it. Raises whatever is wrong."""
        try:
            await self._probe()
        except Declined as declined:
            return declined.reason
        return None

    async def _probe(self) -> None:
        """Write, search, read, delete. Raises whatever is wrong."""
        backend, now = self._backend, self._clock()
        point = probe.point(f"{self._rng.getrandbits(64):016x}", self.dimension, now)
        row, numbers = points.row(point, self.dimension), rows.numbers([point.id])
        await backend.put([row])
        found = await backend.search(Where(partition=point.partition, alive_at=now), row.vector, 5)
        fetched = await backend.fetch(numbers)
        await backend.delete(numbers)
        matches = points.matches(found, point.partition, point.vector, now)
        probe.check(point, matches, points.only(fetched, point.id, self.dimension, now))

    async def _pages(self, where: Where, fields: list[str], *, delete: bool = False) -> AsyncIterator[list[Row]]:
        start: str | None = None
        while True:
            sheet = await self._written(partial(self._backend.page, where, fields, _PAGE, start, delete=delete))
            yield sheet.rows
            start = sheet.next
            if start is None:
                return

    async def _written(self, work: Callable[[], Awaitable[T]]) -> T:
        return await self._asked(work, self._times.write, search=False)

    async def _asked(self, work: Callable[[], Awaitable[T]], seconds: float, *, search: bool) -> T:
        loop = asyncio.get_running_loop()
        latest = loop.time() + seconds
        refusal = await self._backend.refusal(search=search, seconds=seconds)
        if refusal is not None:
            raise StoreAway(refusal)
        return await self._watch.run(work, max(0.0, latest - loop.time()))

    async def _bring(self, waiting: NoteFiles) -> None:
        """Marks that the store could not be told of, by this process or the one before."""
        try:
            for name, data in (await asyncio.to_thread(waiting.all, "")).items():
                await self._noted(partial(self._backend.mark, name, data))
                await asyncio.to_thread(waiting.drop, name)
        except OSError as error:
            self._watch.mention(error)

    async def _noted(self, work: Callable[[], Awaitable[T]]) -> T:
        if not self._backend.notes_apart:
            return await self._written(work)
        try:
            async with asyncio.timeout(self._times.write):
                return await work()
        except Declined as declined:
            raise StoreAway(declined.reason) from None
        except TimeoutError:
            raise StoreAway("timeout") from None
        except OSError as error:
            raise StoreAway("failed") from error

    async def _kept(self, work: Callable[[], Awaitable[None]]) -> None:
        """A put: what is declined here is told of the store as a whole."""
        try:
            await self._written(work)
        except StoreAway as away:
            if away.reason in DECLINED:
                self._watch.writes(away.reason)
            raise
        self._watch.writes(None)


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
    """A value that cannot be stored, or a row that cannot be read."""
    try:
        yield
    except BadRow as error:
        raise StoreAway("failed") from error
