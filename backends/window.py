"""A count of what happened in the last seconds: constant memory and constant time, whatever the rate.

One bin a second, in a ring. The bin of the second that is running counts too, so a window of n bins
covers between n - 1 and n seconds; who must never count too little takes one bin more.
"""

from __future__ import annotations


class Window:
    __slots__ = ("_bins", "_second", "_size", "_total")

    def __init__(self, seconds: int) -> None:
        self._size = seconds
        self._bins = [0] * seconds
        self._second = 0
        self._total = 0

    def add(self, now: float) -> None:
        second = int(now)
        if second > self._second:  # a clock that went back counts into the newest bin
            self._turn(second)
        self._bins[self._second % self._size] += 1
        self._total += 1

    def count(self, now: float) -> int:
        second = int(now)
        if second > self._second:
            self._turn(second)
        return self._total

    def clear(self) -> None:
        self._bins = [0] * self._size
        self._total = 0

    def _turn(self, second: int) -> None:
        for passed in range(max(self._second, second - self._size) + 1, second + 1):
            index = passed % self._size
            self._total -= self._bins[index]
            self._bins[index] = 0
        self._second = second
