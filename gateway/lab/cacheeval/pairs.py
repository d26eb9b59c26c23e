"""What is evaluated: pairs of requests, and whether the answer of one may serve the other."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class BadData(ValueError):  # noqa: N818 - it names what is wrong
    """A file that cannot be read as labelled pairs. The message begins with the file, and the line where there is one."""


class Kind(StrEnum):
    PAIRS = "pairs"
    CONVERSATIONS = "conversations"
    LOOKUPS = "lookups"
    """`a` of every pair is stored, then each `b` is looked up among all of them. Every pair is a right one."""


@dataclass(frozen=True, slots=True)
class Pair:
    a: str  # the stored question; of a conversation its last user message
    b: str  # the asked one
    same: bool  # whether one answer serves both
    category: str = ""
    barred: str = ""  # why the cache may not compare them at all: `history` where what was said before differs


@dataclass(frozen=True, slots=True)
class Source:
    """A file as it was read, so that figures can be traced to their data."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Data:
    name: str
    kind: Kind
    sources: tuple[Source, ...]
    pairs: tuple[Pair, ...]
    left_out: int = 0  # ambiguous by their own label, or marked as not a sentence

    @property
    def wanted(self) -> int:
        return sum(pair.same for pair in self.pairs)

    @property
    def traps(self) -> int:
        return len(self.pairs) - self.wanted
