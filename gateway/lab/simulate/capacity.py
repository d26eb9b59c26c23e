"""Slots that are set, and slots that find themselves, before an engine that queues and preempts inside; in virtual time.

The product's own scheduler, pool, leases and governors; the engine is `engine.py`'s.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

from backends.adaptive import Adaptive
from backends.balance import make_balance
from backends.breaker import Breaker
from backends.client import Client, Origin
from backends.governor import Fixed, Governor
from backends.lease import Lease
from backends.pool import Pool
from backends.replica import Replica
from backends.types import Ask
from gateway.lab.simulate.door import at_once
from gateway.lab.simulate.engine import Build, Engine
from gateway.lab.simulate.timeline import Timeline
from gateway.lab.simulate.workload import Job, Pace, arrive, synthetic
from limits.entry import Entry
from limits.places import ANYWHERE, Places
from limits.slots import Scheduler
from limits.waiting import Order, Priority, QueueBounds, SlotAsk, Spent

_FOREVER = 1e12
_ENDLESS = QueueBounds(10**9, 10**15, 10**15, (_FOREVER, _FOREVER, _FOREVER))
_NOWHERE = Origin.parse("http://127.0.0.1:1/v1")
_BREAKER = partial(Breaker, random.Random(1))
ENGINES = (
    Build("few seats", seats=24, kv_tokens=400_000, base=0.02, per_seat=0.0004),
    Build("little memory", seats=256, kv_tokens=60_000, base=0.02, per_seat=0.0003),
    Build("large", seats=256, kv_tokens=1_000_000, base=0.015, per_seat=0.00008, per_token=0.00002, budget=8192),
)
RATES = {"few seats": 6.0, "little memory": 14.0, "large": 60.0}  # requests a second: twice of what each can serve
LOOK = 2.0  # seconds between two looks at the engine's metrics
LATE = 2.0  # seconds from dispatch to first token that are still good


@dataclass(frozen=True, slots=True)
class Setting:
    """`slots` None: adaptive, from `floor` to `ceiling`. `told`: the engine's metrics can be read."""

    name: str
    slots: int | None = None
    told: bool = True
    floor: int = 4
    ceiling: int = 256

    @property
    def most(self) -> int:
        return self.ceiling if self.slots is None else self.slots

    def governor(self) -> Governor:
        return Fixed() if self.slots is not None else Adaptive(self.floor, self.ceiling, fresh=3.5 * LOOK)


@dataclass(slots=True)
class Tally:
    """What happened from `since` on: sums. `good` are tokens of answers whose first came in time."""

    since: float
    seconds: float = 0.0
    answers: int = 0
    tokens: int = 0
    good: int = 0
    first: float = 0.0
    engine_waited: float = 0.0
    preemptions: int = 0


def overload(build: Build, seconds: float, seed: int) -> list[Job]:
    """Twice of what this engine can serve, of one tenant."""
    rng, rate = random.Random(f"{seed} {build.name}"), RATES[build.name]
    return arrive(list(islice(synthetic(rng, ("all",)), int(rate * seconds))), rate, Pace("", 1.0), rng)


