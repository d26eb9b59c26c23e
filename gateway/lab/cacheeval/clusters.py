"""Questions that one answer serves, by following right pairs: if a = b and b = c, then a = c.

Pairs labelled as traps inside one cluster contradict that; they are counted, because they say how far labels can be trusted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gateway.lab.cacheeval.pairs import Pair


class Union:
    """Disjoint sets of texts."""

    def __init__(self) -> None:
        self._parent: dict[str, str] = {}

    def find(self, text: str) -> str:
        parent = self._parent
        root = parent.setdefault(text, text)
        while parent[root] != root:
            root = parent[root]
        while parent[text] != root:
            parent[text], text = root, parent[text]
        return root

    def join(self, a: str, b: str) -> None:
        one, other = self.find(a), self.find(b)
        if one != other:
            self._parent[other] = one

    def groups(self) -> list[list[str]]:
        """In the order in which their first texts came."""
        found: dict[str, list[str]] = {}
        for text in list(self._parent):
            found.setdefault(self.find(text), []).append(text)
        return list(found.values())


@dataclass(frozen=True, slots=True)
class Clusters:
    members: tuple[tuple[str, ...], ...]  # of two and more texts
    conflicts: int  # traps whose both texts are in one cluster
    alone: int  # texts without an equivalent, left out
    apart: frozenset[tuple[int, int]]  # clusters that a trap between them tells apart, the lower one first


def clusters_of(pairs: Iterable[Pair]) -> Clusters:
    pairs = list(pairs)
    union = Union()
    for pair in pairs:
        union.find(pair.a), union.find(pair.b)
        if pair.same:
            union.join(pair.a, pair.b)
    groups = union.groups()
    conflicts = sum(not pair.same and union.find(pair.a) == union.find(pair.b) for pair in pairs)
    together = tuple(tuple(group) for group in groups if len(group) > 1)
    number = {text: place for place, group in enumerate(together) for text in group}
    traps = [(number.get(pair.a), number.get(pair.b)) for pair in pairs if not pair.same]
    known = [(min(a, b), max(a, b)) for a, b in traps if a is not None and b is not None]
    apart = frozenset((a, b) for a, b in known if a != b)
    return Clusters(together, conflicts, len(groups) - len(together), apart)
