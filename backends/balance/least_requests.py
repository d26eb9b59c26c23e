"""The one with the fewest requests in flight; ties at random, so that several gateways do not all pick the first."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence

from backends.order import May, Order
from backends.replica import Replica
from backends.types import Ask


class LeastRequests:
    __slots__ = ("_random",)

    wants_waiting = False
    wants_first_byte = False
    wants_pending = False
    wants_prefix = False
    wants_crowd = False
    wants_order = True

    def __init__(self, rng: random.Random) -> None:
        self._random = rng.random

    def choose(self, replicas: Sequence[Replica], ask: Ask) -> Replica:  # noqa: ARG002  the verb of every policy
        counts = [replica.inflight + replica.others_inflight for replica in replicas]
        fewest = min(counts)
        ties = [replica for replica, count in zip(replicas, counts, strict=True) if count == fewest]
        return ties[0] if len(ties) == 1 else ties[int(self._random() * len(ties))]

    def load(self, replica: Replica) -> float:
        return replica.inflight + replica.others_inflight

    def pick(self, order: Order, ask: Ask, passed: Collection[Replica], may: May) -> Replica | None:  # noqa: ARG002  as `choose`
        heads = order.heads(may, self._random)
        return min(heads, key=self.load) if heads else None
