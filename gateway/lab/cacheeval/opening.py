"""Bytes of data files: a file, gzipped or not, or all files of a folder. Sizes are bounded before and after inflating."""

from __future__ import annotations

import gzip
import hashlib
import io
import zlib
from collections.abc import Iterator
from pathlib import Path

from gateway.lab.cacheeval.pairs import BadData, Source

MAX_BYTES = 256 << 20  # of a file, inflated
MAX_FILES = 1000  # of a folder
_GZIP = b"\x1f\x8b"


def files_of(path: Path) -> list[Path]:
    """The file, or the files of the folder by name, hidden ones left out. Raises BadData."""
    if not path.is_dir():
        return [path]
    found = sorted(entry for entry in path.iterdir() if entry.is_file() and not entry.name.startswith("."))
    if not found:
        raise BadData(f"{path}: a folder without files")
    if len(found) > MAX_FILES:
        raise BadData(f"{path}: {len(found)} files; at most {MAX_FILES} are read")
    return found


def read(path: Path) -> tuple[Source, str]:
    """The text of a file. Raises BadData."""
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise BadData(f"{path}: {error.strerror or error}") from None
    data = _inflated(path, raw) if raw.startswith(_GZIP) and len(raw) <= MAX_BYTES else raw
    if len(data) > MAX_BYTES:
        raise BadData(f"{path}: more than {MAX_BYTES >> 20} MiB")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise BadData(f"{path}:{line}: not UTF-8") from None
    return Source(path.name, len(raw), hashlib.sha256(raw).hexdigest()), text


def lines_of(text: str) -> Iterator[tuple[int, str]]:
    """Lines with something in them, numbered from 1. Only a line feed ends one: texts may hold other separators."""
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield number, line.removesuffix("\r")


def _inflated(path: Path, raw: bytes) -> bytes:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(raw)) as file:
            return file.read(MAX_BYTES + 1)
    except (OSError, EOFError, zlib.error):
        raise BadData(f"{path}: a broken gzip file") from None
