"""A table of small records in a buffer that outlives its writer, who may be killed in the middle of any write.

Rules of this file
- A cell has room for two copies of a record. A batch writes the copy that is not in force, never the other, so what
  was in force stays whole until the batch is published (see `limits.vault`): a copy is in force when the number of its
  batch has been published and its checksum holds, and of two the later one.
- What a reader finds in a copy whose checksum does not hold was torn, and is nobody's.
- Copies of a batch that was never published are wiped before the next one begins, whose number would be the same.
- A key has one cell. When no cell is free, the key goes that is worth least, by the order that the table was made with.
  That order is worked out anew when it is used up, not for each key, so one that came meanwhile is not in it yet.
"""

from __future__ import annotations

import mmap
import struct
from collections import deque
from collections.abc import Callable, Iterator
from typing import cast
from zlib import crc32

Buffer = bytearray | memoryview | mmap.mmap
Values = tuple[int, int, int, int, int, int, int]
"""The first is signed, and all are of 64 bits."""

_BODY = struct.Struct("<16sQq6Q")
_CHECK = struct.Struct("<I")
_COPY = 88
CELL = 2 * _COPY
_END = _BODY.size + _CHECK.size
_NOTHING = bytes(_COPY)


class Cell:
    """Where a key is written. `copy` is the place of its latest record, of batch `seq`."""

    __slots__ = ("copy", "key", "seq", "start", "values")

    def __init__(self, start: int) -> None:
        self.start = start
        self.copy = 0
        self.seq = 0
        self.key = b""
        self.values: Values = (0, 0, 0, 0, 0, 0, 0)


class Cells:
    """`count` cells from `start` on. `worth`: the smaller, the sooner a cell is given to another key."""

    def __init__(self, buffer: Buffer, start: int, count: int, worth: Callable[[Cell], int]) -> None:
        self._buffer = buffer
        self._worth = worth
        self._cells: dict[bytes, Cell] = {}
        self._all = [Cell(start + number * CELL) for number in range(count)]
        self._free: list[Cell] = []
        self._order: deque[tuple[Cell, int]] = deque()

    def newest(self) -> int:
        """The highest batch number of a whole copy, published or not."""
        with memoryview(self._buffer) as view:
            return max((seq for cell in self._all for _, _, seq, _ in _copies(view, cell.start)), default=0)

    def read(self, published: int) -> None:
        """Take in what is in force, and wipe what was never published."""
        with memoryview(self._buffer) as view:
            for cell in self._all:
                for copy, key, seq, values in _copies(view, cell.start):
                    if seq > published:
                        view[cell.start + copy : cell.start + copy + _COPY] = _NOTHING
                    elif seq > cell.seq:
                        cell.copy, cell.key, cell.seq, cell.values = copy, key, seq, values
                self._enter(cell)
        self._free = [cell for cell in reversed(self._all) if self._cells.get(cell.key) is not cell]

    def items(self) -> Iterator[tuple[bytes, Values]]:
        return ((key, cell.values) for key, cell in self._cells.items())

    def get(self, key: bytes) -> Values | None:
        cell = self._cells.get(key)
        return None if cell is None else cell.values

    def put(self, key: bytes, seq: int, values: Values) -> Cell | None:
        """Write a record as part of batch `seq`. Returns the cell of a key that had to go for it, as it was."""
        evicted = None
        cell = self._cells.get(key)
        if cell is None:
            evicted = None if self._free else self._evict()
            cell = self._cells[key] = self._free.pop()
            cell.key = key
        if cell.seq != seq:
            cell.seq = seq
            cell.copy ^= _COPY
        cell.values = values
        body = _BODY.pack(key, seq, *values)
        at = cell.start + cell.copy
        self._buffer[at : at + _END] = body + _CHECK.pack(crc32(body))
        return evicted

    def _enter(self, cell: Cell) -> None:
        if cell.seq and ((other := self._cells.get(cell.key)) is None or other.seq < cell.seq):
            self._cells[cell.key] = cell

    def _evict(self) -> Cell:
        """Free the cell that is worth least; returns what was in it."""
        while True:
            if not self._order:
                self._order.extend((cell, cell.seq) for cell in sorted(self._cells.values(), key=self._worth))
            cell, seq = self._order.popleft()
            if cell.seq == seq:
                break
        del self._cells[cell.key]
        self._free.append(cell)
        was = Cell(cell.start)
        was.key, was.seq, was.values = cell.key, cell.seq, cell.values
        return was


# The first copy's place in a cell is 0, so one may be had from the other by an exclusive or.
def _copies(view: memoryview, start: int) -> Iterator[tuple[int, bytes, int, Values]]:
    """The whole copies of a cell: place, key, batch and values."""
    for copy in (0, _COPY):
        at = start + copy
        key, seq, *values = _BODY.unpack_from(view, at)
        if seq and _CHECK.unpack_from(view, at + _BODY.size)[0] == crc32(view[at : at + _BODY.size]):
            yield copy, key, seq, cast(Values, tuple(values))
