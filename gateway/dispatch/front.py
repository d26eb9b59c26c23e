"""A worker's own copy of what it was last given of the exact cache: bounded, and never believed without asking.

The owner numbers what it stores (`Entry.generation`). A question names the generation of the copy at hand, and the owner says
whether that is the present one, so a deleted, flushed, expired or replaced answer is never served; what the copy saves is
sending the answer from one process to the other.
"""

from __future__ import annotations

from collections import OrderedDict

from caches.types import Entry


class Front:
    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._entries: OrderedDict[bytes, Entry] = OrderedDict()
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: bytes) -> Entry | None:
        entry = self._entries.get(key)
        if entry is not None:
            self._entries.move_to_end(key)
        return entry

    def put(self, entry: Entry) -> None:
        before = self._entries.pop(entry.key, None)
        self.bytes -= before.size if before else 0
        if entry.size > self._max_bytes:
            return
        self._entries[entry.key] = entry
        self.bytes += entry.size
        while self.bytes > self._max_bytes:
            self.bytes -= self._entries.popitem(last=False)[1].size

    def clear(self) -> None:
        """Another owner numbers from the start."""
        self._entries.clear()
        self.bytes = 0
