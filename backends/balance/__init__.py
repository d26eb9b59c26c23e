"""How a pool chooses among its replicas: one verb, one kind a file.

The pool filters first: a policy sees only replicas that are ready and have a free slot, and returns one of them.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from backends.balance.consistent_hash import ConsistentHash
from backends.balance.least_latency import LeastLatency
from backends.balance.least_requests import LeastRequests
from backends.balance.power_of_two import PowerOfTwo
from backends.balance.prefix_hash import PrefixHash
from backends.balance.queue_depth import QueueDepth
from backends.balance.round_robin import RoundRobin
from backends.balance.sticky import Sticky
from backends.balance.work_cost import WorkCost
from backends.order import May, Order
from backends.replica import Replica
from backends.types import Ask


class Balance(Protocol):
    @property
    def wants_waiting(self) -> bool:
        """The policy reads `waiting`, so somebody must scrape it."""
        ...

    @property
    def wants_first_byte(self) -> bool:
        """The policy reads `latency`, so a first byte is to be told when it comes, not when the answer has ended."""
        ...

    @property
    def wants_pending(self) -> bool:
        """The policy reads `pending`, so the same holds for requests that count there."""
        ...

    @property
    def wants_prefix(self) -> bool:
        """The policy reads what of a prompt is cached where, or what it begins with, so somebody must find that out."""
        ...

    @property
    def wants_crowd(self) -> bool:
        """The policy reads how many prompts began alike of late, so somebody must count them."""
        ...

    @property
    def wants_order(self) -> bool:
        """In a large pool it looks at those with the least load, and at no others: it is an `Ordering` one."""
        ...

    def choose(self, replicas: Sequence[Replica], ask: Ask) -> Replica:
        """One of `replicas`, which is never empty."""
        ...


class Ordering(Balance, Protocol):
    def load(self, replica: Replica) -> float:
        """What it is ordered by, whatever the request."""
        ...

    def pick(self, order: Order, ask: Ask, passed: Collection[Replica], may: May) -> Replica | None:
        """As `choose` of those in `order` that may have it, none of which is among `passed`; None where there is none."""
        ...


KINDS = (
    "round_robin",
    "least_requests",
    "least_latency",
    "queue_depth",
    "consistent_hash",
    "power_of_two",
    "prefix_hash",
    "sticky",
    "work_cost",
)


PREFIXED = ("prefix_hash", "sticky", "work_cost")
"""Those that want to know of prompts."""


def make_balance(kind: str, *, seed: int | None = None, clock: Callable[[], float] = time.monotonic) -> Balance:
    """The policy of that kind. `clock` must be the one that the pool uses."""
    rng = random.Random(seed)
    match kind:
        case "round_robin":
            return RoundRobin()
        case "least_requests":
            return LeastRequests(rng)
        case "least_latency":
            return LeastLatency(rng, clock)
        case "queue_depth":
            return QueueDepth(rng, clock)
        case "consistent_hash":
            return ConsistentHash(rng)
        case "power_of_two":
            return PowerOfTwo(rng)
        case "prefix_hash":
            return PrefixHash(rng)
        case "sticky":
            return Sticky(rng)
        case "work_cost":
            return WorkCost(rng)
        case _:
            raise ValueError(f"unknown kind of balance {kind!r}; there are {', '.join(KINDS)}")
