"""What the product's semantic cache is built over here: vectors that are made already, and a store in memory.

One partition, nothing expires, nothing is ever away: what is simulated is what is served, not what breaks.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence

from caches.embed.types import TooLong, Vector
from caches.vectors.types import Known, Match, Point, VectorStats
from caches.which import Which
from gateway.lab.cacheeval.shelf import Shelf
from gateway.lab.cacheeval.vectors import Vectors


class Ready:
    """An embedder that knows its vectors; `asked` counts who waited for one."""

    def __init__(self, vectors: Vectors, covers: Callable[[str], bool]) -> None:
        self.fingerprint = vectors.model.fingerprint
        self.dimension = vectors.model.dimension
        self.asked = 0
        self._vectors = vectors
        self._covers = covers

    async def open(self) -> None: ...

    def covers(self, text: str) -> bool:
        return self._covers(text)

    async def embed(self, text: str, *, scope: str = "", within: float | None = None) -> Vector:  # noqa: ARG002 - the protocol's
        self.asked += within is None  # with a time of its own it is the writer, for whom nobody waits
        vector = self._vectors.of(text)
        if vector is None:
            raise TooLong
        return vector

    async def close(self) -> None: ...


class MemoryStore:
    """Compares with every point."""

    status = "ok"
    renewals = 0

    def __init__(self, dimension: int, room: int) -> None:
        self._points: dict[str, Point] = {}
        self._shelf = Shelf(dimension, room)
        self._notes: dict[str, bytes] = {}

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def search(self, partition: str, vector: Vector, limit: int = 5) -> list[Match]:  # noqa: ARG002 - there is one partition
        near = [(self._points.get(it.key), it.score) for it in self._shelf.nearest(vector)[:limit]]
        return [
            Match(point.id, cosine, point.text, point.tenant, point.stored_at, point.expires_at, point.vector)
            for point, cosine in near
            if point is not None
        ]

    async def fetch(self, id: str) -> Point | None:  # noqa: A002 - the protocol's
        return self._points.get(id)

    async def put(self, points: Sequence[Point]) -> None:
        for point in points:
            self._points[point.id] = point
            self._shelf.put(point.id, point.vector)

    async def delete(self, ids: Sequence[str]) -> None:
        for each in ids:
            self._points.pop(each, None)

    async def flush(self, which: Which, *, dry_run: bool = False) -> list[str]:
        raise NotImplementedError("nobody flushes here")

    async def scan(self, since: float = 0.0) -> AsyncIterator[list[Known]]:
        yield [
            Known(it.id, it.partition, it.text, it.stored_at, it.expires_at)
            for it in self._points.values()
            if it.stored_at >= since
        ]

    async def stats(self) -> VectorStats:
        return VectorStats(len(self._points), 1, 0)

    async def note(self, name: str) -> bytes | None:
        return self._notes.get(name)

    async def keep_note(self, name: str, data: bytes) -> None:
        self._notes[name] = data

    async def mark(self, name: str, data: bytes) -> None:
        raise NotImplementedError("nobody flushes here")

    async def marks(self) -> dict[str, bytes]:
        return {}

    async def unmark(self, names: Sequence[str]) -> None:
        raise NotImplementedError("nobody flushes here")
