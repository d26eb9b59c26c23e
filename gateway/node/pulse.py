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
    """A number for each of `count` processes, that it raises, and those that were forked from the same one can read."""

    def __init__(self, count: int) -> None:
        self._page = mmap.mmap(-1, count * _NUMBER.size)

    def beat(self, number: int) -> None:
        _NUMBER.pack_into(self._page, number * _NUMBER.size, self.read(number) + 1)

    def read(self, number: int) -> int:
        beats: int = _NUMBER.unpack_from(self._page, number * _NUMBER.size)[0]
        return beats


class Vigil:
    """Tells when nothing was counted for `bound` seconds, by ten looks in that time. `due` is when to look next."""

    def __init__(self, read: Callable[[], int], bound: float, clock: Callable[[], float]) -> None:
        self.due = 0.0
        self._read = read
        self._every = bound / _LOOKS
        self._clock = clock
        self._pid = 0
        self._seen = 0
        self._unchanged = 0

    def look(self, pid: int) -> bool:
        """Whether this process has stood still for so long. Called at any time: it looks when that is due."""
        now = self._clock()
        if now < self.due and pid == self._pid:
            return False
        anew = pid != self._pid or now - self.due > self._every
        self.due, self._pid = now + self._every, pid
        beats = self._read()
        if anew or beats != self._seen:
            self._seen, self._unchanged = beats, 0
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
