"""Pools that count tokens beside requests: leases, room, and who is chosen."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pool_fleet import Clock, leave, make_replica, run_through

from backends.adaptive import Adaptive
from backends.balance import make_balance
from backends.governor import Fixed
from backends.pool import Pool
from backends.types import Ask, Outcome


class Heard:
    """Who gives out slots: what it was told of each replica, by name."""

    def __init__(self):
        self.places = {}

    def tell(self, places):
        self.places = {replica.name: place for replica, place in places.items()}

    def move(self, replica, place):
        assert replica.name in self.places
        self.places[replica.name] = place


def counted(*governors, slots=4, clock=None):
    """A pool of one replica for each governor, and who hears of it."""
    clock = clock or Clock()
    replicas = [make_replica(f"r{n}", max_inflight=slots, governor=governor) for n, governor in enumerate(governors)]
    pool = Pool("m", replicas, make_balance("least_requests", seed=7, clock=clock), clock=clock)
    heard = Heard()
    pool.count(heard)
    for replica in replicas:
        replica.up = True
    return pool, heard


def enter(pool, tokens, replica=None, *, stream=False):
    ask = Ask(None, tokens, tokens, stream)
    return run_through(pool.lease(replica or pool.pick(ask), ask=ask).__aenter__())


def test_leases_move_tokens_and_give_them_back():
    """Up on entering, down by as much on leaving, whatever happened in between, and only once."""
    pool, _ = counted(Fixed(1000))
    first, second = enter(pool, 300), enter(pool, 200)
    assert (pool.replicas[0].tokens, pool.replicas[0].peak) == (500, 2)
    first.settle(Outcome.FAILED)
    leave(first)
    leave(first)
    leave(second)
    assert (pool.replicas[0].tokens, pool.replicas[0].inflight) == (0, 0)


def test_what_is_free_is_told_replica_by_replica():
    """Seats and tokens, at each coming and going, whatever is free elsewhere; those that may be given nothing are left out."""
    pool, heard = counted(Fixed(1000), Fixed(100), slots=2)
    big, small = pool.replicas
    assert heard.places == {"r0": (2, 1000.0, 1000.0), "r1": (2, 100.0, 100.0)}
    over = enter(pool, 150, small)
    held = enter(pool, 10, big)
    assert heard.places == {"r0": (1, 990.0, 1000.0), "r1": (1, -50.0, 100.0)}
    leave(over)
    assert heard.places["r1"] == (2, 100.0, 100.0)
    pool.drain(big)
    leave(held)
    assert heard.places == {"r1": (2, 100.0, 100.0)}


def test_a_half_open_replica_is_a_place_for_one():
    """Its probe and no more, while others are sound."""
    clock = Clock()
    pool, heard = counted(Fixed(1000), Fixed(1000), clock=clock)
    sick = pool.replicas[0]
    for _ in range(5):
        lease = enter(pool, 1, sick)
        lease.settle(Outcome.FAILED)
        leave(lease)
    assert list(heard.places) == ["r1"]
    clock.now = sick.breaker.open_until
    pool.refresh()
    assert heard.places["r0"] == (1, 1000.0, 1000.0)


def test_a_request_goes_where_its_tokens_fit():
    """Though another has fewer requests."""
    pool, _ = counted(Fixed(1000), Fixed(1000))
    first, second = pool.replicas
    enter(pool, 900, first)
    enter(pool, 50, second)
    enter(pool, 50, second)
    assert pool.pick(Ask(None, 0, 500)) is second
    assert pool.pick(Ask(None, 0, 50)) is first


def test_an_idle_replica_takes_whatever_comes():
    """A request larger than any bound has one for itself."""
    pool, _ = counted(Fixed(100), Fixed(100))
    enter(pool, 10, pool.replicas[0])
    assert pool.pick(Ask(None, 0, 5000)) is pool.replicas[1]


def test_where_it_fits_nowhere_it_goes_where_it_does_least_harm():
    """A slot that was granted is used."""
    pool, _ = counted(Fixed(100), Fixed(100))
    enter(pool, 90, pool.replicas[0])
    enter(pool, 60, pool.replicas[1])
    assert pool.pick(Ask(None, 0, 60)) is pool.replicas[1]


def test_pools_that_count_no_tokens_make_plain_leases():
    """What is not configured costs nothing."""
    replica = make_replica("r")
    pool = Pool("m", [replica], make_balance("least_requests", seed=7))
    replica.up = True
    enter(pool, 500)
    assert (replica.tokens, replica.inflight) == (0, 1)


def test_a_first_byte_teaches_the_governor_and_the_capacity_follows():
    """Streams that begin quickly while all slots are used are room for more, which the pool announces."""
    clock = Clock()
    pool, _ = counted(Adaptive(2, 16), slots=16, clock=clock)
    assert pool.capacity() == 2
    for _ in range(60):
        held = [enter(pool, 10, stream=True) for _ in range(pool.replicas[0].slots)]
        clock.now += 0.3
        for lease in held:
            lease.first_byte()
            leave(lease)
    assert pool.capacity() == 16


def test_a_whole_answer_teaches_the_governor_nothing():
    """Its first byte says how long it took to make all of it."""
    clock = Clock()
    pool, _ = counted(Adaptive(2, 16), slots=16, clock=clock)
    for _ in range(60):
        held = [enter(pool, 10) for _ in range(pool.replicas[0].slots)]
        clock.now += 0.3
        for lease in held:
            lease.first_byte()
            leave(lease)
    assert pool.capacity() == 2


@pytest.mark.parametrize("how", ["health", "breaker"])
def test_a_replica_that_is_back_begins_slowly(how):
    """After an outage that the health check saw, or one that the breaker did, it has a quarter of what it had."""
    clock = Clock()
    governor = Adaptive(2, 16)
    pool, _ = counted(governor, Adaptive(2, 16), slots=16, clock=clock)
    governor._seats.value = governor.slots = 16
    pool.refresh()
    replica = pool.replicas[0]
    assert pool.capacity() == 18
    if how == "health":
        replica.up = False
        replica.up = True
    else:
        for _ in range(5):
            lease = enter(pool, 1, replica)
            lease.settle(Outcome.FAILED)
            leave(lease)
        assert replica.breaker.tripped
        clock.now = replica.breaker.open_until
        lease = enter(pool, 1, replica)
        lease.settle(Outcome.OK)
        leave(lease)
    assert (replica.slots, pool.capacity()) == (4, 6)


def test_a_slow_start_holds_the_tokens_too():
    """A replica that joins has a share of both."""
    pool, heard = counted(Fixed(1000), slots=100)
    fresh = make_replica("new", max_inflight=100, governor=Fixed(1000))
    pool.add(fresh, slow_start=60.0)
    fresh.up = True
    assert (fresh.slots, fresh.most_tokens) == (10, 100.0)
    assert heard.places["new"] == (10, 100.0, 100.0)


@settings(max_examples=60, deadline=None)
@given(
    bounds=st.lists(st.tuples(st.integers(1, 4), st.integers(1, 300)), min_size=1, max_size=4),
    steps=st.lists(st.tuples(st.integers(0, 400), st.booleans(), st.integers(0, 99)), max_size=40),
)
def test_what_is_told_is_what_there_is(bounds, steps):
    """After any leases: tokens are the sum of the leases', and what is told to be free is what is left."""
    pool, heard = counted(*(Fixed(tokens) for _, tokens in bounds), slots=1)
    for replica, (slots, _) in zip(pool.replicas, bounds, strict=True):
        replica.max_inflight = slots
    pool.refresh()
    held, rng = [], random.Random(1)
    for tokens, go, which in steps:
        if go and held:
            leave(held.pop(which % len(held))[0])
        else:
            replica = pool.pick(Ask(None, 0, tokens))
            held.append((enter(pool, tokens, replica), replica, tokens))
        for replica in pool.replicas:
            own = [size for _, other, size in held if other is replica]
            assert (replica.inflight, replica.tokens) == (len(own), sum(own))
            assert heard.places[replica.name] == (
                replica.slots - len(own), replica.most_tokens - sum(own), replica.most_tokens
            )  # fmt: skip
    rng.shuffle(held)
    for lease, _, _ in held:
        leave(lease)
    assert list(heard.places.values()) == [(slots, tokens, tokens) for slots, tokens in bounds]
