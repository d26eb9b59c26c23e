"""A semantic cache whose parts are in the test's hand: an embedder of words, a store that is a dict, a clock that stands."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from hashlib import blake2b
from itertools import count

import msgspec
import numpy as np

from caches.embed.types import EmbedderAway, TooLong, Vector
from caches.semantic.cache import SemanticCache
from caches.semantic.types import Asked
from caches.types import Entry
from caches.vectors.types import Known, Match, Point, StoreAway, VectorStats
from caches.which import Which

SECRET = b"s" * 32
_numbers = count(1)


class WordEmbedder:
    """Texts with the same words, in whatever order, have the same vector."""

    fingerprint = "words-1"
    dimension = 256

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.away = ""

    def covers(self, text: str) -> bool:
        return text.isascii()

    async def open(self) -> None:
        """There is nothing to load."""

    async def embed(self, text: str, *, scope: str = "", within: float | None = None) -> Vector:
        if self.away:
            raise EmbedderAway(self.away)
        self.asked.append(text)
        words = text.lower().replace("?", "").split()
        if len(words) > 100:
            raise TooLong(text)
        vector = np.zeros(self.dimension, dtype=np.float32)
        for word in words:
            vector[int.from_bytes(blake2b(word.encode(), digest_size=4).digest(), "big") % self.dimension] += 1.0
        return np.asarray(vector / np.linalg.norm(vector), dtype=np.float32)

    async def close(self) -> None:
        """Nothing is open."""


class DictStore:
    """Exact search over a dict."""

    status = "ok"
    renewals = 0

    def __init__(self, clock: Clock) -> None:
        self.points: dict[str, Point] = {}
        self.notes: dict[str, bytes] = {}
        self.kept_marks: dict[str, bytes] = {}
        self.notes_apart = True
        self.away = ""
        self.searches = 0
        self._clock = clock

    def _there(self) -> None:
        if self.away:
            raise StoreAway(self.away)

    async def open(self) -> None:
        self._there()

    async def close(self) -> None:
        """Nothing is open."""

    async def search(self, partition: str, vector: Vector, limit: int = 5) -> list[Match]:
        self._there()
        self.searches += 1
        found = [
            Match(p.id, float(p.vector @ vector), p.text, p.tenant, p.stored_at, p.expires_at, p.vector)
            for p in self.points.values()
            if p.partition == partition and p.expires_at > self._clock.now
        ]
        return sorted(found, key=lambda match: -match.cosine)[:limit]

    async def fetch(self, id: str) -> Point | None:  # noqa: A002 - the protocol's
        self._there()
        return self.points.get(id)

    async def put(self, points: Sequence[Point]) -> None:
        self._there()
        self.points.update({point.id: point for point in points})

    async def delete(self, ids: Sequence[str]) -> None:
        self._there()
        for each in ids:
            self.points.pop(each, None)

    async def flush(self, which: Which, *, dry_run: bool = False) -> list[str]:
        self._there()
        ids = [p.id for p in self.points.values() if which.takes(p.tenant, p.model, p.tags, p.stored_at, self._clock.now)]
        if not dry_run:
            await self.delete(ids)
        return ids

    async def scan(self, since: float = 0.0) -> AsyncIterator[list[Known]]:
        self._there()
        yield [Known(p.id, p.partition, p.text, p.stored_at, p.expires_at) for p in self.points.values() if p.stored_at >= since]

    async def stats(self) -> VectorStats:
        return VectorStats(len(self.points), 1, 0)

    async def note(self, name: str) -> bytes | None:
        self._there()
        return self.notes.get(name)

    async def keep_note(self, name: str, data: bytes) -> None:
        self._there()
        self.notes[name] = data

    async def mark(self, name: str, data: bytes) -> None:
        if not self.notes_apart:
            self._there()
        self.kept_marks[name] = data

    async def marks(self) -> dict[str, bytes]:
        if not self.notes_apart:
            self._there()
        return dict(self.kept_marks)

    async def unmark(self, names: Sequence[str]) -> None:
        for name in names:
            self.kept_marks.pop(name, None)


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


class World:
    """One cache and its parts. `fill` and `look` speak in questions."""

    def __init__(self, *, askers: int = 3, max_error: float | None = None) -> None:
        self.clock = Clock()
        self.embedder = WordEmbedder()
        self.store = DictStore(self.clock)
        self.cache = self.again(askers=askers, max_error=max_error)

    def again(self, *, askers: int = 3, max_error: float | None = None) -> SemanticCache:
        """The next process over the same store."""
        self.cache = SemanticCache(
            embedder=self.embedder, store=self.store, secret=SECRET, wall=self.clock, max_answer=10_000, preset="strict",
            max_error=max_error, askers=askers,
        )  # fmt: skip
        return self.cache

    async def open(self) -> World:
        await self.cache.writer.turn()
        return self

    async def fill(self, asked: Asked, answer: str = "the answer", **fields: object) -> None:
        entry = Entry(
            id="ce-1", key=b"k", tenant=asked.tenant, model="m", tier="small", endpoint="chat", body=body(answer),
            stored_at=self.clock.now, expires_at=self.clock.now + 100, completion_tokens=3, began_at=self.clock.now,
        )  # fmt: skip
        for name, value in fields.items():
            setattr(entry, name, value)
        await self.cache.keep(asked, entry)
        await self.cache.writer.turn()


def ask(text: str, *, room: str = "aa", own: str = "", tenant: str = "acme", scope: str = "t:acme", **fields: object) -> Asked:
    asked = Asked(
        partition=room, own=own, text=text, tenant=tenant, scope=scope, preset="strict", max_error=None,
        request_id=f"r-{next(_numbers)}",
    )  # fmt: skip
    for name, value in fields.items():
        setattr(asked, name, value)
    return asked


def body(text: str) -> bytes:
    message = {"role": "assistant", "content": text}
    return msgspec.json.encode({"object": "chat.completion", "choices": [{"message": message, "finish_reason": "stop"}]})
