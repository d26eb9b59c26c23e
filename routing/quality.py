"""A scope that keeps so large a share of the dearest tier's quality, and sends up as few requests for that as it takes.

Quality is what the classifier expects: how likely the tier that was chosen is good enough. The cut is the highest for which the
window (the last WINDOW requests of which it told both chances) would keep what is aimed at, the most to gain first.

Rules
- Up go only requests that the dearest tier is more likely to do well, however much is owed.
- `owed` is the sum of (aimed at x large - given) over the rated requests. `reach` of it sends up all of those, -`reach` nobody.
  So of any n requests in a row what was given is never expected to be more than 3 x reach answers below what is aimed at; from
  the start, no more than reach + 1.
- Who cannot be rated goes where he would go without an aim, and changes nothing here: what nobody knows keeps nothing.
- A floor is as good as the chances are calibrated. On traffic unlike that which they were learned on it is a guess.
- Looking through the window costs some 50 µs, so it is done for each STEP-th request; and the cut moves only when BAND more or
  fewer of the window would go up for it.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections.abc import Iterable
from itertools import groupby
from operator import itemgetter
from typing import Self

from routing.aims import WINDOW, Aim, Amount, Cut, Draw, Sent, Standing, Told, correction, spread

REACH = 4.0
STEP = 16
BAND = 0.02
_FADE = 1 / 250
_ANY_GAIN = math.nextafter(0.5, 1.0)  # scores are (1 + large - small) / 2
_by_score = itemgetter(0)


class Quality:
    """`prior`: (small, large) of requests to begin with, at least one; they leave the window first."""

    __slots__ = (
        "_aim", "_cut", "_given", "_larges", "_owed", "_part", "_place", "_possible", "_reach", "_scores", "_sent", "_smalls",
        "_steps",
    )  # fmt: skip

    def __init__(self, aim: Aim, prior: Iterable[tuple[float, float]], reach: float = REACH) -> None:
        self._aim = aim
        self._scores, self._smalls, self._larges = array("d"), array("d"), array("d")
        self._place = self._steps = 0
        self._owed = self._given = self._possible = 0.0
        self._reach = reach
        self._sent = Sent()
        self._cut, self._part = math.inf, 0.0
        for small, large in spread(prior):
            self._take((1.0 + large - small) / 2.0, small, large)
        self._place = 0
        self._move()

    def renew(self, fresh: Self) -> None:
        self._scores, self._smalls, self._larges = fresh._scores[:], fresh._smalls[:], fresh._larges[:]
        self._place = fresh._place
        self._steps = STEP - 1
        if abs(self._owed) < self._reach:  # else all go up or nobody does, until it is paid back
            self._cut, self._part = fresh._cut, fresh._part

    def cut(self, draw: Draw) -> Cut:
        up = self._part >= 1.0 or (self._part > 0.0 and draw() < self._part)
        return Cut(self._cut if up else math.nextafter(self._cut, math.inf))

    def expect(self, told: Told) -> Amount:
        before = self._owed
        if told.score is not None and told.small is not None and told.large is not None:
            self._owe(self._aim.value * told.large - (told.large if told.up else told.small))
        return Amount(self._owed - before)

    def forgo(self, amount: Amount) -> None:
        self._owe(-amount.owed)

    def tell(self, told: Told, *, expected: bool = False) -> None:
        score, small, large = told.score, told.small, told.large
        self._sent.note(told.up)
        if score is None or small is None or large is None:
            return
        if not expected:
            self.expect(told)
        given = large if told.up else small
        self._given += (given - self._given) * _FADE
        self._possible += (large - self._possible) * _FADE
        if told.open:
            self._take(score, small, large)
        self._steps += 1
        if self._steps % STEP == 0 and abs(self._owed) < self._reach:
            self._move()

    def standing(self) -> Standing:
        kept = self._given / self._possible if self._possible else None
        return Standing(self._aim, self._cut, self._part, self._sent.share, len(self._sent), kept)

    def _owe(self, amount: float) -> None:
        self._owed = owed = min(max(self._owed + amount, -2.0 * self._reach), 2.0 * self._reach)
        if owed <= -self._reach:
            self._cut, self._part = math.inf, 0.0
        elif owed >= self._reach:
            self._cut, self._part = _ANY_GAIN, 1.0

    def _take(self, score: float, small: float, large: float) -> None:
        for ring, value in ((self._scores, score), (self._smalls, small), (self._larges, large)):
            if self._place == len(ring):
                ring.append(value)
            else:
                ring[self._place] = value
        self._place = (self._place + 1) % WINDOW

    def _move(self) -> None:
        """The highest cut from which on the gains of the window come to what is wanted; at the cut itself, of a part of them."""
        size = len(self._scores)
        left = self._aim.value * sum(self._larges) - sum(self._smalls) + correction(self._owed, self._reach) * size
        gains = [(score, large - small) for score, small, large in zip(self._scores, self._smalls, self._larges, strict=True)]
        gains.sort()
        cut, part, above = math.inf, 0.0, 0.0
        for score, equal in groupby(reversed(gains), _by_score):
            if left <= 0.0:
                break
            mass = [gain for _, gain in equal]
            gain = sum(mass)
            if gain <= 0.0:
                break
            cut, part = score, min(1.0, left / gain) if len(mass) > BAND * size else 1.0
            above += part * len(mass)
            left -= gain
        held = size - bisect_left(gains, (self._cut, -math.inf))
        if abs(above - held) > BAND * size or (cut == math.inf) != (self._cut == math.inf):
            self._cut, self._part = cut, part
