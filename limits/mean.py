"""A mean that forgets."""

from __future__ import annotations

_HALF = 200  # values
_KEEP = 0.5 ** (1 / _HALF)


class Mean:
    """Of values, each of which counts half after 200 more: `total / weight`, which are 0 before the first."""

    __slots__ = ("total", "weight")

    def __init__(self) -> None:
        self.total = self.weight = 0.0

    def add(self, value: float) -> None:
        self.total = self.total * _KEEP + value
        self.weight = self.weight * _KEEP + 1

    def leaning(self, on: float, much: float) -> float:
        """The mean, if besides there were `much` values of `on`."""
        return (self.total + much * on) / (self.weight + much)
