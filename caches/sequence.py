"""One engine's batches of events put in order: what is missing is asked for again, or given up.

    numbered 0, 1, 2, … from the engine's start; a publisher drops what a subscriber is too slow for

    came         the next one: taken. A later one: kept, and those between are asked for. An earlier one: the engine is another.
    replayed     an answer to that; engines keep their last 10,000 batches, and drop what does not fit on the way here, too.
    replay_over  what was dropped is asked for once more. What else has not come by now is lost: what was known of the cache is
                 dropped, and what is there goes on from nothing.

A batch that comes twice, because it was also replayed, is told from one of an engine that was started anew by when it was made.
And once a connection had broken, the last batch that was taken is asked for again: only who still has it is the same engine.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from caches.kvevents import Event, Garbage, read_batch
from caches.precise import PreciseIndex

MOST_EARLY = 1024
"""Batches that may wait for those before them."""


@dataclass(slots=True)
class Heard:
    """Counts."""

    batches: int = 0
    gaps: int = 0
    replayed: int = 0
    dropped: int = 0
    restarts: int = 0
    garbage: int = 0


class Sequence:
    """`ask`: for a replay from that number on; None where the engine does not replay. `replay_over` follows in any case."""

    def __init__(self, name: str, index: PreciseIndex, heard: Heard, ask: Callable[[int], None] | None) -> None:
        self._name = name
        self._index = index
        self._heard = heard
        self._ask = ask
        self._next = 0
        self._last = -1  # number of the last one that came by itself
        self._when = 0.0  # when the last one that was taken was made
        self._early: dict[int, bytes] = {}
        self._asking = False
        self._checking = False  # whether it is still the same engine
        self._moved = self._jumped = False  # the replay under way: it has begun; something was left out of it
        self.live = False
        """All that the engine has said until a moment ago is known."""

    def begin(self) -> None:
        """Its events may come from now on, or do so again."""
        if self._ask is not None:
            self._checking = self._next > 0
            self._replay(max(0, self._next - 1))
        elif self._next:
            self.forget()

    def silent(self) -> None:
        """They do not come any more."""
        self.live = False

    def forget(self) -> None:
        """What is known is wrong. All that can be had is asked for anew."""
        self._index.drop(self._name)
        self._next, self._last, self._when, self.live = 0, -1, 0.0, False
        self._early.clear()
        self._checking = False
        self._replay(0)

    def doubt(self) -> None:
        """What is known is wrong, and would be again: only what comes from now on counts."""
        self._index.begin(self._name, whole=False)

    def came(self, number: int, payload: bytes) -> None:
        if number <= self._last or (number < self._next and _made(payload) > self._when):
            self._another()
        self._last = number
        if number < self._next:
            return
        if number == self._next:
            self._take(payload)
            self._catch_up()
            return
        self._early[number] = payload
        if not self._asking:
            self._heard.gaps += self.live
            self._replay(self._next)
        self.live = False
        if (self._ask is None or len(self._early) > MOST_EARLY) and self._early:
            self._give_up()

    def replayed(self, number: int, payload: bytes) -> None:
        if self._checking:
            self._checking = False
            if number == self._next - 1 and _made(payload) != self._when:
                self._another()
                return
            if number >= self._next:
                self._lose(number)
            self._moved = True
        if number < self._next or not self._asking:
            return
        if number > self._next:
            if self._moved:
                self._jumped = True
                return
            self._lose(number)
        self._moved = True
        self._heard.replayed += 1
        self._take(payload)
        self._catch_up()

    @property
    def behind(self) -> bool:
        """There is more that could be taken. Nothing else is to be told before."""
        return self._next in self._early

    def catch_up(self) -> None:
        """Take one of them."""
        early = self._early
        if self._next in early:
            self._take(early.pop(self._next))
        self.live = not early and not self._asking

    def replay_over(self, *, complete: bool) -> None:
        """Else it took too long."""
        if not self._asking:
            return
        self._asking = False
        if self._checking:
            self._another()
        elif self._jumped or (self._moved and not complete):
            self._replay(self._next)
        elif self._early:
            self._give_up()
        else:
            if complete and not self._next:  # it has said nothing since it was started
                self._index.begin(self._name, whole=True)
            self.live = complete or self._next > 0

    # -- the inside

    def _replay(self, number: int) -> None:
        if self._ask is not None:
            self._asking, self._moved, self._jumped = True, False, False
            self._ask(number)

    def _another(self) -> None:
        """Engine."""
        self._heard.restarts += 1
        self.forget()

    def _give_up(self) -> None:
        self._asking = False
        self._lose(min(self._early))
        self._catch_up()

    def _lose(self, number: int) -> None:
        """Nobody knows what was said before that one."""
        self._heard.dropped += self._next > 0
        self._index.begin(self._name, whole=False)
        self._next = number

    def _catch_up(self) -> None:
        early = self._early
        for number in [number for number in early if number < self._next]:
            del early[number]
        self.catch_up()

    def _take(self, payload: bytes) -> None:
        if self._next == 0 and not self._index.whole(self._name):
            self._index.begin(self._name, whole=True)
        self._next += 1
        self._heard.batches += 1
        events: list[Event] = []
        try:
            self._when, events = read_batch(payload)
        except Garbage:
            self._heard.garbage += 1
            self._index.begin(self._name, whole=False)
        for event in events:
            self._index.heard(self._name, event)


def _made(payload: bytes) -> float:
    """When, by the engine's clock; of garbage, before all others."""
    try:
        return read_batch(payload)[0]
    except Garbage:
        return -math.inf
