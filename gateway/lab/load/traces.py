"""Public traces of LLM traffic, as CSV or JSON lines, also gzipped.

    form                    time                     prompt          output          more
    Azure LLM inference     TIMESTAMP, a date        ContextTokens   GeneratedTokens
    BurstGPT                Timestamp, seconds       Request tokens  Response tokens
    Mooncake                timestamp, milliseconds  input_length    output_length   hash_ids: blocks of 512 prompt tokens
    your own                time, seconds            prompt_tokens   output_tokens

Names are compared without case, spaces and underscores; `_TIMES`, `_PROMPTS` and `_OUTPUTS` list what is understood. A time is a
number or a date; numbers are seconds, but milliseconds where the form is Mooncake's; `unit` overrules both. A length of 0,
which is a failure in BurstGPT, is sent as 1: the request did arrive. Rows need not be in order.
"""

from __future__ import annotations

import csv
import gzip
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any

from gateway.lab.load.arrivals import Arrival

UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6}
MAX_ROWS = 2_000_000
MAX_LINE = 1 << 20
MAX_TOKENS = 2_000_000
MAX_BLOCKS = 8_192
BLOCK = 512  # prompt tokens of one of Mooncake's blocks

_TIMES = ("timestamp", "time", "arrivaltime", "arrivedat", "arrival")
_PROMPTS = ("inputlength", "contexttokens", "requesttokens", "prompttokens", "inputtokens", "numprefilltokens")
_OUTPUTS = ("outputlength", "generatedtokens", "responsetokens", "outputtokens", "completiontokens", "numdecodetokens")
_BLOCKS = ("hashids",)


class TraceError(ValueError):
    """The file is not a trace; the message names the line."""


def read(path: Path, *, limit: int | None = None, unit: str | None = None) -> list[Arrival]:
    """The requests of a trace in the order of their times. Raises TraceError, OSError."""
    count = MAX_ROWS if limit is None else min(limit, MAX_ROWS)
    with _opened(path) as file:
        try:
            rows = [_arrival(row, number, unit) for number, row in islice(_rows(file), count)]
        except (UnicodeDecodeError, EOFError, gzip.BadGzipFile, csv.Error) as error:
            raise TraceError(f"{path.name} is not text of a trace: {error}") from None
    if not rows:
        raise TraceError(f"{path.name} holds no requests")
    rows.sort(key=lambda row: row.at)
    return rows


def spread(rows: Sequence[Arrival], seconds: float, rng: random.Random) -> list[Arrival]:
    """Each request up to `seconds` later, at random: for traces whose clock ticked coarsely (Mooncake's: 3 s)."""
    return sorted((row._replace(at=row.at + rng.uniform(0, seconds)) for row in rows), key=lambda row: row.at)


def _opened(path: Path) -> IO[str]:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def _lines(file: IO[str]) -> Iterator[str]:
    number = 0
    while line := file.readline(MAX_LINE):
        number += 1
        if len(line) == MAX_LINE:
            raise TraceError(f"line {number} is longer than {MAX_LINE:,} characters")
        yield line


def _rows(file: IO[str]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Number of the line and its fields, by their plain names."""
    lines = ((number, line) for number, line in enumerate(_lines(file), 1) if line.strip())
    begin, first = next(lines, (1, ""))
    if first.lstrip().startswith("{"):
        for number, line in chain([(begin, first)], lines):
            yield number, _object(line, number)
        return
    names = [_plain(name) for name in _cells(first)]
    for number, line in lines:
        yield number, dict(zip(names, _cells(line), strict=False))


def _cells(line: str) -> list[str]:
    """No field of a trace goes over several lines."""
    return next(csv.reader([line]), [])


def _object(line: str, number: int) -> Mapping[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        raise TraceError(f"line {number} is not JSON") from None
    if not isinstance(value, dict):
        raise TraceError(f"line {number} is not a JSON object")
    return {_plain(name): field for name, field in value.items()}


def _plain(name: str) -> str:
    return name.strip().lower().replace(" ", "").replace("_", "")


def _arrival(row: Mapping[str, Any], number: int, unit: str | None) -> Arrival:
    mooncake = "inputlength" in row
    at = _time(_field(row, _TIMES), number, UNITS[unit or ("ms" if mooncake else "s")])
    prompt, output = (_length(_field(row, names), number) for names in (_PROMPTS, _OUTPUTS))
    return Arrival(at, prompt, output, _blocks(_field(row, _BLOCKS), number))


def _field(row: Mapping[str, Any], names: Sequence[str]) -> Any:
    return next((row[name] for name in names if name in row), None)


def _time(value: Any, number: int, scale: float) -> float:
    if value is None:
        raise TraceError(f"line {number} has no time: one of the columns {', '.join(_TIMES)} is needed")
    try:
        seconds = float(value) * scale
    except (TypeError, ValueError):
        return _date(value, number)
    if not abs(seconds) < 1e12:
        raise TraceError(f"line {number}: {str(value)[:40]!r} is not a time")
    return seconds


def _date(value: Any, number: int) -> float:
    try:
        date = datetime.fromisoformat(str(value).strip())
    except ValueError:
        raise TraceError(f"line {number}: {str(value)[:40]!r} is not a time") from None
    return (date if date.tzinfo is not None else date.replace(tzinfo=UTC)).timestamp()


def _length(value: Any, number: int) -> int | None:
    if value is None or value == "":
        return None
    try:
        length = int(float(value))
    except (TypeError, ValueError, OverflowError):
        length = -1
    if not 0 <= length <= MAX_TOKENS:
        raise TraceError(f"line {number}: {str(value)[:40]!r} is not a number of tokens")
    return max(1, length)


def _blocks(value: Any, number: int) -> tuple[int, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or len(value) > MAX_BLOCKS or not all(type(block) is int for block in value):
        raise TraceError(f"line {number}: hash_ids must be a list of numbers")
    return tuple(value)
