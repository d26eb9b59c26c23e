"""A fleet in virtual time: the product's pool, replicas, leases and prefix index, and engines that are simulated behind them.

As in the product: what a request is thought to find cached, and so the work that it adds, is decided when it is sent; the
first token and the end are heard of at once; a replica has so many slots, and who finds none waits in one line.
"""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

from backends.breaker import Breaker
from backends.lease import Lease
from backends.pool import Pool
from backends.replica import Replica
from backends.types import Ask, Outcome
from caches.chain import Chain
from caches.prefix import PrefixIndex
from gateway.lab.fleet.costs import Setting
from gateway.lab.fleet.engine import Engine, Run
from gateway.lab.fleet.job import Job
from gateway.lab.fleet.policies import Policy
from gateway.lab.simulate.timeline import Timeline

T = TypeVar("T")


class Fleet:
    """Serves `jobs`, which are in the order of their times.

    Afterwards `first` and `last` are the times of each job's first and last token, NaN for those in `refused`, which fit into no
    engine; `cached` are tokens found there, `place` the numbers of replicas; `gaps` are (seconds, tokens that came so late).
    """

    def __init__(self, jobs: Sequence[Job], policy: Policy, setting: Setting, seed: int = 0) -> None:
        self.timeline = Timeline()
        self.jobs = jobs
        self.first = [math.nan] * len(jobs)
        self.last = [math.nan] * len(jobs)
        self.cached = [0] * len(jobs)
        self.place = [-1] * len(jobs)
        self.refused: list[int] = []
        self.gaps: list[tuple[float, int]] = []
        self._wrong = _errors(len(jobs), setting.error, random.Random(seed))
        self.setting = setting
        shape = setting.shape
        self.index = PrefixIndex(tokens=policy.room or int(shape.blocks * shape.block * setting.index))
        replicas = [_replica(number, setting.slots) for number in range(setting.replicas)]
        self._numbers = {replica.name: number for number, replica in enumerate(replicas)}
        self.engines = {name: Engine(self.timeline, setting.costs, shape, self, self._gap) for name in self._numbers}
        self.balance = policy.make(seed, self)
        self.pool = Pool("fleet", replicas, self.balance, clock=self.timeline.clock, rng=random.Random(seed))
        for replica in replicas:
            replica.up = True
        self._free = setting.replicas * setting.slots
        self._line: deque[Job] = deque()
        self._leases: dict[int, Lease] = {}

    def run(self) -> None:
        """Until all are served."""
        if self.jobs:
            self.timeline.at(self.jobs[0].at, lambda: self._come(0))
        self.timeline.run()

    def _come(self, number: int) -> None:
        if number + 1 < len(self.jobs):
            self.timeline.at(self.jobs[number + 1].at, lambda: self._come(number + 1))
        job = self.jobs[number]
        if not self._fits(job):
            self.refused.append(number)
        elif self._free:
            self._send(job)
        else:
            self._line.append(job)

    def _send(self, job: Job) -> None:
        tokens = max(1, round(job.prompt * self._wrong[job.number]))
        block = self.setting.shape.block
        chain = Chain(job.keys, job.prompt, block)
        wants = self.balance.wants_prefix
        cached = self.index.match(chain, tokens) if wants else {}
        session = job.session if self.setting.sessions else None
        ask = Ask(session, tokens, cached=cached, prefix=job.keys if wants else (), stream=True)
        replica = self.pool.pick(ask)
        assert replica is not None
        lease = self.pool.lease(replica, None, ask)
        _at_once(lease.__aenter__())
        self._leases[job.number] = lease
        self._free -= 1
        if wants:
            self.index.add(replica.name, chain, tokens)
        self.place[job.number] = self._numbers[replica.name]
        self.engines[replica.name].submit(job)

    def _fits(self, job: Job) -> bool:
        return all(engine.fits(job) for engine in self.engines.values())

    def first_token(self, run: Run) -> None:
        number = run.job.number
        self.first[number] = self.timeline.now
        self.cached[number] = run.cached
        self._leases[number].first_byte()

    def ended(self, run: Run) -> None:
        self.last[run.job.number] = self.timeline.now
        lease = self._leases.pop(run.job.number)
        lease.settle(Outcome.OK)
        _at_once(lease.__aexit__(None, None, None))
        self._free += 1
        if self._line:
            self._send(self._line.popleft())

    def _gap(self, seconds: float, tokens: int) -> None:
        self.gaps.append((seconds, tokens))


def _errors(count: int, sigma: float, rng: random.Random) -> list[float]:
    """What estimates are off by: a request's own, whoever chooses."""
    return [math.exp(rng.gauss(0.0, sigma)) if sigma else 1.0 for _ in range(count)]


class _Unreached:
    """A replica's way to its server; here nobody ever goes it."""

    origin = None

    def request(self, head: bytes, body: bytes, deadlines: object) -> AbstractAsyncContextManager[Any]:
        raise NotImplementedError

    async def resolve(self) -> None: ...

    async def close(self) -> None: ...


def _replica(number: int, slots: int) -> Replica:
    return Replica(f"r{number}", _Unreached(), breaker=Breaker(random.Random(number)), max_inflight=slots)


def _at_once(coroutine: Coroutine[Any, Any, T]) -> T:
    """Leases never wait."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        value: T = end.value
        return value
    raise RuntimeError("a lease waited")
