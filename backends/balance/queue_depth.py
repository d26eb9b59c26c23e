"""The one with the fewest requests in flight and waiting.

Our own count decides: it is exact for what we sent, and it moves by one at the instant of every choice, so no
two choices in a row herd on a gauge that has not moved yet. What the server says of its own queue is advice:

    cost = in flight + waiting there − what we got back since it was scraped (never below in flight)

- It only adds. A queue there means that the server is saturated, or that others send to it too.
- Answers that came back since the scrape have drained that queue, so they are taken off it.
- It adds at most the replica's own number of slots: a broken gauge makes it look full, no more.
- Older than ten seconds, it is ignored.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from backends.replica import Replica
from backends.types import Ask

FRESH_SECONDS = 10.0


class QueueDepth:
    __slots__ = ("_clock", "_random")

    wants_waiting = True
    wants_first_byte = False
    wants_pending = False
    wants_prefix = False
    wants_crowd = False
    wants_order = False

    def __init__(self, rng: random.Random, clock: Callable[[], float]) -> None:
        self._random = rng.random
        self._clock = clock

    def choose(self, replicas: Sequence[Replica], ask: Ask) -> Replica:  # noqa: ARG002  the verb of every policy
        oldest = self._clock() - FRESH_SECONDS
        costs = [replica.inflight + _advice(replica, oldest) if replica.waiting else replica.inflight for replica in replicas]
        least = min(costs)
        ties = [replica for replica, cost in zip(replicas, costs, strict=True) if cost == least]
        return ties[0] if len(ties) == 1 else ties[int(self._random() * len(ties))]


def _advice(replica: Replica, oldest: float) -> float:
    if replica.waiting_at < oldest:
        return 0.0
    advice = min(replica.waiting, replica.max_inflight)
    drained = replica.waiting_inflight - replica.inflight
    return max(0.0, advice - drained) if drained > 0 else advice
