"""The vectors of kept questions that were met lately.

A question of a few words resembles a handful of kept ones. Where their vectors are at hand, comparing them takes some
microseconds, and nobody has to ask the store, which is another process or another machine.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from caches.embed.types import Vector

_BYTES = 2**24


@dataclass(frozen=True, slots=True)
class Near:
    """A kept question beside one that is asked."""

    id: str
    text: str = field(repr=False)
    cosine: float


class Vectors:
    """By the id of a kept question, which stands for its text. The least lately used go first; `most` in bytes."""

    def __init__(self, dimension: int, most: int = _BYTES) -> None:
        self._most = max(1, most // (4 * dimension))
        self._rows: OrderedDict[str, Vector] = OrderedDict()

    def __len__(self) -> int:
        return len(self._rows)

    def put(self, id: str, vector: Vector) -> None:  # noqa: A002 - the name of the field it is
        length = float(np.linalg.norm(vector))
        if length <= 0:
            return
        self._rows[id] = (vector / length).astype(np.float32, copy=False)
        self._rows.move_to_end(id)
        if len(self._rows) > self._most:
            self._rows.popitem(last=False)

    def cosines(self, ids: Sequence[str], vector: Vector) -> list[float]:
        """One each; none at all if one of them is not at hand. `vector` has a length of 1."""
        rows = [self._rows.get(each) for each in ids]
        found = [row for row in rows if row is not None]
        if not found or len(found) < len(rows):
            return []
        for each in ids:
            self._rows.move_to_end(each)
        cosines: list[float] = np.clip(np.stack(found) @ vector, -1.0, 1.0).tolist()
        return cosines
