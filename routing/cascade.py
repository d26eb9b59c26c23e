"""Small first: whether that pays, learned from what came of it.

A cascade asks the cheapest tier, looks at the answer, and asks the dear tier where it does not stand up. That pays where small
answers mostly do: they answer more than their own cost, and what they agree on is mostly right. Where they seldom do it costs
more than asking the dear tier at once, and is wrong more often.

    on     every request is tried. Off as soon as some suffix of the last tries (16, 32, … 256) surely answered too few
    off    one request in `every` is tried. On as soon as some suffix of these surely answered enough

Enough is the larger of two shares:
- what pays: small tries cost `calls · price` each, so they must answer more than that share of the requests, and MARGIN more;
- what is good: where the small tier is right on a share `floor` of the requests, two draws of it agree on at least floor² of them
  (each request a coin) and about `floor` (each request sure, one way or the other) when they are right. The line is between them.

Surely is Wilson's score interval (1927), one-sided. Nothing here is random, and a state is one number of 256 bits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

LENGTHS = (16, 32, 64, 128, 256)
MARGIN = 0.1
EVERY = 32
_FULL = (1 << LENGTHS[-1]) - 1
_TOO_FEW = 2.33  # standard deviations: 1 %
_ENOUGH = 1.64  # 5 %: a mistake costs no more than the next sixteen tries


@dataclass(frozen=True, slots=True)
class Worth:
    """`price`: of a small call, in those of the dear tier. `calls`: of a try. `floor`: how often small must be good enough."""

    price: float = 0.1
    calls: int = 2
    floor: float = 0.7

    @property
    def enough(self) -> float:
        """The share of the tries that must be answered by the small tier."""
        return min(1.0, max(self.calls * self.price + MARGIN, self.floor * (1.0 + self.floor) / 2))


class Switch:
    """Of one route. `on` is read, never set."""

    __slots__ = ("_every", "_history", "_long_off", "_short_on", "_since", "_tries", "on")

    def __init__(self, worth: Worth = Worth(), every: int = EVERY) -> None:
        self.on = True
        self._every = every
        self._history = 0  # a bit a try, the last one lowest: whether the small tier answered
        self._tries = 0
        self._since = 0  # requests that were not tried
        enough = worth.enough
        self._short_on = tuple((length, _most_below(length, enough)) for length in LENGTHS)
        self._long_off = tuple((length, _least_above(length, enough)) for length in LENGTHS)

    def tries(self) -> bool:
        """Whether the next request is asked of the small tier first. Call it once for each that might be."""
        if self.on:
            return True
        self._since += 1
        if self._since < self._every:
            return False
        self._since = 0
        return True

    def saw(self, *, escalated: bool) -> bool:
        """What came of a try; whether that changed the switch."""
        self._history = (self._history << 1 | (not escalated)) & _FULL
        self._tries = min(self._tries + 1, LENGTHS[-1])
        if self.on:
            changed = any(self._answered(length) <= most for length, most in self._short_on if length <= self._tries)
        else:
            changed = any(self._answered(length) >= least for length, least in self._long_off if length <= self._tries)
        if changed:
            self.on = not self.on
            self._history = self._tries = self._since = 0
        return changed

    def _answered(self, length: int) -> int:
        return (self._history & ((1 << length) - 1)).bit_count()


def _most_below(length: int, share: float) -> int:
    """The most of so many tries that are surely below a share; -1: not even none."""
    return max((count for count in range(length + 1) if _bounds(count, length, _TOO_FEW)[1] < share), default=-1)


def _least_above(length: int, share: float) -> int:
    """The fewest of so many tries that are surely at a share; one more than there are: not even all."""
    return min((count for count in range(length + 1) if _bounds(count, length, _ENOUGH)[0] >= share), default=length + 1)


def _bounds(count: int, of: int, z: float) -> tuple[float, float]:
    share, square = count / of, z * z / of
    middle = share + square / 2
    half = z * math.sqrt(share * (1 - share) / of + square / (4 * of))
    return (middle - half) / (1 + square), (middle + half) / (1 + square)
