"""What a Qdrant is to the store, be it a process beside this one or a cluster: rows in, rows out, and anything may be raised."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from caches.vectors.rows import Row, Where


class Sheet(msgspec.Struct, frozen=True):
    """A page of rows; `next` is where the following one starts."""

    rows: list[Row]
    next: str | None = None


class Numbers(msgspec.Struct, frozen=True):
    points: int
    segments: int
    unindexed: int


class Backend(Protocol):
    """No method has a deadline of its own: the store has them. Each may raise `Declined`, which is no failure."""

    @property
    def name(self) -> str:
        """For a log line."""
        ...

    @property
    def alive(self) -> bool:
        """False: it must `begin`, first or again."""
        ...

    async def begin(self) -> str:
        """How it began, in a few words. Called again after a failure or a death."""
        ...

    async def end(self) -> None: ...

    @property
    def declines(self) -> str | None:
        """Why nothing could be written when it began; None: it could."""
        ...

    @property
    def renewals(self) -> int:
        """How often it has begun without what was there before."""
        ...

    async def refusal(self, *, search: bool, seconds: float) -> str | None:
        """Why it is of no use to ask just now (see `StoreAway`); None: ask. It may take so long to find out."""
        ...

    async def search(self, where: Where, vector: bytes, limit: int) -> list[Row]:
        """The nearest rows, without their answers."""
        ...

    async def fetch(self, numbers: Sequence[str]) -> list[Row]: ...

    async def put(self, rows: Sequence[Row]) -> None: ...

    async def delete(self, numbers: Sequence[str]) -> None: ...

    async def page(self, where: Where, fields: Sequence[str], limit: int, start: str | None, *, delete: bool) -> Sheet:
        """The rows from `start` on, with these fields of theirs; deleted, if `delete`."""
        ...

    async def stats(self) -> Numbers: ...

    async def note(self, name: str) -> bytes | None: ...

    async def keep_note(self, name: str, data: bytes) -> None: ...

    @property
    def notes_apart(self) -> bool:
        """Notes and marks are kept where the engine has no part in it: also while it is away."""
        ...

    async def mark(self, name: str, data: bytes) -> None: ...

    async def marks(self) -> dict[str, bytes]: ...

    async def unmark(self, names: Sequence[str]) -> None: ...

    async def tidy(self) -> None:
        """Lay the points out anew where that is for us to say."""
        ...

    async def tend(self) -> None:
        """What is to be done now and then, of its own."""
        ...
