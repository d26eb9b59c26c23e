"""The one where a first byte may be expected soonest: its average time to the first byte × (in flight + 1).

An average is worth less the older it is. So each is drawn towards the average of the pool, in which fresh ones
weigh most, and the pull grows with its age:

- A replica that was never measured is taken for an average one. It gets its share, not the whole herd.
- A replica that was bad long ago is tried again, and one that was good long ago is not believed for ever.
- Estimates within a tenth of the best are a tie, decided at random: without that, a difference of nothing
  would send all the traffic of a quiet pool to one replica, and the other would never be measured again.

A replica that hangs gives no samples at all; its requests in flight speak against it, and each that fails counts
as slow (see Replica.observe_failure).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from math import exp, log
from operator import mul

from backends.replica import Replica
from backends.types import Ask

_HALF_LIFE = 7.0  # seconds; after a minute an old measurement is all but forgotten
_DECAY = -log(2) / _HALF_LIFE
_TIE = 1.1
_FLOOR = 0.001  # seconds, added to all: where latencies are next to nothing, requests in flight must still count


class LeastLatency:
    __slots__ = ("_clock", "_random")

    wants_waiting = False
    wants_first_byte = True
    wants_pending = False
    wants_prefix = False
    wants_crowd = False
    wants_order = False

    def __init__(self, rng: random.Random, clock: Callable[[], float]) -> None:
        self._random = rng.random
        self._clock = clock

    def choose(self, replicas: Sequence[Replica], ask: Ask) -> Replica:  # noqa: ARG002  the verb of every policy
        costs = self._costs(replicas)
        limit = min(costs) * _TIE
        ties = [replica for replica, cost in zip(replicas, costs, strict=True) if cost <= limit]
        return ties[0] if len(ties) == 1 else ties[int(self._random() * len(ties))]

    def _costs(self, replicas: Sequence[Replica]) -> list[float]:
        now = self._clock()
        latencies = [replica.latency for replica in replicas]
        weights = [exp(_DECAY * (now - replica.latency_at)) for replica in replicas]  # 0 for one never measured
        total = sum(weights)
        average = sum(map(mul, latencies, weights)) / (total or 1.0)
        base = average + _FLOOR
        return [
            (base + (latency - average) * weight) * (replica.inflight + replica.others_inflight + 1)
            for replica, latency, weight in zip(replicas, latencies, weights, strict=True)
        ]
