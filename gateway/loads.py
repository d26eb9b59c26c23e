"""What who decides a route knows of the pools, without asking anybody: expected waits, free slots, whether there is a replica.

Where the owner is this process, its queues are looked at. Else the owner writes what it sees on a page of memory that all
processes of the node share, every EVERY seconds, and a worker believes it for AGE. A page that is older, half written, or of a
config with other models says nothing: then no load rule holds, as if all pools were alike.
"""

from __future__ import annotations

import asyncio
import math
import struct
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from mmap import mmap
from typing import Protocol
from zlib import crc32

from gateway.dispatch.types import Lane
from limits.slots import Scheduler
from limits.waiting import Priority
from routing.load import Look, PoolLoad, unknown

EVERY = 0.05
AGE = 1.0
SIZE = 64 * 1024
_HEAD = struct.Struct("=8sdI")  # whose models, when, a checksum over all that follows and these two
_ROW = struct.Struct("=Bii3d")  # ready, free, slots, the wait of each class; NaN: unknown
_FROM = 32

Memory = mmap | bytearray


class Loads(Protocol):
    def at(self, priority: Priority) -> Look:
        """What a request of this class would meet."""


class NoLoads:
    """Nothing is known."""

    def at(self, priority: Priority) -> Look:  # noqa: ARG002 - as the others
        return unknown


class LocalLoads:
    """The owner's own."""

    def __init__(self, lanes: Mapping[str, Lane]) -> None:
        self._lanes = lanes

    def at(self, priority: Priority) -> Look:
        lanes = self._lanes
        seen: dict[str, PoolLoad] = {}

        def look(model: str) -> PoolLoad:
            pool = seen.get(model)
            if pool is None:
                lane = lanes[model]
                queue, ready = lane.scheduler, lane.pool.capacity() > 0
                pool = seen[model] = PoolLoad(ready, _free(queue), queue.capacity, queue.line_wait(priority))
            return pool

        return look


class Page:
    """The owner's side of the memory; `run` is for ever."""

    def __init__(self, memory: Memory, lanes: Mapping[str, Lane], clock: Callable[[], float]) -> None:
        self._memory = memory
        self._lanes = list(lanes.values())[: (SIZE - _FROM) // _ROW.size]
        self._whose = whose(list(lanes))
        self._clock = clock

    def write(self) -> None:
        rows = []
        for lane in self._lanes:
            scheduler = lane.scheduler
            waits = [math.nan if wait is None else wait for wait in map(scheduler.line_wait, Priority)]
            ready = lane.pool.capacity() > 0
            rows.append(_ROW.pack(ready, _free(scheduler), scheduler.capacity, *waits))
        body, now = b"".join(rows), self._clock()
        self._memory[_FROM : _FROM + len(body)] = body
        self._memory[: _HEAD.size] = _HEAD.pack(self._whose, now, _sum(self._whose, now, body))

    async def run(self) -> None:
        while True:
            self.write()
            await asyncio.sleep(EVERY)


class PageLoads:
    """A worker's side."""

    def __init__(self, memory: Memory, models: Sequence[str], clock: Callable[[], float]) -> None:
        self._memory = memory
        self._places = {name: place for place, name in enumerate(models[: (SIZE - _FROM) // _ROW.size])}
        self._whose = whose(models)
        self._clock = clock
        self._read: tuple[bytes, list[tuple[int, int, int, float, float, float]]] = b"", []

    def at(self, priority: Priority) -> Look:
        rows = self._rows()
        if not rows:
            return unknown
        places, wait_at = self._places, 3 + priority

        def look(model: str) -> PoolLoad | None:
            place = places.get(model)
            if place is None:
                return None
            row = rows[place]
            wait = row[wait_at]
            return PoolLoad(bool(row[0]), row[1], row[2], None if math.isnan(wait) else wait)

        return look

    def _rows(self) -> list[tuple[int, int, int, float, float, float]]:
        """As of the last writing; nothing where that is long ago."""
        head = self._memory[: _HEAD.size]
        whose_, at, total = _HEAD.unpack(head)
        if whose_ != self._whose or not 0 <= self._clock() - at <= AGE:
            return []
        if head != self._read[0]:
            body = bytes(self._memory[_FROM : _FROM + len(self._places) * _ROW.size])
            if _sum(whose_, at, body) != total:
                return self._read[1] if self._read[0] and self._fresh() else []
            self._read = bytes(head), list(_ROW.iter_unpack(body))
        return self._read[1]

    def _fresh(self) -> bool:
        at: float = _HEAD.unpack(self._read[0])[1]
        return 0 <= self._clock() - at <= AGE


def whose(models: Sequence[str]) -> bytes:
    """The same for the same models in the same order."""
    return blake2b(repr(list(models)).encode(), digest_size=8).digest()


def _free(scheduler: Scheduler) -> int:
    """Slots that a newcomer may have at once; where tokens are counted those may be used up first."""
    return 0 if scheduler.full else scheduler.capacity - scheduler.inflight


def _sum(whose_: bytes, now: float, body: bytes) -> int:
    return crc32(body, crc32(whose_ + struct.pack("=d", now)))
