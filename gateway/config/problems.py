"""What is wrong with a config, and where: one line each, all of them at once.

Rules: a message never holds a value that came from the environment or belongs in a secret; it is one line of
printable text whatever the file holds; and there are at most `MOST` of them.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

MOST = 200
_LONGEST = 80
_PLAIN_WORD = re.compile(r"[A-Za-z0-9_\-/:@+]+")

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """`str()` is the line that people see. `line` and `column` count from 1; 0 means the file as a whole."""

    line: int
    column: int
    path: str
    message: str
    file: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        return f"{place}: {self.path}: {self.message}" if self.path else f"{place}: {self.message}"


class ConfigError(Exception):
    """A config that cannot be used. `errors` are sorted by line; `str()` is one line for each."""

    def __init__(self, errors: list[Problem]) -> None:
        self.errors = sorted(errors)
        super().__init__("\n".join(str(problem) for problem in self.errors))


@dataclass(slots=True)
class Problems:
    """Collects those of one file; what comes after the first `MOST` is only counted, so that a hostile file stays cheap."""

    file: str
    found: list[Problem] = field(default_factory=list)
    more: int = 0

    def add(self, line: int, column: int, path: Path, message: str) -> None:
        if self.full:
            self.more += 1
        else:
            self.found.append(Problem(line, column, render_path(path), message, self.file))

    @property
    def full(self) -> bool:
        return len(self.found) >= MOST

    def raise_if_any(self) -> None:
        if self.more:
            last = max(self.found)
            self.found.append(Problem(last.line, last.column, "~", f"and {self.more} more errors", self.file))
        if self.found:
            raise ConfigError(self.found)


def render_path(path: Path) -> str:
    """`("models", 0, "url")` is `models[0].url`; a key that is not a plain word is quoted."""
    parts: list[str] = []
    for step in path:
        if isinstance(step, int):
            parts.append(f"[{step}]")
        else:
            word = step if _PLAIN_WORD.fullmatch(step) and len(step) <= _LONGEST else quote(step)
            parts.append(f".{word}" if parts else word)
    return "".join(parts)


def quote(text: str) -> str:
    """On one line, in printable ASCII, and not too long."""
    return json.dumps(text if len(text) <= _LONGEST else text[:_LONGEST] + "…")


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that `word` was probably meant to be."""
    if len(word) > _LONGEST:
        return None
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return close[0] if close else None


def suggest(word: str, known: Iterable[str]) -> str:
    """`; did you mean "x"?`, or nothing."""
    best = nearest(word, known)
    return f"; did you mean {quote(best)}?" if best is not None else ""
