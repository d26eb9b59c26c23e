"""What came of a stream of questions, question by question."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from enum import StrEnum


class End(StrEnum):
    EXACT = "exact"
    SEMANTIC = "semantic"
    WRONG = "wrong"  # served, and not with an answer of its own cluster
    MISS = "miss"


@dataclass(slots=True)
class Course:
    policy: str
    clusters: dict[str, int]  # of every text
    ends: list[End] = field(default_factory=list)
    embedded: int = 0  # questions that waited for a vector
    verified: int = 0  # questions that waited for the judge
    shadowed: int = 0  # answers that were verified afterwards
    learned_at: int | None = None  # the question that spent the last of those
    wrong: Counter[tuple[str, str]] = field(default_factory=Counter)  # (stored, asked), and how often

    def same(self, asked: str, stored: str) -> bool:
        return self.clusters[asked] == self.clusters[stored]

    def served(self, asked: str, stored: str, end: End) -> None:
        right = self.same(asked, stored)
        self.ends.append(end if right else End.WRONG)
        if not right:
            self.wrong[stored, asked] += 1

    def missed(self) -> None:
        self.ends.append(End.MISS)

    def count(self, begin: int = 0) -> Counter[End]:
        return Counter(self.ends[begin:])

    def labelled(self, apart: Collection[tuple[int, int]]) -> int:
        """Of the wrong answers those whose clusters a label tells apart; of the others nobody has said that they differ."""
        numbers = {pair: sorted(self.clusters[text] for text in pair) for pair in self.wrong}
        return sum(times for pair, times in self.wrong.items() if tuple(numbers[pair]) in apart)

    @property
    def wrong_texts(self) -> int:
        return len({asked for _, asked in self.wrong})
