"""What the tests of pools share: a clock that stands, replicas that are never dialled, leases driven by hand."""

import random

from backends.balance import make_balance
from backends.breaker import Breaker
from backends.client import Client, Origin
from backends.pool import Pool
from backends.replica import Replica


class Clock:
    """Time that moves when a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def make_replica(name, url="http://10.0.0.1:8000/v1", client=Client, **options):
    return Replica(name, client(Origin.parse(url)), breaker=Breaker(random.Random(1)), **options)


def make_pool(clock, count, kind="least_requests", *, max_inflight=4, up=True, seed=7):
    replicas = [make_replica(f"r{number}", max_inflight=max_inflight) for number in range(count)]
    pool = Pool("m", replicas, make_balance(kind, seed=seed, clock=clock), clock=clock)
    for replica in replicas:
        replica.up = up
    return pool


def run_through(coroutine):
    """Run a coroutine that must not wait for anything, and return what it returns."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("it waited")


def enter(pool, replica):
    return run_through(pool.lease(replica).__aenter__())


def leave(lease):
    run_through(lease.__aexit__(None, None, None))