def halved(build: Build) -> Build:
    """Half the seats and the memory."""
    return replace(build, seats=build.seats // 2, kv_tokens=build.kv_tokens // 2)


class _Guest:
    """A request in the scheduler's line."""

    __slots__ = ("_begin", "_told", "timeline")

    def __init__(self, timeline: Timeline, begin: Callable[[], None]) -> None:
        self.timeline = timeline
        self._begin = begin
        self._told = False

    def done(self) -> bool:
        return self._told

    def set_result(self, _result: None, /) -> None:
        self._told = True
        self.timeline.at(self.timeline.now, self._begin)

    def get_loop(self) -> Timeline:
        return self.timeline


class Front:
    """One gateway before one or more engines. `slots` and `waiting` are (time, how many) at each look."""

    def __init__(self, setting: Setting, builds: Sequence[Build], jobs: Sequence[Job], until: float, warm: float = 0.0) -> None:
        self.timeline = Timeline()
        self.engines = [Engine(build, self.timeline) for build in builds]
        self.tally = Tally(warm)
        self.slots: list[tuple[float, int]] = []
        self.waiting: list[tuple[float, int]] = []
        self._setting = setting
        self._jobs = jobs
        self._until = until
        clock = self.timeline.clock
        replicas = [
            Replica(f"r{number}", Client(_NOWHERE), breaker=_BREAKER(), max_inflight=setting.most, governor=setting.governor())
            for number in range(len(builds))
        ]
        self.pool = Pool("m", replicas, make_balance("least_requests", seed=1, clock=clock), clock=clock)
        self._engine_of = dict(zip(replicas, self.engines, strict=True))
        counted = setting.slots is None
        self.scheduler = Scheduler(_ENDLESS, 0, clock, Order(0.03), places=Places() if counted else ANYWHERE)
        self.pool.on_capacity(self.scheduler.set_capacity)
        if counted:
            self.pool.count(self.scheduler)
        for replica in replicas:
            replica.up = True

    def run(self) -> Tally:
        timeline = self.timeline
        timeline.at(LOOK, self._look)
        timeline.at(self.tally.since, self._warm)
        if self._jobs:
            timeline.at(self._jobs[0].at, partial(self._come, 0))
        timeline.run(self._until)
        tally = self.tally
        tally.seconds = self._until - tally.since
        tally.engine_waited = sum(engine.waited for engine in self.engines) - tally.engine_waited
        tally.preemptions = sum(engine.preemptions for engine in self.engines) - tally.preemptions
        return tally

    def _warm(self) -> None:
        self.tally.engine_waited = sum(engine.waited for engine in self.engines)
        self.tally.preemptions = sum(engine.preemptions for engine in self.engines)

    def _look(self) -> None:
        now = self.timeline.now
        for replica, engine in self._engine_of.items():
            if self._setting.told:
                replica.governor.engine(engine.view(), replica, now)
        self.waiting.append((now, sum(int(engine.view().waiting) for engine in self.engines)))
        self.pool.refresh()
        self.slots.append((now, self.pool.capacity()))
        self.timeline.at(now + LOOK, self._look)

    def _come(self, number: int) -> None:
        if number + 1 < len(self._jobs):
            self.timeline.at(self._jobs[number + 1].at, partial(self._come, number + 1))
        scheduler, length = self.scheduler, self._jobs[number].length
        ask = SlotAsk(Priority.STANDARD, "all", 1, 1, _FOREVER, prompt=length.prompt, form=length.form, most=length.most)
        ask.output = scheduler.predictor.predict(ask)
        if scheduler.admits(ask):
            self._begin(number, scheduler.take(ask))
            return
        cell: list[Entry] = []
        cell.append(scheduler.join(ask, _Guest(self.timeline, lambda: self._begin(number, cell[0]))))

    def _begin(self, number: int, entry: Entry) -> None:
        ask, length = entry.ask, self._jobs[number].length
        balance_ask = Ask(None, ask.prompt, ask.prompt + ask.output, stream=True)
        replica = self.pool.pick(balance_ask)
        assert replica is not None, "a replica is up"
        self.scheduler.places.placed(entry)
        lease = self.pool.lease(replica, ask=balance_ask)
        at_once(lease.__aenter__())
        began, firsts = self.timeline.now, [0.0]

        def first() -> None:
            firsts[0] = self.timeline.now - began
            lease.first_byte()

        over = partial(self._end, number, entry, lease, firsts)
        self._engine_of[replica].submit(length.prompt, length.output, first, over)

    def _end(self, number: int, entry: Entry, lease: Lease, firsts: list[float]) -> None:
        length, tally = self._jobs[number].length, self.tally
        at_once(lease.__aexit__(None, None, None))
        self.scheduler.settle(entry, Spent(length.prompt, length.output, whole=True))
        self.scheduler.release()
        if self.timeline.now >= tally.since:
            tally.answers += 1
            tally.tokens += length.output
            tally.first += firsts[0]
            tally.good += length.output if firsts[0] <= LATE else 0
