"""What somebody was served, in tokens by weight: the Virtual Token Counter of Sheng et al., OSDI 24.

Who has the least is served next. A charge is made when work begins, from what it is thought to cost, and corrected when the
cost is known. Who comes back after a while is lifted to what the others have by then, so being away earns no credit.
"""

from __future__ import annotations


class Account:
    """`lifts` counts how often it was lifted; `running` how many charges await their correction."""

    __slots__ = ("_slack", "counter", "lifts", "running")

    def __init__(self, counter: float = 0) -> None:
        self.counter = counter
        self.lifts = 0
        self.running = 0
        self._slack: float = 0  # of the last lift: what it took beforehand of charges that turn out too small

    def lift(self, floor: float) -> None:
        """Back again: what it had left over is gone."""
        if self.counter < floor:
            self._slack = floor - self.counter
            self.counter = floor
            self.lifts += 1

    def charge(self, amount: float) -> None:
        self.counter += amount
        self.running += 1

    def correct(self, by: float, lifts: int) -> None:
        """A charge, made when it had been lifted `lifts` times, should have been greater by so much, or less.

        Had that been known, a lift since then would have been shorter or longer, and ended at the same height.
        """
        self.running -= 1
        if lifts < self.lifts:
            taken = min(max(by, 0), self._slack)
            self._slack -= taken
            by = max(by, 0) - taken
        self.counter += by
