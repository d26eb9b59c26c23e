"""Who holds how much of a prompt, where they are many: masks of replicas with how much they hold, and names only for who asks.

What an agent's prompt begins with is held by all replicas of a large pool, at two or three lengths. To name them all would cost
more than all else that is done for a request.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice

_FIRST = 16  # that are named at once: as many as are looked at where they are many


class Holders(Mapping[str, int]):
    """Tokens by name, those with most first; of those alike the first is another one with each `turn`.

    `levels`: (those, how many blocks), the most first; no replica is in two of them. `worth`: of so many blocks, in tokens.
    `place`: the bit of a name, 0 where it has none.
    """

    __slots__ = ("_first", "_levels", "_names", "_place", "_turn", "_worth")

    def __init__(
        self,
        levels: Sequence[tuple[int, float]],
        worth: Callable[[float], int],
        names: Mapping[int, str],
        place: Callable[[str], int],
        turn: int = 0,
    ) -> None:
        self._levels = levels
        self._worth = worth
        self._names = names
        self._place = place
        self._turn = turn
        self._first = {name: worth(blocks) for name, blocks in islice(self._walk(), _FIRST)}

    def __getitem__(self, name: str) -> int:
        held = self.get(name, -1)
        if held < 0:
            raise KeyError(name)
        return held

    def get(self, name: str, default: int = 0) -> int:  # type: ignore[override]  # of a number only
        held = self._first.get(name)
        if held is not None:
            return held
        bit = self._place(name)
        for mask, blocks in self._levels:
            if mask & bit:
                return self._worth(blocks)
        return default

    def __len__(self) -> int:
        return sum([mask.bit_count() for mask, _ in self._levels])

    def __bool__(self) -> bool:
        return bool(self._levels)

    def __iter__(self) -> Iterator[str]:
        yield from self._first
        for name, _ in islice(self._walk(), len(self._first), None):
            yield name

    def counts(self) -> list[tuple[int, int]]:
        """(so many tokens, how many hold just that)"""
        counts = Counter[int]()
        for mask, blocks in self._levels:
            counts[self._worth(blocks)] += mask.bit_count()
        return list(counts.items())

    def _walk(self) -> Iterator[tuple[str, float]]:
        names = self._names
        for mask, blocks in self._levels:
            first = self._turn % mask.bit_length()
            low = mask & ((1 << first) - 1)
            for part in (mask ^ low, low):
                for bit in bits(part):
                    name = names.get(bit)
                    if name is not None:  # it has left since
                        yield name, blocks


def bits(mask: int) -> Iterator[int]:
    while mask:
        bit = mask & -mask
        yield bit
        mask ^= bit
