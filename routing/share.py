"""A scope that may send so large a share of its requests to the tiers above the cheapest.

The cut is a quantile of the last WINDOW scores. A quantile alone is late by its window when the traffic changes, and wrong for
ever where scores come in masses or forced requests take their part; so what was sent is counted, and what is `owed` moves it.

Rules
- With reach x share^(1/3) sent too many nobody goes up, with reach x (1 - share)^(1/3) too few everybody does. So whatever the
  scores are, be they written by somebody who knows all of this: of any n requests in a row that nothing forced, share x n go up,
  give or take 2 + reach x (share^(1/3) + (1 - share)^(1/3)), which at REACH is less than 15: of 500, less than 3 in a hundred.
- A request that was forced up counts as one that went up: the share is one of what the dearer tiers are given. What is owed
  because of them is forgiven SLACK requests beyond those bounds: a flood of them does not starve what comes after it for long.
  With a shorter reach, as each of n processes has, the slack is its n-th part, so all of them forgive as soon as one.
- The turns of a tool loop go where its ask went, ten or a hundred of them at once. In the same account each loop would shut
  the asks out, or let all of them up, and who goes up would be left to chance. So they have an account of their own (`lent`),
  which moves the share that the asks are kept to: gently, by the cube of `lent / LOOPS`. What asks have for it more or less than
  the share pays it back. So the share holds over all requests, give or take LOOPS x share^(1/3), and the turns of what is under
  way by then.
- DEBT turns too many are remembered. Nobody makes them who was not sent up while there was room.
- Many requests of one score are parted by a draw of the request's own: so many of them go up as the share has room for.
- The cut moves when the share that it stands for is BAND off, not for each request.
- Who cannot be rated has a score as well, about the one from which a request would go up without an aim: above nearly all that is
  called easy, below nearly all that is called hard. Among these it is a little higher where the classifier leans to the dear tier
  (`placed`). Without one (None) he goes where he would go without an aim.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable
from typing import Self

from routing.aims import WINDOW, Aim, Amount, Cut, Draw, Sent, Standing, Told, correction, placed, spread

REACH = 8.0
SLACK = 16.0
LOOPS = 200.0
DEBT = 4096.0
_MOST_LEFT = 0.25  # of LOOPS: turns too few that are made good for
BAND = 0.02


class Share:
    """`prior`: scores to begin with, at least one; they leave the window first. `unrated`: the score of who has none."""

    __slots__ = (
        "_above", "_aim", "_asks", "_at", "_cut", "_least", "_lent", "_loops", "_most", "_ordered", "_over", "_owed", "_part",
        "_place", "_reach", "_ring",
        "_sent", "_unrated",
    )  # fmt: skip

    def __init__(self, aim: Aim, prior: Iterable[float], unrated: float | None, reach: float = REACH) -> None:
        self._aim = aim
        self._unrated = unrated
        self._ring = array("d", spread(prior))
        self._ordered = array("d", sorted(self._ring))
        self._place = 0
        self._owed = self._lent = 0.0
        self._asks = aim.value
        self._reach = reach
        self._loops = LOOPS * reach / REACH
        slack = SLACK * (reach / REACH) ** 2
        self._least = -reach * math.cbrt(aim.value) - slack
        self._most = reach * math.cbrt(1.0 - aim.value) + slack
        self._sent = Sent()
        self._move(aim.value)

    def renew(self, fresh: Self) -> None:
        self._unrated = fresh._unrated
        self._ring, self._ordered, self._place = fresh._ring[:], fresh._ordered[:], fresh._place
        self._move(self._asks + correction(self._owed, self._reach))

    def cut(self, draw: Draw) -> Cut:
        part = self._part
        at = self._cut if part >= 1.0 or (part > 0.0 and draw() < part) else self._over
        return Cut(at, self._unrated)

    def expect(self, told: Told) -> Amount:
        owed, lent = self._owed, self._lent
        self._count(told)
        self._steer()
        return Amount(self._owed - owed, self._lent - lent)

    def forgo(self, amount: Amount) -> None:
        self._owe(-amount.owed)
        if amount.lent:
            self._lend(-amount.lent)
        self._steer()

    def tell(self, told: Told, *, expected: bool = False) -> None:
        if not expected:
            self._count(told)
        self._sent.note(told.up)
        if told.open:
            if told.score is not None:
                self._take(told.score)
            elif self._unrated is not None:
                self._take(placed(self._unrated, told.small, told.large))
        self._steer()

    def _count(self, told: Told) -> None:
        share = self._aim.value
        if told.looped:
            self._lend(share - told.up)
            return
        asks = self._asks
        self._owe(asks - told.up)
        if asks != share:
            self._lend(share - asks)

    def _owe(self, amount: float) -> None:
        self._owed = min(max(self._owed + amount, self._least), self._most)

    def _lend(self, amount: float) -> None:
        """What is lent moves the share of the asks that may go up."""
        self._lent = min(max(self._lent + amount, -DEBT), _MOST_LEFT * self._loops)
        self._asks = min(max(self._aim.value + correction(self._lent, self._loops), 0.0), 1.0)

    def _steer(self) -> None:
        wanted = self._asks + correction(self._owed, self._reach)
        now = (self._above + self._part * self._at) / len(self._ring)
        if abs(now - wanted) > BAND or wanted <= 0.0 < now or wanted >= 1.0 > now:
            self._move(wanted)

    def standing(self) -> Standing:
        return Standing(self._aim, self._cut, self._part, self._sent.share, len(self._sent))

    def _take(self, score: float) -> None:
        """Into the window, in the place of the oldest once that is full; of the prior from the first on."""
        ring, place, cut = self._ring, self._place, self._cut
        if place == len(ring):
            ring.append(score)
        else:
            old = ring[place]
            ring[place] = score
            del self._ordered[bisect_left(self._ordered, old)]
            self._above -= old > cut
            self._at -= old == cut
        insort(self._ordered, score)
        self._above += score > cut
        self._at += score == cut
        self._place = (place + 1) % WINDOW

    def _move(self, share: float) -> None:
        """The cut above which that share of the window is."""
        size = len(self._ring)
        if share <= 0.0 or share >= 1.0:
            self._cut = self._over = math.inf if share <= 0.0 else 0.0
            self._part = float(share > 0.0)
            self._at = self._ring.count(self._cut)
            self._above = 0 if share <= 0.0 else size - self._at
            return
        ordered, wanted = self._ordered, share * size
        cut = ordered[size - 1 - int(wanted)]
        above = size - bisect_right(ordered, cut)
        at = size - above - bisect_left(ordered, cut)
        part = (wanted - above) / at
        self._cut, self._over = cut, math.nextafter(cut, math.inf)
        self._above, self._at = above, at
        self._part = part if at > BAND * size else float(part >= 0.5)
