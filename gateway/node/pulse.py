"""Whether a process still runs: it counts, on a page of memory that it shares with who looks.

Rules of this file
1. What is counted are looks without a beat between them, not seconds. A machine that was suspended, or a supervisor that did not
   run, has looked once when it comes to itself, however late; and after a late look the counting begins anew.
2. A process that somebody debugs is left alone: it stands still for a reason.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable
from pathlib import Path

_NUMBER = struct.Struct("=Q")
_LOOKS = 10


class Pulse:
    """A number that one process raises, and those that were forked from the same one can read."""

    def __init__(self) -> None:
        self._page = mmap.mmap(-1, _NUMBER.size)

    def beat(self) -> None:
        _NUMBER.pack_into(self._page, 0, self.read() + 1)

    def read(self) -> int:
        count: int = _NUMBER.unpack_from(self._page)[0]
        return count


class Vigil:
    """Tells when nothing was counted for `bound` seconds, by ten looks in that time. `due` is when to look next."""

    def __init__(self, read: Callable[[], int], bound: float, clock: Callable[[], float]) -> None:
        self.due = float("inf")
        self._read = read
        self._every = bound / _LOOKS
        self._clock = clock
        self._seen = 0
        self._unchanged = 0

    def begin(self) -> None:
        """Someone new is there."""
        self.due = self._clock() + self._every
        self._seen, self._unchanged = self._read(), 0

    def look(self, pid: int) -> bool:
        """Whether this process has stood still for so long. Called at any time: it looks when that is due."""
        now = self._clock()
        if now < self.due:
            return False
        late = now - self.due > self._every
        self.due = now + self._every
        count = self._read()
        if late or count != self._seen:
            self._seen, self._unchanged = count, 0
            return False
        self._unchanged += 1
        if self._unchanged < _LOOKS:
            return False
        self._unchanged = 0
        return not _debugged(pid)


def _debugged(pid: int) -> bool:
    """Whether a debugger holds it, where there is a /proc that tells."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    return any(line.startswith("TracerPid:") and line.split()[1] != "0" for line in status.splitlines())
