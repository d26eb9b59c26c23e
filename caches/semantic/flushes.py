"""Flushes: which answers they mean, who has to hear of them, and which ones the store has not obeyed yet.

    a flush ──► a mark in the store ──► what is kept is deleted ──► done
                     │
                     └──► heard by all who write into it: before they write, after it, and every few seconds

- An answer whose making began before a flush that means it is not kept: marks outlive any request.
- On a server that several gateways share, whoever writes looks for marks after it has written, and takes back what one of them
  means: either it sees the mark, or the mark came later, and then the deletion behind it finds what was written.
- A mark of somebody else's counts from when it is heard, so nobody's clock matters.
- A flush that the store has not obeyed is pending, and nothing is served before it has. Its mark outlives a restart: beside an
  embedded store as a file, which needs no engine to be written; at a server there, or in a file here until it can be told.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from secrets import token_hex

import msgspec

from caches.marks import Marks, field_of
from caches.vectors.types import StoreAway, VectorStore
from caches.which import Which

_SECONDS = 3600.0  # that an answer may take to be made
_SLACK = 10.0  # seconds by which the clocks of gateways differ, at most; within them a flush is obeyed as it was meant


class _Mark(msgspec.Struct, frozen=True):
    at: float
    which: Which


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Mark).decode


@dataclass(slots=True, eq=False)
class Flush:
    name: str
    at: float
    which: Which
    told: bool  # its mark is in the store
    taken: int = 0


class Flushes:
    """`shared`: others write into the same store. `pending`: what the store has not obeyed. `marks`: what is not to be kept."""

    def __init__(self, store: VectorStore, wall: Callable[[], float], *, shared: bool) -> None:
        self.pending: list[Flush] = []
        self.marks = Marks()
        self._store = store
        self._wall = wall
        self._shared = shared
        self._known: set[str] = set()  # names of marks in the store

    def begin(self, which: Which, *, told: bool = False) -> Flush:
        """`told`: it is remembered elsewhere until it is obeyed."""
        flush = Flush(token_hex(8), self._wall(), which, told)
        self._remember(flush)
        return flush

    async def obey(self) -> list[str]:
        """Do what is pending; the ids of what is gone. With nothing written meanwhile. Raises StoreAway."""
        gone: list[str] = []
        while self.pending:
            flush = self.pending[0]
            await self._tell(flush)
            ids = await self._store.flush(_as_of(flush, self._wall()))
            flush.taken = len(ids)
            gone += ids
            if not self._shared:
                with suppress(StoreAway):  # then it is obeyed once more after a restart
                    await self._store.unmark([flush.name])
            del self.pending[0]
        return gone

    async def tell(self) -> None:
        """Leave marks of all that is pending. Raises StoreAway."""
        for flush in self.pending:
            await self._tell(flush)

    async def _tell(self, flush: Flush) -> None:
        if flush.told:
            return
        try:
            await self._store.mark(flush.name, _encode(_Mark(flush.at, flush.which)))
        except StoreAway:
            if self._shared:
                raise
        flush.told = True

    async def hear(self) -> None:
        """What others have flushed, or this gateway before it was started. Raises StoreAway."""
        marks, now = await self._store.marks(), self._wall()
        old = []
        for name, data in marks.items():
            mark = _read(data)
            if mark is not None and name not in self._known:  # however old: who left it may not have come to do it
                self._remember(Flush(name, mark.at, mark.which, told=True))
            elif mark is None or (self._shared and mark.at < now - _SECONDS - _SLACK):
                old.append(name)
        self._known &= marks.keys()
        if old:
            await self._store.unmark(old)

    def _remember(self, flush: Flush) -> None:
        now = self._wall()
        born_by = flush.which.born_by(now)
        self.marks.flushed(field_of(flush.which), now if born_by is None else born_by)
        self._known.add(flush.name)
        self.pending.append(flush)


def _as_of(flush: Flush, now: float) -> Which:
    """What was meant when it was asked for: what is kept since then is not."""
    late = now - flush.at - _SLACK
    return flush.which if late <= 0 else replace(flush.which, older_than=(flush.which.older_than or 0.0) + late)


def _read(data: bytes) -> _Mark | None:
    try:
        return _decode(data)
    except (msgspec.MsgspecError, ValueError):
        return None
