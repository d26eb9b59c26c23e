"""Where lines are written: files of their own in a folder, by one thread, never on the event loop.

Rules of this file
- `note` returns at once. What finds no room in memory is dropped and counted, and so is what cannot be written: no request
  suffers, and one line in the log says when that begins and one when it ends.
- Files are 0600 in a folder that is 0700, whatever the umask. A file is begun at each start, when one is large or a day old, and
  after each failure: so a torn line is the last one of its file, and nothing is ever written behind it.
- A failure leaves what was whole before it, and no file that is empty. The next attempt is after a pause, which grows; lines wait
  in memory for its end.
- Retention: a file goes when its last line is older than `max_age`, and the oldest ones go while all have more than `max_bytes`.
- Somebody may take the files or the folder away: they are made anew.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from pathlib import Path
from secrets import token_hex

_log = logging.getLogger("tiergate.learning")
_GATHER = 0.2  # seconds
_MOST_BYTES = 4 * 1024 * 1024  # that wait to be written
_PARTS = 8  # files that `max_bytes` are made of, at least
_DAY = 86_400.0
_SWEEP = 600.0  # seconds between two looks at what is too old
_PAUSE = 1.0  # seconds from a failure to the next attempt, doubling
_LONGEST_PAUSE = 60.0
_EMPTY = 3600.0  # seconds after which a file of nothing is nobody's
_CLOSE = 5.0


class Journal:
    """`note` lines, `close` it once. The thread begins with the first line: no earlier than any fork."""

    def __init__(self, folder: Path, *, max_age: float, max_bytes: int, gather: float = _GATHER, pause: float = _PAUSE) -> None:
        self._folder = folder
        self._max_age = max_age
        self._max_bytes = max_bytes
        self._gather = gather
        self._least_pause = self._pause = pause
        self._again = float("-inf")  # no earlier is anything written
        self._lines: list[bytes] = []
        self._size = 0
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self._file = -1
        self._path = folder
        self._written = 0
        self._whole = 0  # bytes of the file that were written as they should
        self._began = 0.0
        self._swept = float("-inf")
        self.trouble = ""  # why nothing is written
        self.dropped = 0

    def note(self, line: bytes) -> None:
        """To be written soon. From one thread."""
        with self._lock:
            if self._size + len(line) > _MOST_BYTES or self._closing.is_set():
                self.dropped += 1
                return
            self._lines.append(line)
            self._size += len(line) + 1
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="learning", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """What is left is written, as far as that works. Safe to call twice."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join(_CLOSE)

    def _run(self) -> None:
        while not self._closing.wait(self._gather):
            self._turn()
        self._turn()
        self._leave()

    def _turn(self) -> None:
        if time.monotonic() < self._again and not self._closing.is_set():
            return
        with self._lock:
            lines, self._lines, self._size = self._lines, [], 0
        try:
            if lines:
                self._write(b"".join(line + b"\n" for line in lines))
            if time.monotonic() - self._swept > _SWEEP:
                self._swept = time.monotonic()
                self._sweep()
        except OSError as error:
            self.dropped += len(lines)
            self._undo()
            self._again = time.monotonic() + self._pause
            self._pause = min(2 * self._pause, _LONGEST_PAUSE)
            self._say(error.strerror or str(error))
        else:
            if lines:
                self._pause = self._least_pause
                self._say("")

    def _write(self, data: bytes) -> None:
        """OSError: some of it may have been written."""
        if self._file < 0 or self._gone() or self._written >= self._max_bytes // _PARTS or time.time() - self._began > _DAY:
            self._leave()
            self._begin()
            self._sweep()
        view = memoryview(data)
        while view:
            done = os.write(self._file, view)
            self._written += done
            view = view[done:]
        self._whole = self._written

    def _begin(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._began, self._written, self._whole = time.time(), 0, 0
        self._path = self._folder / f"asks-{int(self._began * 1000):013d}-{token_hex(4)}.jsonl"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        self._file = os.open(self._path, flags, 0o600)
        os.fchmod(self._file, 0o600)

    def _gone(self) -> bool:
        try:
            seen = self._path.stat()
        except OSError:
            return True
        own = os.fstat(self._file)
        return (seen.st_dev, seen.st_ino) != (own.st_dev, own.st_ino)

    def _undo(self) -> None:
        """What was half written goes, and a file of nothing with it."""
        if self._file >= 0:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, self._whole)
                if not self._whole and not self._gone():
                    self._path.unlink()
        self._leave()

    def _leave(self) -> None:
        if self._file >= 0:
            with contextlib.suppress(OSError):
                os.close(self._file)
            self._file = -1

    def _sweep(self) -> None:
        """What is too old goes, and of what is too much the oldest."""
        if not self._folder.is_dir():
            return
        kept: list[tuple[str, int, Path]] = []
        for path in self._folder.glob("asks-*.jsonl"):
            with contextlib.suppress(FileNotFoundError):  # another gateway sweeps here, too
                stat = path.stat()
                oldest = time.time() - (self._max_age if stat.st_size else min(self._max_age, _EMPTY))
                if stat.st_mtime < oldest and path != self._path:
                    path.unlink()
                else:
                    kept.append((path.name, stat.st_size, path))
        total = sum(size for _, size, _ in kept)
        for _, size, path in sorted(kept):
            if total <= self._max_bytes or path == self._path:
                break
            path.unlink(missing_ok=True)
            total -= size

    def _say(self, trouble: str) -> None:
        if bool(trouble) != bool(self.trouble):
            if trouble:
                _log.warning("nothing is kept of what could be learned: %s: %s", self._folder, trouble)
            else:
                _log.warning("what can be learned is kept again; %d lines were lost", self.dropped)
        self.trouble = trouble
