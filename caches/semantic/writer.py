"""What the semantic cache does beside requests: keep answers, remember what was learned, follow the store's coming and going.

- Answers wait in a bounded queue and are embedded and written in batches; one that finds the queue full is not kept.
- An answer whose making began before a flush or a delete that means it is not kept (`caches.marks`).
- A store that is away is opened again with growing pauses. Meanwhile every question is a miss.
- What others write into the same store (a cluster behind several nodes), and what they refuse, is learned of every few seconds.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from caches.embed.types import EmbedderAway, TooLong
from caches.marks import Marks, field_of
from caches.semantic.ids import twin_of
from caches.types import Entry
from caches.vectors.types import Point, StoreAway
from caches.which import Which

if TYPE_CHECKING:
    from caches.semantic.cache import SemanticCache
    from caches.semantic.evidence import Evidence
    from caches.semantic.refused import Refused

_log = logging.getLogger("tiergate.caches")
_MOST_WAITING = 1_000
_BATCH = 32
_EMBED_SECONDS = 5.0  # for a vector that nobody waits for
_TICK = 1.0  # seconds
_NOTES_EVERY = 5.0
_SCAN_EVERY = 3.0
_OVERLAP = 10.0  # seconds that a scan looks back: clocks of several nodes differ
_SHORTEST_PAUSE = 0.5
_LONGEST_PAUSE = 30.0
_EXPIRE_EVERY = 60.0


@dataclass(slots=True, eq=False)
class _Flush:
    which: Which
    taken: int = 0


class Writer:
    """Runs as one task beside the cache: `run`. `status` is `ok`, or what is wrong."""

    def __init__(self, cache: SemanticCache, wall: Callable[[], float], *, shared: bool = False) -> None:
        self.open = False
        self.status = "starting"
        self.doomed: dict[str, str | None] = {}  # points to be deleted as soon as the store is there, if that tenant owns them
        self.pending: list[_Flush] = []  # flushes that the store has not heard of
        self.dropped = 0
        self.shared = shared
        self._cache = cache
        self._wall = wall
        self._waiting: deque[tuple[Point, Entry]] = deque()  # with what marks are held against: no bodies
        self._storing = asyncio.Lock()  # a flush comes before an answer is written, or behind it: never in the middle
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._marks = Marks()
        self._scanned = 0.0
        self._noted = 0.0
        self._expired = 0.0

    def post(self, point: Point, entry: Entry) -> bool:
        """Keep an answer, soon. Whether that can be."""
        if len(self._waiting) >= _MOST_WAITING or self._marks.bars(entry):
            self.dropped += 1
            return False
        self._waiting.append((point, replace(entry, body=b"")))
        self._idle.clear()
        self._wake.set()
        return True

    def wake(self) -> None:
        """There is something to remember: not in a while, but now."""
        self._wake.set()

    async def flush(self, which: Which) -> int:
        """Delete what is kept, what waits, and what is being made. Raises StoreAway: it stays pending."""
        self._mark(which)
        flush = _Flush(which)
        self.pending.append(flush)
        await self._flush_pending()
        return flush.taken

    async def _flush_pending(self) -> None:
        async with self._storing:
            while self.pending:
                flush = self.pending[0]
                ids = await self._cache.store.flush(flush.which)
                flush.taken = len(ids)
                del self.pending[0]
                for each in ids:
                    self._cache.gate.remove(each)

    def _mark(self, which: Which) -> None:
        now = self._wall()
        born_by = which.born_by(now)
        self._marks.flushed(field_of(which), now if born_by is None else born_by)

    async def delete(self, point: str, tenant: str | None) -> Point | None:
        """Delete a kept answer, wherever it is, if `tenant` owns it; None is the operator. Raises StoreAway."""
        async with self._storing:
            known = await self._cache.store.fetch(point)
            if known is None or tenant not in (None, known.tenant):
                return None
            if twin := twin_of(known.tags):  # it may be in a partition that tenants share, and in its own
                await self._forget(twin, known.tenant)
            await self._cache.store.delete([point])
            self._cache.gate.remove(point)
        return known

    async def forget(self, exact: str, tenant: str | None) -> int:
        """Delete what is kept of an exact answer, in whichever partition; also what waits, or is being made. Raises StoreAway."""
        async with self._storing:
            return await self._forget(exact, tenant)

    async def _forget(self, exact: str, tenant: str | None) -> int:
        self._marks.deleted(exact, tenant, self._wall())
        ids = await self._cache.store.flush(Which(tenant=tenant, tag=exact))
        for each in ids:
            self._cache.gate.remove(each)
        return len(ids)

    async def settled(self) -> None:
        """Returns when everything that was posted is written, or given up."""
        await self._idle.wait()

    async def run(self) -> None:
        """For ever."""
        pause = _SHORTEST_PAUSE
        while True:
            await self.turn()
            if self.open:
                pause = _SHORTEST_PAUSE
                with suppress(TimeoutError):
                    async with asyncio.timeout(_TICK):
                        await self._wake.wait()
                self._wake.clear()
            else:
                await asyncio.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)

    async def turn(self) -> None:
        """Whatever is to be done now."""
        if self.open or await self._open():
            await self._turn()

    async def close(self) -> None:
        """The last of what is to be remembered."""
        with suppress(StoreAway):
            if self.open:
                await self._write()
                await self._note(now=True)
        await self._cache.store.close()
        await self._cache.embedder.close()

    async def _turn(self) -> None:
        try:
            await self._flush_pending()
            await self._write()
            await self._delete_doomed()
            await self._note(now=False)
            await self._follow()
            self._expire()
        except StoreAway as away:
            self.status = away.reason
        else:
            self.status = "ok"
        if not self._waiting:
            self._idle.set()

    async def _open(self) -> bool:
        """The store, what it keeps, and what was learned."""
        cache = self._cache
        with suppress(EmbedderAway):  # it goes on trying by itself
            await cache.embedder.open()
        try:
            await cache.store.open()
            cache.gate.clear()
            await self._scan(0.0)
            for name, part in (("refused", cache.refused), ("evidence", cache.evidence)):
                noted = await cache.store.note(self._named(name))
                if noted is not None:
                    part.load(noted)
        except StoreAway as away:
            self.status = away.reason
            return False
        self.open, self.status = True, "ok"
        return True

    def _named(self, name: str) -> str:
        return name if name == "refused" else f"{name}-{self._cache.embedder.fingerprint}"

    async def _scan(self, since: float) -> None:
        now = self._wall()
        async for batch in self._cache.store.scan(since):
            for known in batch:
                if known.expires_at > now:
                    self._cache.gate.add(known.id, known.partition, known.text, known.expires_at)
        self._scanned = now

    async def _follow(self) -> None:
        if self.shared and self._wall() >= self._scanned + _SCAN_EVERY:
            await self._scan(self._scanned - _OVERLAP)
            noted = await self._cache.store.note("refused")
            self._cache.refused.join(noted or b"")

    def _expire(self) -> None:
        now = self._wall()
        if now >= self._expired + _EXPIRE_EVERY:
            self._expired = now
            self._cache.gate.expire(now)

    async def _write(self) -> None:
        while self._waiting:
            batch = [self._waiting.popleft() for _ in range(min(_BATCH, len(self._waiting)))]
            made = [(point, entry) for posted, entry in batch if (point := await self._embedded(posted)) is not None]
            async with self._storing:
                ready = [point for point, entry in made if not self._marks.bars(entry)]
                if ready:
                    await self._cache.store.put(ready)
                for point in ready:
                    self._cache.gate.add(point.id, point.partition, point.text, point.expires_at)
                    self._cache.vectors.put(point.id, point.vector)

    async def _embedded(self, point: Point) -> Point | None:
        try:
            return replace(point, vector=await self._cache.embedder.embed(point.text, scope=point.tenant, within=_EMBED_SECONDS))
        except (EmbedderAway, TooLong):
            self.dropped += 1
            return None

    async def _delete_doomed(self) -> None:
        for point, tenant in list(self.doomed.items()):
            await self.delete(point, tenant)
            self.doomed.pop(point, None)

    async def _note(self, *, now: bool) -> None:
        """What was refused, at once: whoever deleted it was told that it never comes back."""
        cache, wall = self._cache, self._wall()
        await self._note_of("refused", cache.refused)
        if now or wall >= self._noted + _NOTES_EVERY:
            self._noted = wall
            await self._note_of("evidence", cache.evidence)

    async def _note_of(self, name: str, part: Refused | Evidence) -> None:
        if part.changed:
            packed = part.packed()
            try:
                await self._cache.store.keep_note(self._named(name), packed)
            except BaseException:
                part.changed = True
                raise
