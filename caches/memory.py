"""The store of one process: a `Shelf`, and what flushes and deletes leave behind.

Only `flush` walks. One event loop uses it, and no method awaits, so each call is atomic.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from caches.marks import Marks, field_of
from caches.shelf import Shelf
from caches.types import CacheStats, Entry, StoreState
from caches.which import Which


class MemoryStore:
    """`max_entry`: the longest body that is taken, in bytes; by default whatever fits the store."""

    away: str | None = None  # it never is
    state = StoreState("memory")

    def __init__(self, max_bytes: int, clock: Callable[[], float] = time.time, *, max_entry: int | None = None) -> None:
        self._shelf = Shelf(max_bytes, clock, max_entry=max_entry)
        self._marks = Marks()
        self._clock = clock
        self._generation = 0
        self._hits = 0
        self._misses = 0

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    async def get(self, key: bytes) -> Entry | None:
        entry = self._shelf.get(key)
        if entry is None:
            self._misses += 1
        else:
            self._hits += 1
        return entry

    async def peek(self, key: bytes) -> Entry | None:
        return self._shelf.peek(key)

    async def put(self, entry: Entry) -> bool:
        if self._marks.bars(entry) or not self._shelf.put(entry):
            return False
        self._generation += 1
        entry.generation = self._generation
        return True

    async def delete(self, id: str, tenant: str | None) -> bool:  # noqa: A002 - the protocol's
        now = self._clock()
        self._marks.deleted(id, tenant, now)
        entry = self._shelf.named(id)
        if entry is None or tenant not in (None, entry.tenant):
            return False
        self._shelf.drop(entry)
        return entry.expires_at > now

    async def flush(self, which: Which, *, dry_run: bool = False) -> int:
        now = self._clock()
        found = [it for it in self._shelf.of(which.tenant) if which.takes(it.tenant, it.model, it.tags, it.born, now)]
        if not dry_run:
            born_by = which.born_by(now)
            self._marks.flushed(field_of(which), now if born_by is None else born_by)
            for entry in found:
                self._shelf.drop(entry)
        return sum(entry.expires_at > now for entry in found)

    async def stats(self) -> CacheStats:
        shelf = self._shelf
        return CacheStats(
            entries=len(shelf),
            bytes=shelf.weight,
            max_bytes=shelf.max_bytes,
            hits=self._hits,
            misses=self._misses,
            evictions=shelf.evictions,
        )
