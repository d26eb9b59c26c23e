"""Changing a file that others read and write: one writer at a time, and never half a file.

The lock is a file of its own beside the other (`keys.json.lock`): the other one is replaced, and a lock on a replaced
file locks nobody out. What is created belongs to the owner of the directory, also when root runs the command, or the
gateway could not read what the operator wrote for it.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PATIENCE = 10.0


@contextmanager
def locked(path: Path, patience: float = PATIENCE) -> Iterator[None]:
    """Holds the lock of `path`, making its directory if need be; TimeoutError after `patience` seconds."""
    path = path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = _open(Path(f"{path}.lock"))
    try:
        _wait(descriptor, patience)
        yield
    finally:
        os.close(descriptor)  # which releases it


def replace(path: Path, data: bytes) -> None:
    """`path` has its old content or `data`, whatever happens; mode 0600. A link stays one: its target is replaced."""
    path = path.resolve()
    descriptor, aside = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            _adopt(file.fileno(), path.parent)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)  # noqa: PTH105 - all of this is about descriptors and names
    except BaseException:
        with suppress(OSError):
            os.unlink(aside)  # noqa: PTH108 - as above
        raise
    _sync_directory(path.parent)


def _open(path: Path) -> int:
    """Opens or makes the lock file. Never through a link, and only what is new is given away: root may be the caller."""
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return os.open(path, flags)
    _adopt(descriptor, path.parent)
    return descriptor


def _wait(descriptor: int, patience: float) -> None:
    """Polls, since flock() itself knows no deadline."""
    deadline = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise TimeoutError(0, "another command holds its lock") from None
            time.sleep(0.02)
        else:
            return


def _adopt(descriptor: int, directory: Path) -> None:
    if os.geteuid() == 0:
        owner = directory.stat()
        os.fchown(descriptor, owner.st_uid, owner.st_gid)


def _sync_directory(directory: Path) -> None:
    """So that the rename survives a power cut."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
