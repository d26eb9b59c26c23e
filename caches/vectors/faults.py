"""What the system refuses, told from what is damaged.

A full disk, a missing right, too many open files: the data is good, and can be used again when that is over. Whatever else the
engine raises at a well-formed ask means that it cannot read what it has written: a damaged file.

The engine writes through memory maps: where a disk has no room, the system kills the process in the middle of a write. So room
is looked for before one.
"""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

ROOM = 32 * 2**20  # bytes that must be free before points are written
LITTLE = 4 * 2**20  # before some are deleted, which in the end makes room

_REASONS = {
    errno.ENOSPC: "full",
    errno.EDQUOT: "full",
    errno.EROFS: "read-only",
    errno.EACCES: "no right",
    errno.EPERM: "no right",
    errno.EMFILE: "too many files",
    errno.ENFILE: "too many files",
    errno.ENOMEM: "no memory",
}
DECLINED = frozenset(_REASONS.values())
_NUMBER = re.compile(r"os error (\d+)|code: (\d+)")  # as Rust's errors are shown, to people and to programmers


class Declined(Exception):  # noqa: N818 - it names what happened
    """What was asked cannot be done just now, and that says nothing against the store. `reason` is a word or two for people."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def reason_of(error: BaseException) -> str | None:
    """Why the system refused it; None: it did not."""
    if isinstance(error, Declined):
        return error.reason
    if isinstance(error, MemoryError):
        return _REASONS[errno.ENOMEM]
    if isinstance(error, OSError):
        return _REASONS.get(error.errno or 0)
    found = _NUMBER.search(str(error))
    return None if found is None else _REASONS.get(int(found[1] or found[2]))


def short(path: Path, wanted: int) -> bool:
    """Whether less than that is free where `path` is, or will be. Where it cannot be found out, it is not."""
    while not path.exists() and path != path.parent:
        path = path.parent
    try:
        found = os.statvfs(path)
    except OSError:
        return False
    return found.f_bavail * found.f_frsize < wanted


def need(path: Path, wanted: int) -> None:
    """Raises Declined."""
    if short(path, wanted):
        raise Declined(_REASONS[errno.ENOSPC])


def taken(folder: Path) -> int:
    """Bytes of disk that all in it take. What goes while it is looked at is not counted."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                total += 512 * (Path(place) / name).lstat().st_blocks
            except OSError:
                continue
    return total
