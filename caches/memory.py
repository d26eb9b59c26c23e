"""A bounded LRU store in this process.

- The bytes of all entries, with what each costs beside its body, never exceed `max_bytes`: the least recently used go first.
- `get` and `delete` touch one entry, `put` as many as must go to make room for its own; only `flush` walks.
- The indexes by id and by tenant hold exactly the entries that the store holds.
- An expired entry is never returned. It is dropped when it is met: by `get`, by `flush`, or at the old end by `put`.

One event loop uses it, and no method awaits, so each call is atomic.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable

from caches.types import CacheStats, Entry
from caches.which import Which

_EXPIRED_PER_PUT = 2  # more than one, so that the expired ones at the old end grow fewer; few, so that a put stays short


class MemoryStore:
    """`max_entry`: the longest body that is taken, in bytes; by default whatever fits the store."""

    def __init__(self, max_bytes: int, clock: Callable[[], float] = time.time, *, max_entry: int | None = None) -> None:
        self._max_bytes = max_bytes
        self._max_entry = max_bytes if max_entry is None else max_entry
        self._clock = clock
        self._entries: OrderedDict[bytes, Entry] = OrderedDict()  # least recently used first
        self._keys_by_id: dict[str, bytes] = {}
        self._keys_by_tenant: dict[str, dict[bytes, None]] = {}
        self._bytes = 0
        self._generation = 0
        self._hits = 0
        self._misses = 0
        self._evictions = 0

    async def get(self, key: bytes) -> Entry | None:
        entry = self._entries.get(key)
        if entry is None:
            self._misses += 1
            return None
        if entry.expires_at <= self._clock():
            self._drop(entry)
            self._misses += 1
            return None
        self._entries.move_to_end(key)
        self._hits += 1
        return entry

    async def put(self, entry: Entry) -> bool:
        now = self._clock()
        if len(entry.body) > self._max_entry or entry.size > self._max_bytes or entry.expires_at <= now:
            return False
        self._replace(entry)
        self._generation += 1
        entry.generation = self._generation
        self._entries[entry.key] = entry
        self._keys_by_id[entry.id] = entry.key
        self._keys_by_tenant.setdefault(entry.tenant, {})[entry.key] = None
        self._bytes += entry.size
        self._make_room(now)
        return True

    async def delete(self, id: str, tenant: str | None) -> bool:  # noqa: A002 - the protocol's
        key = self._keys_by_id.get(id)
        if key is None:
            return False
        entry = self._entries[key]
        if tenant is not None and entry.tenant != tenant:
            return False
        self._drop(entry)
        return entry.expires_at > self._clock()

    async def flush(self, which: Which, *, dry_run: bool = False) -> int:
        now = self._clock()
        found = [
            entry for entry in self._of(which.tenant) if which.takes(entry.tenant, entry.model, entry.tags, entry.stored_at, now)
        ]
        if not dry_run:
            for entry in found:
                self._drop(entry)
        return sum(entry.expires_at > now for entry in found)

    async def stats(self) -> CacheStats:
        return CacheStats(
            entries=len(self._entries),
            bytes=self._bytes,
            max_bytes=self._max_bytes,
            hits=self._hits,
            misses=self._misses,
            evictions=self._evictions,
        )

    def _of(self, tenant: str | None) -> Iterable[Entry]:
        if tenant is None:
            return self._entries.values()
        return (self._entries[key] for key in self._keys_by_tenant.get(tenant, ()))

    def _replace(self, entry: Entry) -> None:
        """Drop what stands in the new entry's place: the old answer to its key, and another key's entry of the same id."""
        known = self._entries.get(entry.key)
        if known is not None:
            self._drop(known)
        namesake = self._keys_by_id.get(entry.id)
        if namesake is not None:
            self._drop(self._entries[namesake])

    def _make_room(self, now: float) -> None:
        while self._bytes > self._max_bytes:
            oldest = next(iter(self._entries.values()))
            self._drop(oldest)
            self._evictions += oldest.expires_at > now
        for _ in range(_EXPIRED_PER_PUT):
            oldest = next(iter(self._entries.values()))
            if oldest.expires_at > now:
                return
            self._drop(oldest)

    def _drop(self, entry: Entry) -> None:
        del self._entries[entry.key]
        del self._keys_by_id[entry.id]
        siblings = self._keys_by_tenant[entry.tenant]
        del siblings[entry.key]
        if not siblings:
            del self._keys_by_tenant[entry.tenant]
        self._bytes -= entry.size
