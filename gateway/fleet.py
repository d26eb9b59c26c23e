"""Replicas that join and leave while the gateway runs: the one way in and out for the config, discovery and the operator.

Rules of this file
1. A name is there once in its model, and a replica belongs to the source that brought it. What discovery lists only
   discovery removes: taken out by hand it would be back at the next look. Anybody may drain it, and that holds until it
   is undone, whatever discovery says.
2. Leaving: no new requests; then, when the last one has ended or after `drain_timeout`, out of the pool, with its series in
   /metrics; then, when the last one has ended, its sockets are closed. So no stream is ever broken by a replica's leaving.
3. Joining at run time: health check, warm-up, slow start. The replicas of the config, and those that discovery knows at the
   process's start, skip the last two: a restart of the gateway does not make a fleet cold.
4. What joined by hand is forgotten at a restart, and what left by hand is back: the config is the truth.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Literal

from backends.replica import Replica
from backends.warmup import WarmUp
from gateway.config.kinds import Label, Unfit, Url
from gateway.config.problems import quote
from gateway.config.schema import Replica as Spec
from gateway.config.secret import Hidden
from gateway.dispatch.types import Lane
from gateway.errors import ApiError

MAX_REPLICAS = 1024  # of one model
CONFIG, ADMIN = "config", "admin"

_log = logging.getLogger("tiergate.fleet")

State = Literal["up", "down", "draining", "leaving"]


@dataclass(frozen=True, slots=True)
class Terms:
    """How replicas join and leave. Times in seconds."""

    drain_timeout: float
    slow_start: float = 0.0
    warm_ups: Mapping[str, WarmUp] = field(default_factory=dict)  # by model


@dataclass(frozen=True, slots=True)
class MemberStatus:
    """One replica, for the operator."""

    name: str
    url: str
    source: str
    state: State
    ready: bool
    inflight: int
    slots: int
    slots_reason: str


@dataclass(slots=True, eq=False)
class Member:
    """A replica with where it came from. `held`: the operator drained it. `farewell`: it is leaving."""

    replica: Replica
    spec: Spec
    source: str
    held: bool = False
    farewell: asyncio.Task[None] | None = None

    @property
    def leaving(self) -> bool:
        return self.farewell is not None


def spec_of(name: str, url: str, api_key: str = "") -> Spec:
    """A replica as somebody outside describes it. Raises ApiError 400."""
    try:
        return Spec(name=Label().read(name), url=Url().read(url), api_key=Hidden().read(api_key))
    except Unfit as unfit:
        why = str(unfit).replace("{}", quote(name))
        raise ApiError(400, "invalid_request", f"This replica is not understood: {why}.") from None


class Fleet:
    """The members of every model that has `specs` (a provider has none). Refusals are ApiErrors.

    `make` builds the replica of a spec, for a model.
    """

    def __init__(
        self,
        lanes: Mapping[str, Lane],
        specs: Mapping[str, tuple[Spec, ...]],
        make: Callable[[str, Spec], Replica],
        terms: Terms,
    ) -> None:
        self._lanes = lanes
        self._make = make
        self._terms = terms
        self._goodbyes: set[asyncio.Task[None]] = set()
        self._members: dict[str, dict[str, Member]] = {
            model: {
                replica.name: Member(replica, spec, CONFIG)
                for replica, spec in zip(lanes[model].pool.replicas, listed, strict=True)
            }
            for model, listed in specs.items()
        }

    def add(self, model: str, spec: Spec, *, source: str = ADMIN, at_start: bool = False) -> Member:
        """A replica joins. 404 without such a model, 409 when the name is taken or the model has too many."""
        members = self._of(model)
        if spec.name in members:
            raise ApiError(409, "replica_exists", f"A replica {spec.name} of this model is there, or is still leaving.")
        if len(members) >= MAX_REPLICAS:
            raise ApiError(409, "too_many_replicas", f"A model has at most {MAX_REPLICAS} replicas.")
        member = Member(self._make(model, spec), spec, source)
        warm_up = None if at_start else self._terms.warm_ups.get(model)
        slow_start = 0.0 if at_start else self._terms.slow_start
        self._lanes[model].pool.add(member.replica, warm_up=warm_up, slow_start=slow_start, cold=not at_start)
        members[spec.name] = member
        _log.info("%s/%s joins (%s)", model, spec.name, source)
        return member

    def drain(self, model: str, name: str) -> None:
        """No new requests, until `undrain`. 404 when it is not there."""
        member = self._member(model, name)
        member.held = True
        self._lanes[model].pool.drain(member.replica)

    def undrain(self, model: str, name: str) -> None:
        """Requests again; one that is leaving goes on leaving."""
        member = self._member(model, name)
        member.held = False
        if not member.leaving:
            self._lanes[model].pool.undrain(member.replica)

    def remove(self, model: str, name: str) -> None:
        """By the operator: it begins to leave. 404 when it is not there, 409 when discovery lists it."""
        member = self._member(model, name)
        if member.source not in (CONFIG, ADMIN):
            message = f"This replica is listed by {member.source}: take it off that list, or drain it."
            raise ApiError(409, "replica_discovered", message)
        self.leave(model, name)

    def leave(self, model: str, name: str) -> None:
        """It begins to leave (rule 2). Nothing happens when it does already."""
        member = self._member(model, name)
        if member.farewell is None:
            _log.info("%s/%s leaves: %d requests are running", model, name, member.replica.inflight)
            self._lanes[model].pool.drain(member.replica)
            member.farewell = self._task(self._farewell(model, member), f"leaving {model}/{name}")

    def stay(self, model: str, name: str, *, source: str) -> None:
        """One that was leaving is back: it serves on as if nothing had been, and belongs to `source`."""
        member = self._member(model, name)
        if member.farewell is not None:
            member.farewell.cancel()
            member.farewell = None
            member.source = source
            _log.info("%s/%s stays (%s)", model, name, source)
            if not member.held:
                self._lanes[model].pool.undrain(member.replica)

    def dismiss(self, model: str, name: str) -> None:
        """Out of the pool now, so that its name is free; its requests run to their end."""
        member = self._member(model, name)
        if member.farewell is not None:
            member.farewell.cancel()
        self._take_out(model, member)
        self._task(self._close(model, member.replica), f"closing {model}/{name}")

    def has(self, model: str) -> bool:
        """Whether its replicas are this fleet's; a provider's is not."""
        return model in self._members

    def members(self, model: str) -> Mapping[str, Member]:
        """Those of a model, by name, those that leave included. 404 without such a model."""
        return self._of(model)

    def status(self, model: str) -> list[MemberStatus]:
        """What the operator sees. 404 without such a model."""
        return [_status(member) for member in self._of(model).values()]

    async def idle(self) -> None:
        """Returns when nobody is leaving."""
        while self._goodbyes:
            await asyncio.wait(self._goodbyes)

    async def close(self) -> None:
        """The end of the process: close everything."""
        for task in self._goodbyes:
            task.cancel()
        await asyncio.gather(*self._goodbyes, return_exceptions=True)
        providers = (lane.pool.replicas for model, lane in self._lanes.items() if model not in self._members)
        for replica in (*self._replicas(), *chain.from_iterable(providers)):
            await replica.client.close()

    def _replicas(self) -> Iterator[Replica]:
        for members in self._members.values():
            for member in members.values():
                yield member.replica

    async def _farewell(self, model: str, member: Member) -> None:
        pool, replica = self._lanes[model].pool, member.replica
        try:
            async with asyncio.timeout(self._terms.drain_timeout):
                await pool.drained(replica)
        except TimeoutError:
            _log.warning("%s/%s: drain timeout, %d requests run on", model, replica.name, replica.inflight)
        self._take_out(model, member)
        await self._close(model, replica)

    def _take_out(self, model: str, member: Member) -> None:
        del self._members[model][member.replica.name]
        self._lanes[model].pool.remove(member.replica)
        _log.info("%s/%s has left", model, member.replica.name)

    async def _close(self, model: str, replica: Replica) -> None:
        try:
            await self._lanes[model].pool.drained(replica)
        finally:
            await replica.client.close()

    def _task(self, work: Coroutine[None, None, None], name: str) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._goodbyes.add(task)
        task.add_done_callback(self._goodbyes.discard)
        return task

    def _of(self, model: str) -> dict[str, Member]:
        if model not in self._members:
            raise ApiError(404, "model_not_found", "The config has no model of this name that has replicas.")
        return self._members[model]

    def _member(self, model: str, name: str) -> Member:
        member = self._of(model).get(name)
        if member is None:
            raise ApiError(404, "replica_not_found", "This model has no such replica.")
        return member


def _status(member: Member) -> MemberStatus:
    replica = member.replica
    state: State = "leaving" if member.leaving else "draining" if replica.draining else "up" if replica.up else "down"
    return MemberStatus(
        replica.name,
        member.spec.url,
        member.source,
        state,
        replica.ready,
        replica.inflight,
        replica.slots,
        replica.governor.reason,
    )
