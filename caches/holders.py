"""Who holds how much of a prompt, where they are many: masks of replicas with how much they hold, and names only for who asks.

What an agent's prompt begins with is held by all replicas of a large pool, at two or three lengths. To name them all would cost
more than all else that is done for a request.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence


class Holders(Mapping[str, int]):
    """Tokens by name, those with most first; of those alike the first is another one with each `turn`.

    `levels`: (those, how many tokens), the most first; no replica is in two of them. `place`: the bit of a name, 0 where it has
    none.
    """

    __slots__ = ("_levels", "_names", "_place", "_turn")

    def __init__(
        self, levels: Sequence[tuple[int, int]], names: Mapping[int, str], place: Callable[[str], int], turn: int = 0
    ) -> None:
        self._levels = levels
        self._names = names
        self._place = place
        self._turn = turn

    def __getitem__(self, name: str) -> int:
        bit = self._place(name)
        for mask, tokens in self._levels:
            if mask & bit:
                return tokens
        raise KeyError(name)

    def get(self, name: str, default: int = 0) -> int:  # type: ignore[override]  # of a number only
        bit = self._place(name)
        for mask, tokens in self._levels:
            if mask & bit:
                return tokens
        return default

    def __len__(self) -> int:
        return sum(mask.bit_count() for mask, _ in self._levels)

    def __iter__(self) -> Iterator[str]:
        names = self._names
        for mask, _ in self._levels:
            first = self._turn % mask.bit_length()
            low = mask & ((1 << first) - 1)
            for part in (mask ^ low, low):
                for bit in bits(part):
                    name = names.get(bit)
                    if name is not None:  # it has left since
                        yield name

    def counts(self) -> list[tuple[int, int]]:
        """(so many tokens, how many hold just that)"""
        counts = Counter[int]()
        for mask, tokens in self._levels:
            counts[tokens] += mask.bit_count()
        return list(counts.items())


def bits(mask: int) -> Iterator[int]:
    while mask:
        bit = mask & -mask
        yield bit
        mask ^= bit
