"""Slots that serve requests in virtual time. In front of them is the product's scheduler, with its queue and its predictor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from gateway.lab.simulate.door import Door, Visit
from gateway.lab.simulate.policies import Policy
from gateway.lab.simulate.terms import Tenants, Terms
from gateway.lab.simulate.timeline import Timeline
from gateway.lab.simulate.workload import Job
from limits.entry import Entry
from limits.slots import Scheduler
from limits.waiting import QueueBounds, ReservedShare, SlotAsk, Spent

_ALIKE = Tenants()
_FOREVER = 1e12
_ENDLESS = QueueBounds(10**9, 10**15, 10**15, (_FOREVER, _FOREVER, _FOREVER))


@dataclass(frozen=True, slots=True)
class Speed:
    """How long a slot is busy with a request: `base` seconds, and so many for each token of its answer."""

    base: float = 0.3
    per_token: float = 0.02

    def seconds(self, output: int) -> float:
        return self.base + self.per_token * output


class _Guest:
    """One request in the scheduler's line; as much of a future as it needs."""

    __slots__ = ("_fleet", "_told", "entry", "number")

    def __init__(self, fleet: Fleet, number: int) -> None:
        self._fleet = fleet
        self.number = number
        self._told = False
        self.entry: Entry | None = None

    def done(self) -> bool:
        return self._told

    def set_result(self, _result: None, /) -> None:
        self._told = True
        assert self.entry is not None
        self._fleet.begin(self.number, self.entry)

    def get_loop(self) -> Timeline:
        return self._fleet.timeline


class Fleet:
    """Serves one workload by one policy. `begins` are times, in the order of the jobs; `begun` are jobs, in that of service.

    A job that the limiter refuses, by what its tenant may, never begins: NaN, and in `refused`.
    """

    def __init__(self, jobs: Sequence[Job], policy: Policy, slots: int, speed: Speed, tenants: Tenants = _ALIKE) -> None:
        self.timeline = Timeline()
        self.begins = [math.nan] * len(jobs)
        self.begun: list[int] = []
        self.most_inflight = 0
        self.predicted = [0] * len(jobs)
        self.refused: set[int] = set()
        self._door = Door(tenants, self.timeline.clock) if tenants.limited else None
        self._tenants = tenants
        self._visits: dict[int, Visit] = {}
        self._jobs = jobs
        self._policy = policy
        self._speed = speed
        shares = [ReservedShare(name, terms.reserved) for name, terms in tenants.given.items() if terms.reserved]
        reserved = shares if policy.tenants else ()
        self.scheduler = Scheduler(_ENDLESS, slots, self.timeline.clock, policy.order, reserved=reserved)

    @property
    def waits(self) -> list[float]:
        """Seconds that each job waited; NaN of those that were refused."""
        return [begin - job.at for job, begin in zip(self._jobs, self.begins, strict=True)]

    def run(self) -> None:
        """Until all are served."""
        if self._jobs:
            self.timeline.at(self._jobs[0].at, partial(self._come, 0))
        self.timeline.run()

    def _come(self, number: int) -> None:
        if number + 1 < len(self._jobs):
            self.timeline.at(self._jobs[number + 1].at, partial(self._come, number + 1))
        visit = None if self._door is None else self._door.enter(self._jobs[number].length)
        if visit is not None:
            self._visits[number] = visit
        elif self._door is not None:
            self.refused.add(number)
            return
        self._ask_for_a_slot(number)

    def _ask_for_a_slot(self, number: int) -> None:
        scheduler, ask = self.scheduler, self._ask(self._jobs[number])
        ask.output = self._jobs[number].length.output if self._policy.known else scheduler.predictor.predict(ask)
        self.predicted[number] = ask.output
        if not scheduler.full:
            self.begin(number, scheduler.take(ask))
        else:
            guest = _Guest(self, number)
            guest.entry = scheduler.join(ask, guest)

    def _ask(self, job: Job) -> SlotAsk:
        length = job.length
        tenant, terms = (length.tenant, self._tenants.of(length.tenant)) if self._policy.tenants else ("all", Terms())
        ask = SlotAsk(terms.priority, tenant, 1, 1, _FOREVER, terms.weight, prompt=length.prompt)
        ask.form, ask.most = length.form, length.most
        return ask

    def begin(self, number: int, entry: Entry) -> None:
        job, now = self._jobs[number], self.timeline.now
        self.begins[number] = now
        self.begun.append(number)
        self.most_inflight = max(self.most_inflight, self.scheduler.inflight)
        self.timeline.at(now + self._speed.seconds(job.length.output), partial(self._end, number, entry))

    def _end(self, number: int, entry: Entry) -> None:
        length = self._jobs[number].length
        self.scheduler.settle(entry, Spent(length.prompt, length.output, whole=True))
        if number in self._visits:
            self._visits.pop(number).leave(length)
        self.scheduler.release()
