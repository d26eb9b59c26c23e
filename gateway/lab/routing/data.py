"""Labelled outcomes: JSON lines, gzipped or not, each a prompt with what several models scored on it.

    {"prompt": …, "scores": {model: number}}      optional: id, dataset, category, contaminated; other fields are not looked at

A line that cannot be read is an error with its number: a line that is skipped silently is a figure that is wrong. Rows marked as
contaminated are left out, and counted. A score of null is one that was not measured.
"""

from __future__ import annotations

import gzip
import hashlib
import random
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

import msgspec

MAX_FILE = 512 << 20  # bytes, inflated
MAX_LINE = 4 << 20
MAX_ROWS = 200_000
MAX_MODELS = 200
MAX_NAME = 200
_GZIP = b"\x1f\x8b"
_SUFFIXES = (".gz", ".jsonl", ".json")


class BadData(ValueError):  # noqa: N818 - says what is the matter
    """Data that cannot be read, or say nothing."""


@dataclass(frozen=True, slots=True)
class Row:
    """`scores`: by model, as the file has them."""

    prompt: str
    category: str
    scores: dict[str, float]
    id: str = ""


@dataclass(frozen=True, slots=True)
class Data:
    name: str
    digest: str  # SHA-256 of the file as it lies there
    rows: tuple[Row, ...]
    contaminated: int  # rows left out for it
    of: int  # rows that there were


class _Line(msgspec.Struct):
    prompt: str
    scores: dict[str, float | None]
    id: str | int = ""
    category: str | None = None
    contaminated: bool = False


_DECODER = msgspec.json.Decoder(_Line)


def load(path: Path) -> Data:
    """Raises BadData."""
    rows, contaminated = [], 0
    for number, line in lines(path):
        row = _row(f"{path}:{number}", line)
        if row is None:
            contaminated += 1
            continue
        rows.append(row)
        if len(rows) > MAX_ROWS:
            raise BadData(f"{path}: more than {MAX_ROWS:,} rows")
    if not rows:
        raise BadData(f"{path}: no rows in it")
    return Data(name_of(path), digest_of(path), tuple(rows), contaminated, len(rows))


def drawn(data: Data, rows: int | None, seed: int) -> Data:
    """At most so many rows, in their order; None: all."""
    if rows is None or len(data.rows) <= rows:
        return data
    places = sorted(random.Random(seed).sample(range(len(data.rows)), rows))
    return replace(data, rows=tuple(data.rows[place] for place in places), of=len(data.rows))


def name_of(path: Path) -> str:
    name = path.name
    for suffix in _SUFFIXES:
        name = name.removesuffix(suffix)
    return name or path.name


def digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Lines with something in them, numbered from 1, a file of any size never held whole. Raises BadData."""
    try:
        with path.open("rb") as raw:
            zipped = raw.read(2) == _GZIP
            raw.seek(0)
            yield from _bounded(path, gzip.GzipFile(fileobj=raw) if zipped else raw)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise BadData(f"{path}: a broken gzip file") from None
    except OSError as error:
        raise BadData(f"{path}: {error.strerror or error}") from None


def _bounded(path: Path, file: BinaryIO | gzip.GzipFile) -> Iterator[tuple[int, bytes]]:
    size = number = 0
    while line := file.readline(MAX_LINE + 1):
        number += 1
        size += len(line)
        if len(line) > MAX_LINE:
            raise BadData(f"{path}:{number}: a line of more than {MAX_LINE >> 20} MiB")
        if size > MAX_FILE:
            raise BadData(f"{path}: more than {MAX_FILE >> 20} MiB")
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
        if line.strip():
            yield number, line


def _row(where: str, line: bytes) -> Row | None:
    """None: contaminated. Raises BadData."""
    try:
        it = _DECODER.decode(line)
    except msgspec.ValidationError as error:
        raise BadData(f"{where}: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadData(f"{where}: not JSON: {error}") from None
    if it.contaminated:
        return None
    scores = {model: score for model, score in it.scores.items() if score is not None}
    if not it.prompt.strip():
        raise BadData(f"{where}: an empty prompt")
    if len(it.scores) > MAX_MODELS or any(not 0 < len(model) <= MAX_NAME for model in it.scores):
        raise BadData(f"{where}: at most {MAX_MODELS} models, each with a name of 1 to {MAX_NAME} characters")
    return Row(it.prompt, it.category or "", scores, str(it.id))
