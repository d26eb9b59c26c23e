"""What a vector store keeps, and what it can do.

Rules
- A search never leaves its partition: a hard filter in the store, not a sort afterwards.
- Expired points are never returned.
- Every method has a deadline; what is slow, stopped or wrong raises `StoreAway`, never anything else.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from caches.embed.types import Vector
from caches.which import Which


class StoreAway(Exception):  # noqa: N818 - it names what happened
    """The store did not answer, or not as it must. `reason` is a word for a header: `timeout`, `breaker`,
    `failed`, `overload` (too much is waiting already), `busy` (it lays its points out anew), or why it cannot write
    (`faults.DECLINED`).
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Point:
    """One answer that may serve other questions. The repr leaves out what only its owner may see."""

    id: str  # as clients see it: `cs-` and 24 hex digits
    partition: str  # hex digits: everything that must be equal
    vector: Vector = field(repr=False)
    text: str = field(repr=False)  # the question's last user message
    tenant: str
    model: str  # the model that answered
    tags: tuple[str, ...]
    stored_at: float
    expires_at: float
    answer: bytes = field(repr=False)  # opaque here


@dataclass(frozen=True, slots=True)
class Match:
    """A neighbour, without its answer. `cosine` is recomputed from the stored vector, whatever the store's index said."""

    id: str
    cosine: float
    text: str = field(repr=False)
    tenant: str
    stored_at: float
    expires_at: float
    vector: Vector = field(repr=False)


@dataclass(frozen=True, slots=True)
class Known:
    """What is told of every point when a store is opened: enough to know which partitions hold something like a question."""

    id: str
    partition: str
    text: str = field(repr=False)
    stored_at: float
    expires_at: float


@dataclass(frozen=True, slots=True)
class VectorStats:
    points: int
    segments: int
    unindexed: int  # points that a search walks one by one


class VectorStore(Protocol):
    @property
    def status(self) -> str:
        """`ok`, or what is wrong, in a line for people: for the body of /ready, and for `doctor`."""
        ...

    @property
    def renewals(self) -> int:
        """How often it has begun without what was there before: whoever knows what was there, knows it no more."""
        ...

    async def open(self) -> None:
        """Make or check the collection, then write, read and delete a probe. Raises StoreAway, with a log line that says what;
        the store then goes on trying by itself, until it is closed.
        """
        ...

    async def close(self) -> None: ...

    async def search(self, partition: str, vector: Vector, limit: int = 5) -> list[Match]:
        """The nearest, best first."""
        ...

    async def fetch(self, id: str) -> Point | None:  # noqa: A002 - the name of the field it is
        ...

    async def put(self, points: Sequence[Point]) -> None:
        """Replaces points of the same id."""
        ...

    async def delete(self, ids: Sequence[str]) -> None: ...

    async def flush(self, which: Which, *, dry_run: bool = False) -> list[str]:
        """Delete what is meant and has not expired; the ids of the points that were (or would be) deleted."""
        ...

    def scan(self, since: float = 0.0) -> AsyncIterator[list[Known]]:
        """Every point that was stored at `since` or later, in batches."""
        ...

    async def stats(self) -> VectorStats: ...

    async def note(self, name: str) -> bytes | None:
        """A small record kept beside the points (what was learned, what is never to be served again)."""
        ...

    async def keep_note(self, name: str, data: bytes) -> None: ...

    async def mark(self, name: str, data: bytes) -> None:
        """A word to all who write into this store, now or after a restart: kept until it is taken back."""
        ...

    async def marks(self) -> dict[str, bytes]: ...

    async def unmark(self, names: Sequence[str]) -> None: ...
