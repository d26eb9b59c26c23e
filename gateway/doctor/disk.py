"""Checks of what is written to: key file, directories, disk. Asks the system for permission, and writes nothing."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

from gateway.config.problems import Path as KeyPath
from gateway.doctor.findings import Finding, fail, warn

LOW = 256 * 2**20
"""Bytes left of a disk from which on it is called full: logs beside the keys fill it within the day."""

_OTHERS = (("every user of this machine", stat.S_IXOTH, stat.S_IROTH), ("its group", stat.S_IXGRP, stat.S_IRGRP))


def nearest_ancestor(path: Path) -> Path:
    """`path`, or the nearest place above it that there is."""
    for place in (path, *path.parents):
        if os.path.lexists(place):
            return place
    return Path("/")


def directory(where: KeyPath, path: Path) -> list[Finding]:
    """Whether files can be made in the directory `path`, which may still be missing itself."""
    found = nearest_ancestor(path)
    if not found.is_dir():
        return [fail(where, f"{found} is a file, so {path} cannot be a directory", "Choose another path, or move that file.")]
    if not _may(found, os.W_OK | os.X_OK):
        mend = "Give the gateway's user that directory, or choose another path."
        return [fail(where, f"{found} cannot be written to by {_user()}", mend)]
    return []


def key_file(where: KeyPath, path: Path) -> list[Finding]:
    """Whether the key file can be read, and be replaced by a new one."""
    if path.is_dir():
        return [fail(where, f"{path} is a directory, not a file", "Name a file in it.")]
    try:
        exists = path.exists()
    except OSError:
        exists = False
    if exists and not _may(path, os.R_OK):
        return [fail(where, f"{path} cannot be read by {_user()}", "Give the file to the gateway's user.")]
    found = directory(where, path.resolve().parent)
    if not found and exists and not _may(path, os.W_OK):
        return [warn(where, f"{path} is read-only, yet its directory lets it be replaced", "Make both read-only, or neither.")]
    return found


def budgets(where: KeyPath, path: Path) -> list[Finding]:
    """Whether what is used of budgets can be kept in the directory `path`."""
    return directory(where, path) or free_space(where, path, "what is used of budgets is forgotten when the disk is full")


def free_space(where: KeyPath, path: Path, loss: str = "keys could not be written") -> list[Finding]:
    try:
        free = shutil.disk_usage(nearest_ancestor(path)).free
    except OSError:
        return []
    return low_space(where, free, loss)


def low_space(where: KeyPath, free: int, loss: str = "keys could not be written") -> list[Finding]:
    if free >= LOW:
        return []
    return [warn(where, f"only {free // 2**20} MiB are left on this disk", f"Free some space: {loss}.")]


def open_to(path: Path) -> str:
    """Who beside its owner gets into the directory `path`: the bits of all that is above it count as well. Empty: nobody."""
    place = path.resolve()
    try:
        own, above = place.stat().st_mode, [each.stat().st_mode for each in place.parents]
    except OSError:
        return ""
    for who, enter, read in _OTHERS:
        if own & enter and own & read and all(mode & enter for mode in above):
            return who
    return ""


def _may(path: Path, mode: int) -> bool:
    return os.access(path, mode, effective_ids=os.access in os.supports_effective_ids)


def _user() -> str:
    return f"user {os.geteuid()}"
