"""What conversations hold, in a piece of memory of a fixed size that processes may share. Nobody asks anybody, nobody locks.

Rules
- Records of 64 bytes in buckets of WAYS, found by a part of the name, which is a keyed digest: nobody can aim at a bucket.
- A full bucket gives up its oldest record; but a tenant that has half of it already gives up its own oldest, so whoever makes up
  conversations without end forgets his own.
- A record carries a checksum over itself. One that is read while it is written, or that two wrote at once, or that was half
  written by who was killed, is none. What is lost is a memory that the next turn does without.
- No record means anything to another memory, config or key: names are digests, and so are those of tiers and models.
"""

from __future__ import annotations

import struct
from mmap import mmap
from typing import NamedTuple
from zlib import crc32

WAYS = 8
_BODY = struct.Struct("=16s8sIIIdIB?H4x")  # name, ask, tenant, tier, model, when, tokens, easy, chosen, loops
_Row = tuple[bytes, bytes, int, int, int, float, int, int, bool, int]
_CHECK = struct.Struct("=I")
RECORD = 64
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
        self._memory = memoryview(memory).cast("B")
        self._buckets = len(self._memory) // (RECORD * WAYS)
        if not self._buckets:
            raise ValueError("no room for a single bucket")
        self._words = {mark(word): word for word in (*words, "")}

    def get(self, name: bytes) -> Record | None:
        """What was kept under that name of 16 bytes, if it still is and means something here."""
        memory = self._memory
        start = self._start(name)
        for place in range(start, start + WAYS * RECORD, RECORD):
            if memory[place : place + 16] == name:
                found = self._read(place)
                if found is not None and found[0] == name:
                    _, ask, _, tier, model, at, tokens, easy, chosen, loops = found
                    known = self._words
                    if tier in known:
                        return Record(ask, known[tier], known.get(model, ""), easy, tokens, at, loops, chosen)
        return None

    def put(self, name: bytes, tenant: str, record: Record) -> None:
        """Keep it, in the place of what was kept under that name."""
        owner = mark(tenant)
        place = self._place(name, owner)
        body = _BODY.pack(
            name, record.ask, owner, mark(record.tier), mark(record.model), record.at, min(max(record.tokens, 0), 0xFFFFFFFF),
            min(max(record.easy, 0), 255), record.chosen, min(record.loops, 0xFFFF),
        )  # fmt: skip
        self._memory[place : place + RECORD] = body.ljust(RECORD - 4, b"\0") + _CHECK.pack(crc32(body))

    def _start(self, name: bytes) -> int:
        return int.from_bytes(name[:8], "little") % self._buckets * WAYS * RECORD

    def _place(self, name: bytes, owner: int) -> int:
        """Its own place, a free one, or that of the oldest, its tenant's own where that has half of the bucket."""
        start, free = self._start(name), None
        held: list[tuple[float, int, int]] = []
        for place in range(start, start + WAYS * RECORD, RECORD):
            if self._memory[place : place + 16] == name:
                return place
            found = self._read(place)
            if found is None:
                free = place if free is None else free
            else:
                held.append((found[5], place, found[2]))
        if free is not None:
            return free
        own = [one for one in held if one[2] == owner]
        return min(own if len(own) >= WAYS // 2 else held)[1]

    def _read(self, place: int) -> _Row | None:
        """A record that is whole; its members as they are packed."""
        data = bytes(self._memory[place : place + RECORD])
        if data[:16] == _EMPTY or crc32(data[: _BODY.size]) != _CHECK.unpack_from(data, RECORD - 4)[0]:
            return None
        body: _Row = _BODY.unpack_from(data)
        return body


def mark(word: str) -> int:
    return crc32(word.encode("utf-8", "surrogatepass"))
