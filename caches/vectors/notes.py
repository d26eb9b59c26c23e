"""Small records in files: each is written anew as a whole, so a reader finds the old one or the new one."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

MAX_NOTE = 16 * 2**20
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


def check_name(name: str) -> str:
    """Raises ValueError: a name is chosen in this program, not by a stranger."""
    if _NAME.fullmatch(name) is None:
        raise ValueError(f"not a note's name: {name!r}")
    return name


class NoteFiles:
    """Blocking. Raises OSError."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, name: str) -> bytes | None:
        try:
            with (self._folder / name).open("rb") as file:
                return file.read(MAX_NOTE)
        except FileNotFoundError:
            return None

    def all(self, prefix: str) -> dict[str, bytes]:
        """Those whose names begin so."""
        try:
            names = [path.name for path in self._folder.iterdir() if path.name.startswith(prefix) and path.name[0] != "."]
        except FileNotFoundError:
            return {}
        return {name: data for name in names if (data := self.read(name)) is not None}

    def drop(self, name: str) -> None:
        (self._folder / name).unlink(missing_ok=True)

    def write(self, name: str, data: bytes) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, aside = tempfile.mkstemp(prefix=".new-", dir=self._folder)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            Path(aside).replace(self._folder / name)
        except BaseException:
            Path(aside).unlink(missing_ok=True)
            raise
