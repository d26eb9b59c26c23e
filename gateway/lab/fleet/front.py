"""One gateway of a simulated fleet: the product's pool, replicas, leases and prefix index, and how it hears of other gateways."""

from __future__ import annotations

import random
from collections.abc import Coroutine, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

from backends.breaker import Breaker
from backends.lease import Lease
from backends.pool import Pool
from backends.replica import Replica
from backends.types import Ask, Outcome
from caches.chain import Chain
from caches.crowd import NO_CROWD, Crowd, NoCrowd
from caches.prefix import PrefixIndex
from gateway.between.heat import NO_HEAT, NoHeat
from gateway.lab.fleet.costs import Setting
from gateway.lab.fleet.engine import Engine
from gateway.lab.fleet.job import Job
from gateway.lab.fleet.policies import Policy
from gateway.lab.simulate.timeline import Timeline

T = TypeVar("T")


class Front:
    """What a request is thought to find cached, and so the work that it adds, is decided when it is sent, as in the product."""

    def __init__(self, timeline: Timeline, setting: Setting, engines: Mapping[str, Engine], policy: Policy, seed: int) -> None:
        self.timeline = timeline
        self.setting = setting
        self.engines = engines
        shape = setting.shape
        self.index = PrefixIndex(tokens=policy.room or int(shape.blocks * shape.block * setting.index))
        self.heat: NoHeat = NO_HEAT
        self.alone = False
        self.crowd: NoCrowd = NO_CROWD
        self.balance = policy.make(seed, self)
        if self.balance.wants_crowd:
            self.crowd = Crowd(timeline.clock)
        replicas = [_replica(name, number, setting.slots) for number, name in enumerate(engines)]
        self.pool = Pool("fleet", replicas, self.balance, clock=timeline.clock, rng=random.Random(seed))
        for replica in replicas:
            replica.up = True
        self._leases: dict[int, Lease] = {}

    def send(self, job: Job, tokens: int) -> str:
        """To the replica of that name. `tokens`: what its prompt is taken for."""
        chain = Chain(job.keys, job.prompt, self.setting.shape.block)
        wants = self.balance.wants_prefix
        cached = self.index.match(chain, tokens) if wants else {}
        session = job.session if self.setting.sessions else None
        prefix, crowd = job.keys if wants else (), self.crowd.along(chain, tokens)
        ask = Ask(session, tokens, cached=cached, prefix=prefix, stream=True, alone=self.alone, crowd=crowd)
        replica = self.pool.pick(ask)
        assert replica is not None
        lease = self.pool.lease(replica, None, ask)
        _at_once(lease.__aenter__())
        self._leases[job.number] = lease
        if wants:
            self.index.add(replica.name, chain, tokens)
            self.crowd.came(chain)
            if self.heat is not NO_HEAT:
                self.heat.placed(replica.name, chain.pack(), tokens)
        return replica.name

    def first_token(self, job: Job) -> None:
        self._leases[job.number].first_byte()

    def ended(self, job: Job) -> None:
        lease = self._leases.pop(job.number)
        lease.settle(Outcome.OK)
        _at_once(lease.__aexit__(None, None, None))

    def missed(self, name: str) -> None:
        self.index.drop(name)


class _Unreached:
    """A replica's way to its server; here nobody ever goes it."""

    origin = None

    def request(self, head: bytes, body: bytes, deadlines: object, *, new: bool = False) -> AbstractAsyncContextManager[Any]:
        raise NotImplementedError

    async def resolve(self) -> None: ...

    async def close(self) -> None: ...


def _replica(name: str, number: int, slots: int) -> Replica:
    return Replica(name, _Unreached(), breaker=Breaker(random.Random(number)), max_inflight=slots)


def _at_once(coroutine: Coroutine[Any, Any, T]) -> T:
    """Leases never wait."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        value: T = end.value
        return value
    raise RuntimeError("a lease waited")
