"""From what a source says to who is in the pool.

Rules of this file
1. A look that failed changes nothing: the last known replicas stay, and the health checks say which of them are there. That
   holds for an empty answer of the DNS too, so that no hiccup of a resolver empties a fleet. Each reason is logged once,
   and then that it is over; never each look.
2. A replica leaves after it was missing from `patience` looks in a row that succeeded; it is drained first. One that comes
   back before it has left stays as it was. While the list names others and none of them serves yet, those that serve are
   not let go: a fleet that is replaced as a whole has no gap.
3. Each look compares the whole list with the whole pool, so that what was missed once is made good by the next one.
4. An address that changed under a name is another replica: the old one leaves at once, its requests run to their end.
5. A name, a URL or an address of events that another source (the config, another list) brought is passed over for as long as it
   is there.
6. What the first look that succeeds finds was there before us: see `gateway.fleet`, rule 3.
"""

from __future__ import annotations

import asyncio
import logging
import random

from gateway.config.schema import Replica as Spec
from gateway.discovery.types import Found, LookFailed, Source
from gateway.errors import ApiError
from gateway.fleet import Fleet

_log = logging.getLogger("tiergate.discovery")
_MAX_TTL = 300.0  # a longer one is not waited out: it would outlive the machines it speaks of
_JITTER = 0.1
_AT_A_TIME = 8
_MAX_REASONS = 16  # kept of one outage: a file may be wrong in ever new ways


class Watch:
    """One source of one model's replicas."""

    def __init__(self, model: str, source: Source, fleet: Fleet, *, every: float, rng: random.Random | None = None) -> None:
        self._model = model
        self._source = source
        self._fleet = fleet
        self._every = every
        self._rng = rng or random.Random()
        self._missed: dict[str, int] = {}
        self._passed_over: set[str] = set()
        self._ttl = 0.0
        self._began = False  # a look has succeeded
        self._faults: set[str] = set()  # of the outage that there is

    async def run(self) -> None:
        """For ever."""
        while True:
            await self.look()
            await asyncio.sleep(self.pause() * self._rng.uniform(1 - _JITTER, 1 + _JITTER))

    def pause(self) -> float:
        """Seconds until the next look is due: the config's, or the answer's own time to live where that is longer."""
        return max(self._every, min(self._ttl, _MAX_TTL))

    async def look(self) -> None:
        """Ask once, and follow the answer."""
        self._ttl = 0.0
        try:
            await self._follow(await self._source.look())
        except LookFailed as failed:
            self._failed(str(failed))
        except Exception as error:  # noqa: BLE001 - the edge of a look: a fault in one source must not end the watch
            self._failed(f"the look failed ({type(error).__name__})")
        else:
            if self._faults:
                _log.info("%s: %s is back", self._model, self._source.label)
            self._faults.clear()

    def _failed(self, why: str) -> None:
        if why in self._faults:
            return
        if len(self._faults) >= _MAX_REASONS:
            self._faults.clear()
        self._faults.add(why)
        _log.warning("%s: %s: %s; the known replicas stay", self._model, self._source.label, why)

    async def _follow(self, found: Found) -> None:
        """A long list is followed a few at a time: each change looks at the whole pool, and streams must not wait for all."""
        self._ttl = found.ttl
        wanted = {spec.name: spec for spec in found.replicas}
        await self._miss(wanted)
        members = self._fleet.members(self._model)
        taken = {
            place: name
            for name, member in members.items()
            if not member.leaving and (member.source != self._source.label or wanted.get(name) == member.spec)
            for place in _places(member.spec)
        }
        passed_over: set[str] = set()
        for number, (name, spec) in enumerate(wanted.items(), start=1):
            if not self._want(spec, taken):
                passed_over.add(name)
            if number % _AT_A_TIME == 0:
                await asyncio.sleep(0)
        for name in sorted(passed_over - self._passed_over):
            _log.warning("%s: %s of %s is there from elsewhere, or there is no room", self._model, name, self._source.label)
        self._passed_over = passed_over
        self._began = True

    async def _miss(self, wanted: dict[str, Spec]) -> None:
        """Count what is no longer listed, and let go of what was missed for long enough."""
        mine = [name for name, member in self._fleet.members(self._model).items() if member.source == self._source.label]
        missed = {name: self._missed.get(name, 0) + 1 for name in mine if name not in wanted}
        self._missed = missed
        gone = {name for name, times in missed.items() if times >= self._source.patience}
        for number, name in enumerate(self._dispensable(gone) if wanted else gone, start=1):
            if name in self._fleet.members(self._model):
                self._fleet.leave(self._model, name)
            if number % _AT_A_TIME == 0:
                await asyncio.sleep(0)

    def _dispensable(self, gone: set[str]) -> set[str]:
        """Those of `gone` that may leave now: all, or, while nobody else serves, those that do not serve either."""
        members = self._fleet.members(self._model)
        if any(member.replica.ready for name, member in members.items() if name not in gone):
            return gone
        return {name for name in gone if not members[name].replica.ready}

    def _want(self, spec: Spec, taken: dict[str, str]) -> bool:
        """The replica is to be there. False when another source's is in its place."""
        member = self._fleet.members(self._model).get(spec.name)
        if any(taken.get(place, spec.name) != spec.name for place in _places(spec)):
            return False
        if member is not None and member.source != self._source.label and not member.leaving:
            return False
        if member is not None and member.spec != spec:
            self._fleet.dismiss(self._model, spec.name)
        elif member is not None:
            self._fleet.stay(self._model, spec.name, source=self._source.label)
            return True
        return self._join(spec, taken)

    def _join(self, spec: Spec, taken: dict[str, str]) -> bool:
        try:
            self._fleet.add(self._model, spec, source=self._source.label, at_start=not self._began)
        except ApiError:  # too many: the bound is the whole model's
            return False
        taken.update(dict.fromkeys(_places(spec), spec.name))
        return True


def _places(spec: Spec) -> list[str]:
    """What no two replicas of a model have in common."""
    return [place for place in (spec.url, spec.events, spec.replay) if place is not None]
