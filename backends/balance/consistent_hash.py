"""A session stays with its replica, by rendezvous hashing with bounded load (see `rendezvous`).

- The session is compared whole: ids that share a beginning have nothing in common.
- A replica with more than 1.25 × the mean + 1 in flight is passed over, for this request alone: the next one of
  the same session asks again, and other sessions are not touched. One hot session cannot drown its replica.
- Without a session: the fewest requests in flight.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from backends.balance.least_requests import LeastRequests
from backends.balance.rendezvous import Rendezvous, point_of
from backends.replica import Replica
from backends.types import Ask

_LOAD = 1.25


class ConsistentHash:
    __slots__ = ("_ranks", "_unbound")

    wants_waiting = False
    wants_first_byte = False
    wants_pending = False
    wants_prefix = False
    wants_crowd = False
    wants_order = False

    def __init__(self, rng: random.Random) -> None:
        self._ranks = Rendezvous()
        self._unbound = LeastRequests(rng)

    def choose(self, replicas: Sequence[Replica], ask: Ask) -> Replica:
        if ask.session is None:
            return self._unbound.choose(replicas, ask)
        return bounded_home(self._ranks, replicas, point_of(ask.session))


def bounded_home(ranks: Rendezvous, replicas: Sequence[Replica], point: int) -> Replica:
    """The home of the point among the replicas that are not over the bound; there is one, since the least loaded is not."""
    counts = [replica.inflight + replica.others_inflight for replica in replicas]
    most = _LOAD * sum(counts) / len(replicas) + 1
    within = [replica for replica, count in zip(replicas, counts, strict=True) if count <= most]
    return ranks.home(within, point) or replicas[0]
