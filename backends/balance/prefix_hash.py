"""Prompts that begin alike stay together, by rendezvous hashing with bounded load: no index, and gateways agree.

What counts is the first `blocks` blocks of the prompt, or as many as it has. More of them tell conversations apart whose first
words are the same; fewer keep a conversation where it is from its first, short turn on. The bound is that of `consistent_hash`,
so a beginning that everybody shares fills one replica after the other instead of drowning the first. A prompt of less than a
block goes to the fewest requests in flight. A session says nothing here: what is cached is what was read.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from backends.balance.consistent_hash import bounded_home
from backends.balance.least_requests import LeastRequests
from backends.balance.rendezvous import Rendezvous
from backends.replica import Replica
from backends.types import Ask


class PrefixHash:
    __slots__ = ("_blocks", "_ranks", "_unbound")

    wants_waiting = False
    wants_first_byte = False
    wants_pending = False
    wants_prefix = True
    wants_crowd = False
    wants_order = False

    def __init__(self, rng: random.Random, blocks: int = 8) -> None:
        self._blocks = blocks
        self._ranks = Rendezvous()
        self._unbound = LeastRequests(rng)

    def choose(self, replicas: Sequence[Replica], ask: Ask) -> Replica:
        if not ask.prefix:
            return self._unbound.choose(replicas, ask)
        return bounded_home(self._ranks, replicas, ask.prefix[min(self._blocks, len(ask.prefix)) - 1])
