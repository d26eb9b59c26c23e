"""What conversations hold, in a piece of memory of a fixed size that processes may share. Nobody asks anybody, nobody locks.

Rules
- Records of 64 bytes in buckets of WAYS, found by a part of the name, which is a keyed digest: nobody can aim at a bucket.
- A full bucket gives up its oldest record; but a tenant that has half of it already gives up its own oldest, so whoever makes up
  conversations without end forgets his own.
- A record carries a checksum over itself. One that is read while it is written, or that two wrote at once, or that was half
  written by who was killed, is none. What is lost is a memory that the next turn does without. Its place is given up in its turn.
- No record means anything to another memory, config or key: names are digests, and so are those of tiers and models.
"""

from __future__ import annotations

import math
import struct
from functools import lru_cache
from mmap import mmap
from typing import NamedTuple
from zlib import crc32

WAYS = 8
_BODY = struct.Struct("=16s8sIIIdIB?H8x")  # name, ask, tenant, tier, model, when, tokens, easy, chosen, loops
_Row = tuple[bytes, bytes, int, int, int, float, int, int, bool, int]
_CHECK = struct.Struct("=I")
_BEGINNING = struct.Struct("<Q")  # of a name
RECORD = 64
_BUCKET = WAYS * RECORD
_NAMES = struct.Struct("=" + "16s48x" * WAYS)
_OWNERS = struct.Struct("=" + "24xI36x" * WAYS)
_TIMES = struct.Struct("=" + "36xd20x" * WAYS)
SIZE = 65_536 * RECORD
"""Bytes: 4 MiB, of which an operating system gives out as much as is written to."""
_EMPTY = bytes(16)


class Record(NamedTuple):
    """What a conversation held after a turn; an empty `tier`: none. `ask`: which one it was, 8 bytes. `tokens`: what
    `tier` has read of it, at `at` seconds. `loops`: turns that a tool loop has had; `chosen`: see `sessions.Held`.
    """

    ask: bytes
    tier: str
    model: str
    easy: int
    tokens: int
    at: float
    loops: int = 0
    chosen: bool = False


class Table:
    """`memory`: a multiple of 512 bytes, zeros at first. `words`: the names of tiers and models that may be told of."""

    def __init__(self, memory: mmap | bytearray, words: frozenset[str]) -> None:
        self._memory = memory
        self._buckets = len(memory) // _BUCKET
        if not self._buckets:
            raise ValueError("no room for a single bucket")
        self._words = {mark(word): word for word in (*words, "")}

    def get(self, name: bytes) -> Record | None:
        """What was kept under that name of 16 bytes, if it still is and means something here."""
        start = self._start(name)
        for way, held in enumerate(_NAMES.unpack_from(self._memory, start)):
            if held == name:
                found = self._read(start + way * RECORD)
                if found is not None and found[0] == name:
                    _, ask, _, tier, model, at, tokens, easy, chosen, loops = found
                    known = self._words
                    if tier in known:
                        return Record(ask, known[tier], known.get(model, ""), easy, tokens, at, loops, chosen)
        return None

    def put(self, name: bytes, tenant: str, record: Record) -> None:
        """Keep it, in the place of what was kept under that name."""
        ask, tier, model, easy, tokens, at, loops, chosen = record
        owner = mark(tenant)
        place = self._place(name, owner)
        body = _BODY.pack(
            name, ask, owner, mark(tier), mark(model), at, _within(tokens, 0xFFFFFFFF), _within(easy, 255), chosen,
            _within(loops, 0xFFFF),
        )  # fmt: skip
        self._memory[place : place + RECORD] = body + _CHECK.pack(crc32(body))

    def _start(self, name: bytes) -> int:
        return _BEGINNING.unpack_from(name)[0] % self._buckets * _BUCKET  # type: ignore[no-any-return]

    def _place(self, name: bytes, owner: int) -> int:
        """Its own place, a free one, or that of the oldest, its tenant's own where that has half of the bucket."""
        start = self._start(name)
        names = _NAMES.unpack_from(self._memory, start)
        for sought in (name, _EMPTY):
            if sought in names:
                return start + RECORD * names.index(sought)
        owners, times = _OWNERS.unpack_from(self._memory, start), _TIMES.unpack_from(self._memory, start)
        if owners.count(owner) >= WAYS // 2:
            times = tuple([at if of == owner else math.inf for at, of in zip(times, owners, strict=True)])
        return start + RECORD * times.index(min(times))

    def _read(self, place: int) -> _Row | None:
        """A record that is whole; its members as they are packed."""
        data = self._memory[place : place + RECORD]
        if crc32(data[:-4]) != _CHECK.unpack_from(data, RECORD - 4)[0]:
            return None
        body: _Row = _BODY.unpack_from(data)
        return body


def _within(number: int, most: int) -> int:
    return number if 0 <= number <= most else most if number > 0 else 0


@lru_cache(4096)  # names of tiers, models and tenants
def mark(word: str) -> int:
    return crc32(word.encode("utf-8", "surrogatepass"))
