"""The KV cache as vLLM counts it: blocks of tokens, shared by what they hold, least recently used ones lost first.

Rules: only whole blocks are shared. A block's key covers everything before it, the salt and the adapter, so equal text
behind a different start is a different block. At least one prompt token is always computed anew. Blocks of running
requests are pinned; the others stay until their room is needed.
"""

from __future__ import annotations

from collections.abc import Sequence

from gateway.lab.fake.text import TOKEN_BYTES


def block_keys(data: bytes, block_size: int, above: int) -> list[int]:
    """One key for each whole block of `data`, chained from `above`: the key before, or a hash of salt and adapter."""
    width = block_size * TOKEN_BYTES
    keys = []
    for at in range(width, len(data) + 1, width):
        above = hash((above, data[at - width : at]))
        keys.append(above)
    return keys


class PrefixCache:
    """Blocks by key. `private` counts blocks of running requests that have no key (yet)."""

    def __init__(self, blocks: int) -> None:
        self.blocks = blocks
        self.queries = 0
        self.hits = 0
        self.private = 0
        self._pinned: dict[int, int] = {}
        self._idle: dict[int, None] = {}

    @property
    def used(self) -> int:
        return len(self._pinned) + self.private

    def match(self, keys: Sequence[int]) -> int:
        """How many leading blocks are held."""
        for at, key in enumerate(keys):
            if key not in self._pinned and key not in self._idle:
                return at
        return len(keys)

    def take(self, keys: Sequence[int], private: int) -> bool:
        """Pin the blocks of a request and `private` more; False, and nothing done, when the room is pinned by others."""
        fresh = sum(key not in self._pinned for key in keys)
        if self.used + fresh + private > self.blocks:
            return False
        for key in keys:
            self._idle.pop(key, None)
            self._pinned[key] = self._pinned.get(key, 0) + 1
        self.private += private
        self._evict()
        return True

    def release(self, keys: Sequence[int], private: int, kept: Sequence[int]) -> None:
        """Unpin; `kept` are the keys of what the request wrote, worth finding again. The tail becomes old first, as in vLLM."""
        self.private -= private
        for key in reversed(keys):
            refs = self._pinned[key] - 1
            if refs:
                self._pinned[key] = refs
            else:
                del self._pinned[key]
                self._idle[key] = None
        for key in reversed(kept):
            if key not in self._pinned:
                self._idle.pop(key, None)
                self._idle[key] = None
        self._evict()

    def reset(self) -> bool:
        """Forget everything; refused while a request holds blocks."""
        if self.used:
            return False
        self._idle.clear()
        return True

    def _evict(self) -> None:
        while self.used + len(self._idle) > self.blocks:
            del self._idle[next(iter(self._idle))]
