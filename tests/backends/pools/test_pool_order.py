"""Choices in large pools, where few of the replicas are looked at: the same as if all were, at a bounded cost."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pool_fleet import Clock, enter, leave, make_pool, run_through

from backends.balance import make_balance
from backends.breaker import Breaker
from backends.client import Client, Origin
from backends.pool import Pool
from backends.replica import Replica
from backends.types import Ask, Outcome

ORIGIN = Origin.parse("http://10.0.0.1:8000/v1")
COUNT = 40
NAMES = [f"r{number}" for number in range(COUNT)]


class Seen(Replica):
    """Counts how often anybody looks at how much runs there."""

    __slots__ = ("_running",)
    looks = 0

    @property
    def inflight(self):
        Seen.looks += 1
        return self._running

    @inflight.setter
    def inflight(self, running):
        self._running = running


loads = st.lists(
    st.tuples(st.integers(0, 5), st.sampled_from([0, 0, 200, 900, 9000]), st.integers(0, 2)), min_size=COUNT, max_size=COUNT
)
held = st.dictionaries(st.sampled_from(NAMES), st.integers(1, 4000), max_size=16)
crowds = st.sampled_from([(), ((1500, 30.0),), ((1000, 90.0), (3000, 4.0))])


@settings(deadline=None, max_examples=150)
@given(
    loads=loads,
    before_all=st.sampled_from([0, 8192, 50_000]),
    cached=held,
    crowd=crowds,
    session=st.sampled_from([None, "a", "b", "c"]),
    tried=st.lists(st.integers(0, COUNT - 1), max_size=3, unique=True),
    full=st.sets(st.integers(0, COUNT - 1), max_size=COUNT - 4),
)
def test_who_is_chosen_costs_the_least_of_all(loads, before_all, cached, crowd, session, tried, full):
    """Whatever runs where, is cached where, is full or was tried: no other costs less than the chosen one."""
    pool = make_pool(Clock(), COUNT, "work_cost", max_inflight=6)
    for replica, (running, waiting, others) in zip(pool.replicas, loads, strict=True):
        replica.inflight, replica.pending, replica.others_inflight = running, waiting + before_all, others
    for number in full:
        pool.replicas[number].inflight = 6
    tried = [pool.replicas[number] for number in tried]
    ask = Ask(session, 4000, cached=cached, crowd=crowd)
    chosen = pool.pick(ask, tried)
    free = [replica for replica in pool.replicas if replica.inflight < 6 and replica not in tried]
    if free:
        costs = dict(zip(free, pool.balance.costs(free, ask), strict=True))
        assert costs[chosen] == pytest.approx(min(costs.values()))
    else:
        assert chosen is not None
        assert chosen not in tried


@settings(deadline=None, max_examples=100)
@given(speeds=st.lists(st.sampled_from([0.25, 0.9, 1.0, 1.1, 2.0, 4.0]), min_size=COUNT, max_size=COUNT), loads=loads)
def test_where_speeds_differ_the_cost_is_within_an_eighth(speeds, loads):
    """Replicas of about the same speed are taken for alike: what that costs is an eighth at most."""
    pool = make_pool(Clock(), COUNT, "work_cost", max_inflight=6)
    for replica, speed, (running, waiting, others) in zip(pool.replicas, speeds, loads, strict=True):
        replica.speed, replica.inflight, replica.pending, replica.others_inflight = speed, running, waiting, others
    chosen, ask = pool.pick(Ask(None, 4000)), Ask(None, 4000)
    costs = dict(zip(pool.replicas, pool.balance.costs(pool.replicas, ask), strict=True))
    assert costs[chosen] <= min(costs.values()) * 1.14


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["enter", "enter", "first", "leave", "leave", "leave", "fail", "up", "drain", "later"]),
        st.integers(0, 1 << 16),
    ),
    max_size=120,
)


@settings(deadline=None, max_examples=100)
@given(STEPS, st.sampled_from(["work_cost", "least_requests"]))
def test_the_order_is_always_that_of_now(steps, kind):
    """Leases that come, begin to answer, fail and end, replicas that go down and drain: the least of those on offer is chosen."""
    clock = Clock()
    pool = make_pool(clock, 20, kind, max_inflight=2)
    running = [pool.lease(replica, None, Ask(None, 1000)) for replica in pool.replicas]
    for lease in running:
        run_through(lease.__aenter__())
    pool.pick(Ask())
    for step, number in steps:
        replica = pool.replicas[number % 20]
        if step == "enter":
            lease = pool.lease(pool.pick(Ask(None, number)) or replica, None, Ask(None, number))
            run_through(lease.__aenter__())
            running.append(lease)
        elif step == "up":
            replica.up = not replica.up
        elif step == "drain":
            replica.draining = not replica.draining
        elif step == "later":
            clock.now += 1
        elif running:
            lease = running[number % len(running)] if step == "first" else running.pop(number % len(running))
            if step == "first":
                lease.first_byte()
            else:
                lease.settle(Outcome.FAILED if step == "fail" else Outcome.OK)
                leave(lease)
        chosen, free = pool.pick(Ask(None, 500)), [one for one in pool.ready() if one.inflight < one.slots]
        sound = [one for one in free if not one.breaker.tripped]
        if sound and not chosen.breaker.tripped:
            least = min(map(pool.balance.load, sound))
            assert chosen in sound
            assert pool.balance.load(chosen) == least


def test_what_is_looked_at_does_not_grow_with_the_pool(clock):
    """To choose, and to count what was chosen, looks at as many of 1,000 replicas as of 50, of whom 16 hold the prompt."""
    looked = []
    for count in (50, 1000):
        members = [Seen(f"r{number}", Client(ORIGIN), breaker=Breaker(random.Random(1))) for number in range(count)]
        pool = Pool("m", members, make_balance("work_cost", seed=1, clock=clock), clock=clock)
        for replica in members:
            replica.up = True
        asks = [Ask(None, 2000), Ask("me", 2000), Ask(None, 2000, cached={f"r{number}": 900 for number in range(16)})]
        for ask in asks:
            pool.pick(ask)  # a home is looked for once
        Seen.looks = 0
        for ask in asks:
            leave(enter(pool, pool.pick(ask)))
        looked.append(Seen.looks)
    assert looked[0] == looked[1]
    assert looked[0] < 100
