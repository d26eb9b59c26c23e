"""What the semantic cache does beside requests: keep answers, remember what was learned, follow the store's coming and going.

- Answers wait in a bounded queue and are embedded and written in batches; one that finds the queue full is not kept.
- An answer whose making began before a flush or a delete that means it is not kept, whoever was asked for it (see `flushes`).
- A store that is away is opened again with growing pauses. Meanwhile every question is a miss.
- What others write into the same store (a cluster behind several nodes), and what they refuse, is learned of every few seconds.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from caches.embed.types import EmbedderAway, TooLong
from caches.semantic.flushes import Flushes
from caches.semantic.ids import twin_of
from caches.types import Entry
from caches.vectors.faults import DECLINED
from caches.vectors.types import Point, StoreAway
from caches.verify.types import VerifierAway
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


class Writer:
    """Runs as one task beside the cache: `run`. `status` and `embedding` are `ok`, or what is wrong."""

    def __init__(self, cache: SemanticCache, wall: Callable[[], float], *, shared: bool = False) -> None:
        self.open = False
        self.status = "starting"
        self.embedding = "ok"  # of answers to be kept, which have time
        self.doomed: dict[str, str | None] = {}  # points to be deleted as soon as the store is there, if that tenant owns them
        self.flushes = Flushes(cache.store, wall, shared=shared)
        self.dropped = 0
        self.shared = shared
        self._cache = cache
        self._wall = wall
        self._waiting: deque[tuple[Point, Entry]] = deque()  # with what marks are held against: no bodies
        self._storing = asyncio.Lock()  # a flush comes before an answer is written, or behind it: never in the middle
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._renewals = 0  # of the store, when all that it has was learned
        self._scanned = 0.0
        self._noted = 0.0
        self._expired = 0.0

    def post(self, point: Point, entry: Entry) -> bool:
        """Keep an answer, soon. Whether that can be."""
        if len(self._waiting) >= _MOST_WAITING or self.flushes.marks.bars(entry):
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
        flush = self.flushes.begin(which)
        if not self.shared:
            await self.flushes.tell()  # that needs no engine
        await self.obey()
        return flush.taken

    async def obey(self) -> None:
        """Do the flushes that are pending. Raises StoreAway."""
        async with self._storing:
            for each in await self.flushes.obey():
                self._cache.gate.remove(each)

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
        self.flushes.marks.deleted(exact, tenant, self._wall())
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
        if self._cache.verifier is not None:
            await self._cache.verifier.close()

    async def _turn(self) -> None:
        try:
            if self._renewals != self._cache.store.renewals:
                await self._learn()
            await self.obey()
            await self._write()
            await self._delete_doomed()
            await self._follow()
            self._expire()
            await self._note(now=False)
        except StoreAway as away:
            self.status = away.reason
        else:
            self.status = "ok"
        if not self._waiting:
            self._idle.set()

    @property
    def health(self) -> str:
        """`ok`, or what is wrong with the store, the embedder or other gateways' orders: a line for people."""
        store = self._cache.store.status if self.status == "ok" else self.status
        if store == "ok" and self._cache.following is not None and not self._cache.following.believed:
            return "other gateways are not heard"
        return store if store != "ok" or self.embedding == "ok" else f"embedder {self.embedding}"

    async def _open(self) -> bool:
        """The store, what it keeps, and what was learned."""
        cache = self._cache
        try:
            await cache.embedder.open()
        except EmbedderAway as away:  # it goes on trying by itself
            self.embedding = away.reason
        if cache.verifier is not None:
            with suppress(VerifierAway):  # likewise
                await cache.verifier.open()
        try:
            await cache.store.open()
            await self.flushes.hear()
            await self._learn()
            for name, part in (("refused", cache.refused), ("evidence", cache.evidence)):
                noted = await cache.store.note(self._named(name))
                if noted is not None:
                    part.load(noted)
        except StoreAway as away:
            self.status = away.reason
            return False
        if cache.following is not None:
            await cache.following.turn()
        self.open, self.status = True, "ok"
        return True

    async def _learn(self) -> None:
        """All that the store has, and nothing that it had."""
        self._renewals = self._cache.store.renewals
        self._cache.gate.clear()
        await self._scan(0.0)

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
            await self._hear()
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
                await self._hear()
                ready = [(point, entry) for point, entry in made if not self.flushes.marks.bars(entry)]
                if ready and await self._put([point for point, _ in ready]):
                    for point in await self._lasting(ready):
                        self._cache.gate.add(point.id, point.partition, point.text, point.expires_at)
                        self._cache.vectors.put(point.id, point.vector)

    async def _lasting(self, written: list[tuple[Point, Entry]]) -> list[Point]:
        """Those that nobody has flushed while they were written; the others are taken back."""
        gone = {point.id for point, _ in written}  # as long as it is not known
        try:
            await self._hear()
            gone = {point.id for point, entry in written if self.flushes.marks.bars(entry)}
            if gone:
                await self._cache.store.delete(list(gone))
        except StoreAway:
            self.doomed |= dict.fromkeys(gone)
            raise
        return [point for point, _ in written if point.id not in gone]

    async def _hear(self) -> None:
        if self.shared:
            await self.flushes.hear()
            if self.flushes.pending:
                self._wake.set()

    async def _put(self, ready: list[Point]) -> bool:
        """False: the store keeps nothing new just now, as its own status says; all else goes on."""
        try:
            await self._cache.store.put(ready)
        except StoreAway as away:
            if away.reason not in DECLINED:
                raise
            self.dropped += len(ready)
            return False
        return True

    async def _embedded(self, point: Point) -> Point | None:
        try:
            vector = await self._cache.embedder.embed(point.text, scope=point.tenant, within=_EMBED_SECONDS)
        except TooLong:
            self.dropped += 1
            return None
        except EmbedderAway as away:
            self.embedding = away.reason
            self.dropped += 1
            return None
        self.embedding = "ok"
        return replace(point, vector=vector)

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
