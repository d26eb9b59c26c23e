"""What was used of budgets, in a file that outlives the gateway. A thread of its own writes it, never the event loop.

Rules of this file
- Nothing is overwritten: a record is appended, of fixed size, with a checksum; of a key the last one counts. When most of them
  are past, those in force are written to a new file that takes the place of the old one by one step.
- What changed is written some hundredths of a second later, and synced once a second: so much is lost of a process that is
  killed, and of a machine whose power is cut.
- Damaged records are passed over, the others count. Where that is more than the torn end of a file, and where a file is none of
  ours, it is left aside under another name, and one line says so.
- Somebody may take the file or its folder away: that is seen with the next sync, and both are made anew.
- What cannot be written stays in memory and is tried again every second: one line says when that begins, and one when it ends.
- One process has the folder, by a lock that the system takes back from a dead one.
- No name of a tenant is in it: keys are digests.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
import struct
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from zlib import crc32

from limits.budget import LAST_DAY, MOST, Used

_MAGIC = b"tiergate spent 1\n".ljust(48, b"\0")
_BODY = struct.Struct("<16sqqq")
_CHECK = struct.Struct("<I")
_RECORD = 48
_PADDING = bytes(_RECORD - _BODY.size - _CHECK.size)
_MANY = 32_768  # records in a file, from which on it is worth a new one
_TIMES = 4  # as many as keys
_LARGEST = 1 << 28  # bytes of a file that is read
_GATHER = 0.02  # seconds
_SYNC = 1.0  # seconds
_LAST = 10.0  # seconds for what is left to be written at the end
_PATIENCE = 2.0  # seconds: a gateway that was killed is still on its way out
_log = logging.getLogger("tiergate.limits")

_State = tuple[int, int, int]


class JournalInUse(Exception):  # noqa: N818 - it names what was met
    """Another process counts there."""


class Journal:
    """`open` it, once, and `close` it, both outside the event loop.

    `trouble`: why nothing is written: `full` (the disk), `failed`; empty: all is well.
    """

    def __init__(
        self,
        folder: Path,
        *,
        gather: float = _GATHER,
        sync: float = _SYNC,
        patience: float = _PATIENCE,
        many: int = _MANY,
    ) -> None:
        self._folder = folder
        self._path = folder / "used"
        self._gather = gather
        self._sync = sync
        self._patience = patience
        self._many = many
        self._lock = -1
        self._file = -1
        self._end = 0  # of what is written well
        self._records: dict[bytes, _State] = {}  # the thread's, once it runs
        self._past: Mapping[bytes, _State] = {}
        self._late: dict[bytes, _State] = {}  # what was found only when counting had begun, until it is counted in
        self._begun = False
        self._changed: dict[bytes, _State] = {}
        self._wake = threading.Event()
        self._woken = False  # as far as the other thread knows, which asks it for every change
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self._unsynced = False
        self.trouble = ""

    def open(self) -> None:
        """Take the folder, read what is there, begin to write. Raises JournalInUse, and nothing else."""
        try:
            self._begin()
        except OSError as error:
            self._failed(error)
        self._thread = threading.Thread(target=self._run, name="budgets", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Everything is written and synced, as far as that works. Safe to call twice, and without `open`."""
        self._closing.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(_LAST)
            if self._thread.is_alive():
                _log.warning("what is used of budgets was not all written: the disk of %s does not answer", self._folder)
                return
            self._thread = None
        for descriptor in (self._file, self._lock):
            if descriptor >= 0:
                os.close(descriptor)
        self._file = self._lock = -1

    def find(self, key: bytes) -> Used | None:
        """As it was when this was opened."""
        self._late.pop(key, None)
        found = self._past.get(key)
        return None if found is None else Used(*found, key)

    def note(self, used: Used) -> None:
        """To be written soon. From one thread, that of the event loop. What was found late is counted in."""
        if self._late and (late := self._late.pop(used.key, None)) is not None:
            used.found(*late)
        self._changed[used.key] = (used.day, used.settled_today, used.settled_month)
        if not self._woken:
            self._woken = True
            self._wake.set()

    # -- the thread's

    def _run(self) -> None:
        synced = time.monotonic()
        if self._records and self._file < 0:  # what was read is in force from now on, also if nothing follows
            self._write()
        while not self._closing.is_set():
            waits = self._unsynced or self.trouble
            if self._wake.wait(self._sync if waits else None):
                self._closing.wait(self._sync if self.trouble else self._gather)
                self._wake.clear()
                self._woken = False
            self._write()
            if time.monotonic() - synced >= self._sync:
                synced = time.monotonic()
                self._flush()
        self._write()
        self._flush()

    def _write(self) -> None:
        """What changed, at the end of the file; all of it again at the next try if that fails."""
        changed: dict[bytes, _State] = {}
        with contextlib.suppress(KeyError):
            while True:  # one step each, so what the other thread puts there meanwhile is not lost
                key, state = self._changed.popitem()
                changed[key] = state
        self._records.update(changed)
        try:
            if self._file < 0 or self.trouble or self._end > _RECORD * max(self._many, _TIMES * len(self._records)):
                if not _at(self._folder / "lock", self._lock):
                    self._begin()
                self._renew()
            elif changed:
                self._append(b"".join([_packed(key, state) for key, state in changed.items()]))
        except Exception as error:  # noqa: BLE001 - the edge of the thread: without it nothing would be written any more
            self._failed(error)
        else:
            self._well()

    def _append(self, data: bytes) -> None:
        _put(self._file, data, self._end)
        self._end += len(data)
        self._unsynced = True

    def _flush(self) -> None:
        if self._unsynced and self._file >= 0:
            try:
                if not _at(self._path, self._file):
                    raise FileNotFoundError(errno.ENOENT, "it was taken away")
                os.fdatasync(self._file) if hasattr(os, "fdatasync") else os.fsync(self._file)
                self._unsynced = False
            except OSError as error:
                self._failed(error)

    def _renew(self) -> None:
        """A file of what is in force, in the place of the old one."""
        aside = self._path.with_name(".used.new")
        with contextlib.suppress(FileNotFoundError):
            aside.unlink()
        file = os.open(aside, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            data = _MAGIC + b"".join([_packed(key, state) for key, state in self._records.items()])
            _put(file, data, 0)
            os.fsync(file)
            aside.replace(self._path)
        except BaseException:
            os.close(file)
            raise
        if self._file >= 0:
            os.close(self._file)
        self._file, self._end, self._unsynced = file, len(data), False
        folder = os.open(self._folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    # -- opening

    def _begin(self) -> None:
        """What is counted here already goes on from what is there: it has that in it, or else it is added, once.

        Raises JournalInUse, and OSError.
        """
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._take_lock()
        past = self._read()
        if self._begun:
            self._records = {**past, **self._records}
            return
        self._begun = True
        counted, self._records = self._records, dict(past)
        for key, state in counted.items():
            one = Used(*state)
            if key in past:
                one.found(*past[key])
            self._records[key] = one.day, one.today, one.month
        if counted or self._thread is not None:
            self._late = dict(past)
        self._past = past

    def _take_lock(self) -> None:
        """Raises JournalInUse, and OSError."""
        lock = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        until = time.monotonic() + self._patience
        while not _locked(lock):
            if time.monotonic() >= until:
                holder = os.pread(lock, 20, 0).decode("ascii", "replace").strip()
                os.close(lock)
                raise JournalInUse(f"process {holder if holder.isdigit() else 'unknown'} counts budgets in {self._folder}")
            time.sleep(0.02)
        self._lock = lock
        os.ftruncate(lock, 0)
        with contextlib.suppress(OSError):  # for people
            os.pwrite(lock, b"%d\n" % os.getpid(), 0)

    def _read(self) -> dict[bytes, _State]:
        """Every record that is whole; a file that has others is set aside, unless they are its torn end."""
        found: dict[bytes, _State] = {}
        torn = damaged = False
        try:
            data = _contents(self._path)
        except FileNotFoundError:
            return {}
        except OSError:
            data, damaged = b"", True
        if data[: len(_MAGIC)] == _MAGIC:
            for key, state in _records_of(data):
                if key is None:
                    torn = True
                else:
                    damaged = damaged or torn
                    found[key] = state
        if damaged or (data and data[: len(_MAGIC)] != _MAGIC):
            self._set_aside()
        return found

    def _set_aside(self) -> None:
        aside = self._path.with_name(f"used.damaged-{time.time_ns()}")
        self._path.rename(aside)
        _log.warning("%s was damaged: it is now %s, and budgets go on from what could be read of it", self._path, aside.name)

    # -- what is told

    def _failed(self, error: Exception) -> None:
        before, self.trouble = self.trouble, "full" if _is_full(error) else "failed"
        if not before:
            said = error.strerror if isinstance(error, OSError) else str(error)
            _log.warning(
                "what is used of budgets is counted, but not written: %s: %s", self._folder, said or type(error).__name__
            )

    def _well(self) -> None:
        if self.trouble:
            self.trouble = ""
            _log.warning("what is used of budgets is written again: %s", self._folder)


def _contents(path: Path) -> bytes:
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        return os.pread(file, min(os.fstat(file).st_size, _LARGEST), 0)
    finally:
        os.close(file)


def _put(file: int, data: bytes, at: int) -> None:
    if os.pwrite(file, data, at) < len(data):
        raise OSError(errno.ENOSPC, "only a part of it was written")


def _records_of(data: bytes) -> Iterator[tuple[bytes | None, _State]]:
    """Key and state; no key where a record is damaged."""
    for at in range(len(_MAGIC), len(data) - _RECORD + 1, _RECORD):
        body = data[at : at + _BODY.size]
        key, day, today, month = _BODY.unpack(body)
        whole = data[at + _BODY.size : at + _BODY.size + _CHECK.size] == _CHECK.pack(crc32(body))
        sane = 0 <= day <= LAST_DAY and 0 <= today <= MOST and 0 <= month <= MOST
        yield (key if whole and sane else None), (day, today, month)


def _packed(key: bytes, state: _State) -> bytes:
    body = _BODY.pack(key, *state)
    return body + _CHECK.pack(crc32(body)) + _PADDING


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _at(path: Path, descriptor: int) -> bool:
    """Whether that open file is what the path names."""
    try:
        return descriptor >= 0 and os.path.samestat(path.stat(follow_symlinks=False), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _is_full(error: Exception) -> bool:
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
