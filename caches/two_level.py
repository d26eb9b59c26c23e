"""A shared store, and in front of it the memory of this process for what it was last given.

- What is in front is served only while every change by others is heard (see `caches.redis.changes`): when the subscription is
  down it is not believed, and when it is up again it is empty.
- `delete` and `flush` return `LEASE` (half a second) after the shared store has obeyed. By then every gateway has heard of it, or
  believes its front no more: none serves what was meant.
- `put` waits for nobody: for as long as its message takes, another gateway may still serve the answer that was replaced; for
  `LEASE` seconds at the very most.
- The front never outlives the shared entry: it is given what is left of its time, counted from before it was asked for.
- What came from the shared store is not put in front if it was changed while it was on its way.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import OrderedDict
from collections.abc import Callable

from caches.orders import LEASE
from caches.redis.changes import Changes
from caches.redis.store import CHANNEL, RedisStore
from caches.shelf import Shelf
from caches.types import CacheStats, Entry, StoreState
from caches.which import Which

_MOST_CHANGES = 1024


class TwoLevelStore:
    """`max_bytes` bounds the front. `clock` is the wall clock by which entries are dated, `tick` one that is never set."""

    def __init__(
        self,
        shared: RedisStore,
        max_bytes: int,
        *,
        max_entry: int | None = None,
        clock: Callable[[], float] = time.time,
        tick: Callable[[], float] = time.monotonic,
        rng: random.Random | None = None,
    ) -> None:
        self.away: str | None = None
        self._shared = shared
        self._front = Shelf(max_bytes, clock, max_entry=max_entry)
        self._news = News()
        self._changes = Changes(shared.server, CHANNEL, shared.me, self._heard, tick, rng or random.Random())
        self._hits = 0

    @property
    def state(self) -> StoreState:
        return self._shared.state

    async def start(self) -> None:
        await self._shared.start()
        self._changes.start()

    async def close(self) -> None:
        await self._changes.close()
        await self._shared.close()

    async def get(self, key: bytes) -> Entry | None:
        if self._changes.believed:
            entry = self._front.get(key)
            if entry is not None:
                self._hits += 1
                self.away = None
                return entry
        asked = self._news.count
        entry = await self._shared.get(key)
        self.away = self._shared.away
        if entry is not None and self._changes.believed and not self._news.since(asked, entry.id):
            self._front.put(entry)
        return entry

    async def peek(self, key: bytes) -> Entry | None:
        front = self._front.peek(key) if self._changes.believed else None
        return front or await self._shared.peek(key)

    async def put(self, entry: Entry) -> bool:
        asked = self._news.count
        try:
            stored = await self._shared.put(entry)
        except BaseException:
            self._heard(entry.id)  # whether it was stored or not
            raise
        self.away = self._shared.away
        lasting = stored and self._changes.believed and not self._news.since(asked, entry.id)
        self._heard(entry.id)
        if lasting:
            self._front.put(entry)
        return stored

    async def delete(self, id: str, tenant: str | None) -> bool:  # noqa: A002 - the protocol's
        try:
            found = await self._shared.delete(id, tenant)
        finally:
            self._heard(id)
        await asyncio.sleep(LEASE)
        return found

    async def flush(self, which: Which, *, dry_run: bool = False) -> int:
        if dry_run:
            return await self._shared.flush(which, dry_run=True)
        try:
            found = await self._shared.flush(which)
        finally:
            self._heard(None)
        await asyncio.sleep(LEASE)
        return found

    async def stats(self) -> CacheStats:
        """The shared store's, but for the hits and evictions of the front."""
        shared = await self._shared.stats()
        return CacheStats(
            entries=shared.entries,
            bytes=shared.bytes,
            max_bytes=shared.max_bytes,
            hits=shared.hits + self._hits,
            misses=shared.misses,
            evictions=self._front.evictions,
        )

    def _heard(self, name: str | None) -> None:
        self._news.add(name)
        if name is None:
            self._front.clear()
            return
        entry = self._front.named(name)
        if entry is not None:
            self._front.drop(entry)


class News:
    """Which entries were changed lately, by a bounded memory: what it has forgotten, it takes for changed."""

    __slots__ = ("_all", "_ids", "count")

    def __init__(self) -> None:
        self.count = 0
        self._all = 0  # the last that concerned every entry
        self._ids: OrderedDict[str, int] = OrderedDict()

    def add(self, name: str | None) -> None:
        self.count += 1
        if name is None:
            self._all = self.count
            self._ids.clear()
            return
        self._ids[name] = self.count
        self._ids.move_to_end(name)
        if len(self._ids) > _MOST_CHANGES:
            self._all = self._ids.popitem(last=False)[1]

    def since(self, count: int, name: str) -> bool:
        """Whether the entry of that id was changed after `count` changes."""
        return self._all > count or self._ids.get(name, 0) > count
