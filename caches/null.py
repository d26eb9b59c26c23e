"""The store of a cache that is off: it keeps nothing and finds nothing, so that no caller asks whether there is one."""

from __future__ import annotations

from caches.types import CacheStats, Entry, StoreState
from caches.which import Which


class NullStore:
    away: str | None = None
    state = StoreState("off")

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    async def get(self, key: bytes) -> Entry | None:  # noqa: ARG002 - the protocol's
        return None

    async def peek(self, key: bytes) -> Entry | None:  # noqa: ARG002 - the protocol's
        return None

    async def put(self, entry: Entry) -> bool:  # noqa: ARG002 - the protocol's
        return False

    async def delete(self, id: str, tenant: str | None) -> bool:  # noqa: A002, ARG002 - the protocol's
        return False

    async def flush(self, which: Which, *, dry_run: bool = False) -> int:  # noqa: ARG002 - the protocol's
        return 0

    async def stats(self) -> CacheStats:
        return CacheStats(entries=0, bytes=0, max_bytes=0, hits=0, misses=0, evictions=0)
