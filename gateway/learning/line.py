"""One line of the journal: what a request looked like, where it went, and what shows how good each tier was for it.

A label is from 0 to 1: how good the answer of that tier was. `small` is the cheapest tier that may answer, `large` the dearest;
None: not known. Of two answers that were compared the large tier's is what the small one's is held against.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec

Side = Literal["small", "large"]
Source = Literal["agreement", "judge", "feedback"]

LONGEST = 64 * 1024  # bytes; a longer line is none of ours


class Line(msgspec.Struct, omit_defaults=True):
    """`text`, or `grams` with `amounts`, as `routing.learning.keep` says. `told_*`: what the policy said of each tier."""

    at: float  # seconds since the epoch
    id: str  # the request's
    tenant: str
    answered: Side
    source: Source
    small: float | None = None
    large: float | None = None
    text: str | None = None
    grams: list[int] | None = None
    amounts: list[float] | None = None
    score: float | None = None
    told_small: float | None = None
    told_large: float | None = None
    policy: str = ""
    model: str = ""  # that answered
    other: str = ""  # that was asked as well


encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Line).decode


def decode(data: bytes) -> Line | None:
    """None: it is no such line, torn, or says what cannot be."""
    if len(data) > LONGEST:
        return None
    try:
        line = _decode(data)
    except (msgspec.MsgspecError, RecursionError):
        return None
    labels = [value for value in (line.small, line.large) if value is not None]
    whole = line.amounts is None if line.grams is None else line.amounts is not None
    good = labels and all(0.0 <= value <= 1.0 for value in labels) and (line.text is None) != (line.grams is None) and whole
    return line if good and 0.0 <= line.at < 1e11 else None


def read(path: Path) -> Iterator[Line | None]:
    """The lines of a file; None for each that is none. OSError where it cannot be read."""
    with path.open("rb") as file:
        while data := file.readline(LONGEST + 1):
            if data.endswith(b"\n"):
                yield decode(data[:-1])
                continue
            yield None  # torn, or too long: the rest of it is passed over
            while data and not data.endswith(b"\n"):
                data = file.readline(LONGEST)


def files(path: Path) -> list[Path]:
    """A file itself; of a folder those in it that a journal wrote, the oldest first: no pipe or device of such a name."""
    return sorted(one for one in path.glob("asks-*.jsonl") if one.is_file()) if path.is_dir() else [path]
