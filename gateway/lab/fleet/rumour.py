"""How the gateways of a simulated fleet hear of each other: the product's own desks and messages, in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from gateway.between.desk import Desk
from gateway.between.words import Seal
from gateway.lab.fleet.front import Front
from gateway.lab.simulate.timeline import Timeline

_CHECKS = 2.0  # seconds; the default of `health.interval`


class Rumour:
    """Each gateway looks twice in `tell` seconds what there is to say, and what it says is heard half of that later."""

    def __init__(self, timeline: Timeline, fronts: Sequence[Front], tell: float, busy: Callable[[], bool]) -> None:
        """`busy`: whether there is anything left to serve."""
        seal = Seal(b"simulated")
        self._timeline = timeline
        self._half = tell / 2
        self._busy = busy
        self._fronts = fronts
        self.desks = [
            Desk(seal, number.to_bytes(8), [(front.pool, front if front.balance.wants_prefix else None)])
            for number, front in enumerate(fronts)
        ]

    def glimpses(self) -> None:
        """Nobody says anything; each gateway reads what the engines tell of themselves."""
        for number, (desk, front) in enumerate(zip(self.desks, self._fronts, strict=True)):
            self._timeline.at(self._timeline.now + _CHECKS * number / len(self.desks), partial(self._look, desk, front))

    def _look(self, desk: Desk, front: Front) -> None:
        now = self._timeline.now
        desk.expire(now)
        for replica in front.pool.replicas:
            engine = front.engines[replica.name]
            desk.glimpse(replica, engine.running, len(engine.waiting), now)
        if self._busy():
            self._timeline.at(now + _CHECKS, partial(self._look, desk, front))

    def begin(self) -> None:
        for number, desk in enumerate(self.desks):  # not all at one instant
            self._timeline.at(self._timeline.now + self._half * number / len(self.desks), partial(self._turn, desk))

    def _turn(self, desk: Desk) -> None:
        now = self._timeline.now
        desk.expire(now)
        message = desk.news(now)
        if message is not None:
            self._timeline.at(now + self._half, lambda: self._arrive(message))
        if self._busy():
            self._timeline.at(now + self._half, lambda: self._turn(desk))

    def _arrive(self, message: bytes) -> None:
        for desk in self.desks:
            desk.heard(message, self._timeline.now)
