"""Where the node's sums outlive the process that made them: a file without a name, open in the supervisor and its children.

Two places take turns, each with a header that is written last: whoever is killed in the middle of writing leaves the other
one as it was. It is memory, no disk (but where there is no memfd a temporary file), and ends with the last process.
"""

from __future__ import annotations

import os
import struct
import tempfile
import zlib

_HEADER = struct.Struct("<QQI")  # which one it is, its length, its checksum
_PLACE = 256 * 1024 * 1024  # bytes apart; what is not written takes no memory


class TallyFile:
    """Keeps the last text given. Made by the supervisor, before it forks; written by one process at a time."""

    def __init__(self) -> None:
        if hasattr(os, "memfd_create"):
            self._file = os.fdopen(os.memfd_create("tiergate-tally"), "r+b", buffering=0)
        else:
            self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - open as long as the process lives

    def write(self, data: bytes) -> None:
        """Once this has returned, `read` in any process gives `data`. OSError when there is no room for it."""
        if len(data) > _PLACE - _HEADER.size:
            raise OSError(f"{len(data)} bytes are too many")
        newest = max(self._header(place)[0] for place in (0, 1))
        start = (newest + 1) % 2 * _PLACE
        self._put(data, start + _HEADER.size)
        self._put(_HEADER.pack(newest + 1, len(data), zlib.crc32(data)), start)

    def read(self) -> bytes:
        """What was written last; nothing when nothing ever was."""
        for place in sorted((0, 1), key=lambda place: self._header(place)[0], reverse=True):
            number, length, checksum = self._header(place)
            data = os.pread(self._file.fileno(), min(length, _PLACE), place * _PLACE + _HEADER.size)
            if number and zlib.crc32(data) == checksum:
                return data
        return b""

    def close(self) -> None:
        self._file.close()

    def _header(self, place: int) -> tuple[int, int, int]:
        data = os.pread(self._file.fileno(), _HEADER.size, place * _PLACE)
        number, length, checksum = _HEADER.unpack(data.ljust(_HEADER.size, b"\0"))
        return number, length, checksum

    def _put(self, data: bytes, start: int) -> None:
        left = memoryview(data)
        while left:
            written = os.pwrite(self._file.fileno(), left, start)
            left, start = left[written:], start + written
