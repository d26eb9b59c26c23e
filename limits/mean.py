"""A mean that forgets."""

from __future__ import annotations

_HALF = 200  # values
KEEP = 0.5 ** (1 / _HALF)


class Mean:
    """Of values, each of which counts half after 200 more: `total / weight`, which are 0 before the first.

    A value is added as `total * KEEP + value` and `weight * KEEP + 1`. The mean that leans on something, as if there had been
    `much` values of it, is `(total + much * it) / (weight + much)`. Who uses it does both in place.
    """

    __slots__ = ("total", "weight")

    def __init__(self) -> None:
        self.total = self.weight = 0.0
