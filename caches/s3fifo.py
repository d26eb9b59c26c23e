"""Who has to go when room is short: S3-FIFO (Yang, Zhang, Qiu, Yue, Vigfusson, "FIFO queues are all you need for cache
eviction", SOSP 2023), by weight. Pure: keys and weights go in, what is evicted comes out.

    new ──► small (a tenth of the room) ── used twice or more ──► main ── used: round again, one less ──┐
               │                                                   ▲  └────────────────────────────────┘
               └── else: evicted, and remembered as a ghost ── put again ┘

Most keys of a cache of answers are asked for once. They pass through the small queue and never touch what is in the main one, so
that a scan (a batch job over a million prompts) empties a tenth of the cache, where it would empty all of an LRU. A use counts
up to three, and moves nothing.

Rules
- Every key that is held is in exactly one queue; `weight` is that of all of them. When to evict is the owner's affair.
- Ghosts are keys without anything, and never more of them than the keys in the main queue, or `_LEAST_GHOSTS`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Generic, TypeVar

_SMALL_SHARE = 10  # the small queue's share of the weight is one in so many
_MOST_USES = 3
_USES_TO_STAY = 2  # while it is in the small queue
_LEAST_GHOSTS = 64

T = TypeVar("T")


class Held(Generic[T]):
    """A place in a queue."""

    __slots__ = ("uses", "value", "weight")

    def __init__(self, value: T, weight: int) -> None:
        self.value = value
        self.weight = weight
        self.uses = 0

    def use(self) -> None:
        if self.uses < _MOST_USES:
            self.uses += 1


class S3Fifo(Generic[T]):
    __slots__ = ("_ghosts", "_main", "_small", "_small_most", "_small_weight", "weight")

    def __init__(self, max_weight: int) -> None:
        self._small_most = max_weight // _SMALL_SHARE
        self._small: OrderedDict[bytes, Held[T]] = OrderedDict()  # oldest first
        self._main: OrderedDict[bytes, Held[T]] = OrderedDict()
        self._ghosts: OrderedDict[bytes, None] = OrderedDict()
        self._small_weight = 0
        self.weight = 0

    def __len__(self) -> int:
        return len(self._main) + len(self._small)

    def __iter__(self) -> Iterator[T]:
        for queue in (self._main, self._small):
            for held in queue.values():
                yield held.value

    def find(self, key: bytes) -> Held[T] | None:
        """Finding is no use yet."""
        return self._main.get(key) or self._small.get(key)

    def add(self, key: bytes, value: T, weight: int) -> None:
        """A key that is not held. One that went lately and is wanted again goes where the lasting ones are."""
        held = Held(value, weight)
        self.weight += weight
        if key in self._ghosts:
            del self._ghosts[key]
            self._main[key] = held
        else:
            self._small[key] = held
            self._small_weight += weight

    def replace(self, key: bytes, value: T, weight: int) -> None:
        """A held key keeps its place and its uses."""
        held = self._main.get(key)
        if held is None:
            held = self._small[key]
            self._small_weight += weight - held.weight
        self.weight += weight - held.weight
        held.value, held.weight = value, weight

    def remove(self, key: bytes) -> None:
        """A held key that goes for other reasons than want of room: no ghost of it stays."""
        held = self._main.pop(key, None)
        if held is None:
            held = self._small.pop(key)
            self._small_weight -= held.weight
        self.weight -= held.weight

    def clear(self) -> None:
        for queue in (self._small, self._main, self._ghosts):
            queue.clear()
        self._small_weight = self.weight = 0

    def evict(self) -> T:
        """What goes, while something is held; it is held no more."""
        while self._small and (self._small_weight > self._small_most or not self._main):
            key, held = self._small.popitem(last=False)
            self._small_weight -= held.weight
            if held.uses < _USES_TO_STAY:
                self._remember(key)
                self.weight -= held.weight
                return held.value
            held.uses = 0
            self._main[key] = held
        while True:
            key, held = next(iter(self._main.items()))
            if not held.uses:
                del self._main[key]
                self.weight -= held.weight
                return held.value
            held.uses -= 1
            self._main.move_to_end(key)

    def oldest(self) -> list[T]:
        """The old end of each queue."""
        old: list[T] = []
        for queue in (self._small, self._main):
            for key in queue:
                old.append(queue[key].value)
                break
        return old

    def _remember(self, key: bytes) -> None:
        self._ghosts[key] = None
        while len(self._ghosts) > max(_LEAST_GHOSTS, len(self._main)):
            self._ghosts.popitem(last=False)
