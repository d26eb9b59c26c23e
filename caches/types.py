"""The values and protocols of the cache package.

An `Entry` is one complete answer, kept as the JSON that a client without streaming would have received; a stream is
made from it on the way out. Everything that a partition depends on (tenant, model, version, request) is in its key.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from caches.which import Which

ENTRY_OVERHEAD = 1280
"""Bytes that an entry costs beside its body: the object, its strings, its places in queues and indexes, and the ghost that may
outlive it (measured, rounded up)."""


@dataclass(slots=True)  # made for every request: a frozen one takes three times as long to make
class Entry:
    """One stored answer. The repr leaves out what only its owner may see."""

    id: str  # what a client sees, and deletes it by: see key.entry_id
    key: bytes = field(repr=False)
    tenant: str
    model: str  # the model that answered, as configured
    tier: str
    endpoint: str
    body: bytes = field(repr=False)
    stored_at: float
    expires_at: float
    completion_tokens: int = 0
    prompt_tokens: int = 0
    generation: int = 0  # numbered by the store, from 1: an answer that was replaced, or deleted and made again, has another
    tags: tuple[str, ...] = ()  # what it can be flushed by
    began_at: float = 0.0  # when its making began: a flush since then takes it too; 0: when it was stored
    alias: str = ""  # the hit that it was approved as, if it was made for another question: what it is shown as, and stands by

    @property
    def born(self) -> float:
        """Since when flushes take it."""
        return self.began_at or self.stored_at

    @property
    def size(self) -> int:
        """What the entry weighs against a store's bound."""
        return len(self.body) + ENTRY_OVERHEAD


@dataclass(frozen=True, slots=True)
class CacheStats:
    entries: int
    bytes: int
    max_bytes: int
    hits: int
    misses: int
    evictions: int  # entries that went for want of room; expired and deleted ones are not counted


@dataclass(frozen=True, slots=True)
class StoreState:
    """How a store stands, as of the last time that it was asked. No word of it comes from the other side."""

    kind: str  # `off`, `memory`, `redis`
    away: str = ""  # why it does not answer: one of `AWAY`
    declines: str = ""  # why it keeps nothing new, though it answers: one of `DECLINES`

    def __str__(self) -> str:
        """For people."""
        if self.kind != "redis":
            return self.kind
        return f"redis {self._said}"

    @property
    def _said(self) -> str:
        if self.away:
            return f"away: {self.away}"
        return f"keeps nothing new: {self.declines}" if self.declines else "ok"


AWAY = ("timeout", "connection", "password", "failed")
DECLINES = ("full", "read-only", "misconfigured", "no replicas")


class ExactStore(Protocol):
    """Where exact answers are kept. An entry is replaced whole, and is never returned after `expires_at`.

    A store that is elsewhere may be away. Then `get` finds nothing, `put` keeps nothing, and both are quick about it; `delete`
    and `flush` raise `ExactStoreAway`, for who asked must not believe that it is done.
    """

    away: str | None
    """Why the last `get` or `put` found the store away: `timeout`, `breaker`, `failed`. None: it did not. To be read straight
    after the call, before anything else is awaited."""

    @property
    def state(self) -> StoreState: ...

    async def start(self) -> None:
        """Connect. Returns in a moment whether that goes well or not."""
        ...

    async def close(self) -> None: ...

    async def get(self, key: bytes) -> Entry | None: ...

    async def peek(self, key: bytes) -> Entry | None:
        """What `get` would find, and nothing notices: neither counts nor what is to go first. Raises `ExactStoreAway`."""
        ...

    async def put(self, entry: Entry) -> bool:
        """False when the entry was refused: too large, expired already, or its making began before a flush or delete of it."""
        ...

    async def delete(self, id: str, tenant: str | None) -> bool:  # noqa: A002 - the name of the field it is
        """Delete one entry, if `tenant` owns it; None is the operator, who may delete any.

        Once this or `flush` has returned, no process that shares the store serves what was meant, nor stores an answer that
        began to be made before.
        """
        ...

    async def flush(self, which: Which, *, dry_run: bool = False) -> int:
        """Delete every entry that is meant, and say how many those are."""
        ...

    async def stats(self) -> CacheStats: ...


class Line(Protocol):
    """Where HTTP chunks may be written as they are."""

    writable: bool

    def write(self, data: bytes) -> None: ...


class Sink(Protocol):
    """Where a subscriber's bytes go. The calls are synchronous: what it cannot send now it must buffer itself.

    Once `writable` is False it is given no more, until it calls `Seat.catch_up` (its own seat's only, from inside `write`).
    """

    @property
    def writable(self) -> bool: ...

    @property
    def line(self) -> Line | None:
        """Takes a piece as the chunk that it came as, in place of `write`, as long as the line is writable. None: it cannot."""
        ...

    def begin(self, head: object) -> None: ...

    def write(self, data: bytes, usage_only: bool) -> None:
        """`usage_only`: the piece is the usage chunk, to be shown only to a client that asked for it."""
        ...


class Flow(Protocol):
    """The brake of whatever feeds a flight."""

    def pause(self) -> None: ...

    def resume(self) -> None: ...
