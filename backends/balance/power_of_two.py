"""Of two at random the one with the fewer requests in flight: nearly as even as asking all, and no herd on a stale count."""

from __future__ import annotations

import random
from collections.abc import Sequence

from backends.replica import Replica
from backends.types import Ask


class PowerOfTwo:
    __slots__ = ("_random",)

    wants_waiting = False
    wants_first_byte = False
    wants_pending = False
    wants_prefix = False
    wants_crowd = False
    wants_order = False

    def __init__(self, rng: random.Random) -> None:
        self._random = rng.random

    def choose(self, replicas: Sequence[Replica], ask: Ask) -> Replica:  # noqa: ARG002  the verb of every policy
        count = len(replicas)
        first = int(self._random() * count)
        if count == 1:
            return replicas[first]
        second = (first + 1 + int(self._random() * (count - 1))) % count
        one, other = replicas[first], replicas[second]
        return one if one.inflight + one.others_inflight <= other.inflight + other.others_inflight else other
