"""How long a replica is left alone that will not take requests just now: a value that does no I/O and owns no clock.

A refusal is no failure: an engine that is full, or a proxy with a limit of its own, is well. But it is said within a millisecond,
so who refuses is always the emptiest, and would be asked first by every kind of balance.

Rules:
1. The first refusal holds it off for a tenth of a second, each further one in a row for twice as long, up to one second. It is at
   least four times as long as the refusal took, so that one that refuses slowly is asked no more than its share, and at least as
   long as the replica itself asked for. Five seconds are the most: who is full now may be free then.
2. It heals by itself: every hold has an end, and the first answer of an attempt that began since ends it, and the row. So does,
   without ending the row, the end of a request that ran there: who was full has a place again. Else engines that refuse what they
   have no seats for would stand with empty ones.
3. Attempts that began before the hold say nothing: a burst that was sent there at once is one refusal, not many.
4. Refusals ten seconds apart are no row.
5. One that finds fault with requests is held off while another one is asked for its opinion, a tenth of a second at most, and as
   one that refuses once that is known to be its own fault.
"""

from __future__ import annotations

_NEVER = float("-inf")
_FIRST = 0.1
_LONGEST = 1.0  # of what nobody asked for
_AT_MOST = 5.0
_TIMES = 4
_APART = 10.0
_TOP_LEVEL = 16


class Hold:
    """`until`: it is left alone before that. `row`: refusals in a row; `refusals`: in all.

    `faulted`: requests in a row that it found fault with. `wrong`: others served such. `told`: when the log said so.
    """

    __slots__ = ("_since", "faulted", "refusals", "row", "told", "until", "wrong")

    def __init__(self) -> None:
        self._since = _NEVER
        self.until = _NEVER
        self.row = self.refusals = self.faulted = 0
        self.wrong = False
        self.told = _NEVER

    def refuse(self, now: float, began: float, after: float = 0.0) -> bool:
        """An attempt that began then was refused. `after`: seconds that it named to come back. True when it is held off anew."""
        if began < self._since:
            return False
        self.row = 1 if now - max(self.until, self._since) > _APART else self.row + 1
        usual = min(_LONGEST, _FIRST * 2 ** min(self.row - 1, _TOP_LEVEL))
        self._since = now
        self.until = now + min(_AT_MOST, max(usual, after, _TIMES * (now - began)))
        return True

    def lift(self) -> None:
        """A place there has come free: it may be asked again, and the row goes on if it refuses."""
        self.until = _NEVER

    def doubt(self, now: float, began: float) -> bool:
        """What an attempt found that began then is asked of another one. True when it is held off for that."""
        if began < self._since:
            return False
        self._since, self.until, self.row = now, max(self.until, now + _FIRST), max(self.row, 1)
        return True

    def clear(self) -> None:
        """What it found fault with, another one does too."""
        self.faulted = self.row = 0
        self.until, self.wrong = _NEVER, False

    def serve(self) -> None:
        """It found no fault with a request."""
        self.faulted, self.wrong = 0, False

    def accept(self, began: float) -> bool:
        """An attempt that began then was answered. True when that ends a row."""
        if not self.row or began < self._since:
            return False
        self.row, self.until = 0, _NEVER
        return True
