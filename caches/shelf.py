"""Entries in the memory of this process, bounded by their bytes.

- The bytes of all entries, with what each costs beside its body, never exceed `max_bytes`; who has to go is `S3Fifo`'s choice.
- `peek` changes nothing. `get` and `drop` touch one entry, `put` as many as must go to make room for its own.
- The indexes by id and by tenant hold exactly the entries that the shelf holds.
- An expired entry is never returned. It is dropped when it is met: by `get`, or at the old ends by `put`.

Nothing here waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from caches.s3fifo import S3Fifo
from caches.types import Entry

_SWEEPS_PER_PUT = 2  # more than one, so that the expired ones at the old ends grow fewer; few, so that a put stays short


class Shelf:
    """`max_entry`: the longest body that is taken, in bytes; by default whatever fits."""

    def __init__(self, max_bytes: int, clock: Callable[[], float], *, max_entry: int | None = None) -> None:
        self.max_bytes = max_bytes
        self._max_entry = max_bytes if max_entry is None else max_entry
        self._clock = clock
        self._entries: S3Fifo[Entry] = S3Fifo(max_bytes)
        self._keys_by_id: dict[str, bytes] = {}
        self._keys_by_tenant: dict[str, dict[bytes, None]] = {}
        self.evictions = 0

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def weight(self) -> int:
        return self._entries.weight

    def get(self, key: bytes) -> Entry | None:
        held = self._entries.find(key)
        if held is None:
            return None
        entry = held.value
        if entry.expires_at <= self._clock():
            self.drop(entry)
            return None
        held.use()
        return entry

    def peek(self, key: bytes) -> Entry | None:
        entry = self._at(key)
        return None if entry is None or entry.expires_at <= self._clock() else entry

    def put(self, entry: Entry) -> bool:
        """False when it is too large, or expired already."""
        now, key, size = self._clock(), entry.key, entry.size
        if len(entry.body) > self._max_entry or size > self.max_bytes or entry.expires_at <= now:
            return False
        known, namesake = self._at(key), self.named(entry.id)
        if known is not None and known is namesake and known.tenant == entry.tenant:
            self._entries.replace(key, entry, size)
            self._make_room(0, now)
        else:
            if known is not None or namesake is not None:
                for other in (known, namesake):  # the old answer to its key, and another key's entry of the same id
                    if other is not None and self._at(other.key) is other:
                        self.drop(other)
            self._make_room(size, now)  # ahead of it, so that it is not itself who has to go
            self._add(entry, size)
        self._sweep(now)
        return True

    def named(self, id: str) -> Entry | None:  # noqa: A002 - the name of the field it is
        key = self._keys_by_id.get(id)
        return None if key is None else self._at(key)

    def of(self, tenant: str | None) -> Iterable[Entry]:
        """All entries of a tenant; None: of all."""
        if tenant is None:
            return self._entries
        return (entry for key in self._keys_by_tenant.get(tenant, ()) if (entry := self._at(key)) is not None)

    def drop(self, entry: Entry) -> None:
        self._entries.remove(entry.key)
        self._forget(entry)

    def clear(self) -> None:
        self._entries.clear()
        self._keys_by_id.clear()
        self._keys_by_tenant.clear()

    def _at(self, key: bytes) -> Entry | None:
        held = self._entries.find(key)
        return None if held is None else held.value

    def _add(self, entry: Entry, size: int) -> None:
        self._entries.add(entry.key, entry, size)
        self._keys_by_id[entry.id] = entry.key
        self._keys_by_tenant.setdefault(entry.tenant, {})[entry.key] = None

    def _make_room(self, size: int, now: float) -> None:
        while self._entries.weight + size > self.max_bytes:
            entry = self._entries.evict()
            self._forget(entry)
            self.evictions += entry.expires_at > now

    def _sweep(self, now: float) -> None:
        for _ in range(_SWEEPS_PER_PUT):
            swept = False
            for entry in self._entries.oldest():
                if entry.expires_at <= now:
                    self.drop(entry)
                    swept = True
            if not swept:
                return

    def _forget(self, entry: Entry) -> None:
        del self._keys_by_id[entry.id]
        siblings = self._keys_by_tenant[entry.tenant]
        del siblings[entry.key]
        if not siblings:
            del self._keys_by_tenant[entry.tenant]
