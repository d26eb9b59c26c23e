import asyncio
import random
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pool_fleet import Clock, enter, leave, make_pool

from backends.breaker import State
from backends.types import Ask, Outcome

ASK = Ask()


async def attempt(pool, replica, outcome):
    async with pool.lease(replica) as lease:
        lease.settle(outcome)


async def trip(pool, replica):
    for _ in range(5):
        await attempt(pool, replica, Outcome.FAILED)
    assert replica.breaker.tripped


async def test_a_lease_counts_while_it_is_held(pool):
    """A request is in flight from entering the lease to leaving it."""
    one = pool(1)
    lease = one.lease(one.replicas[0])
    assert one.replicas[0].inflight == 0
    async with lease:
        assert one.replicas[0].inflight == 1
    assert one.replicas[0].inflight == 0


async def test_an_error_inside_gives_the_lease_back(pool):
    """An exception in the scope passes on and the count goes down."""
    one = pool(1)
    with pytest.raises(KeyError):
        async with one.lease(one.replicas[0]):
            raise KeyError
    assert one.replicas[0].inflight == 0


async def test_cancellation_gives_the_lease_back(pool):
    """A request that is cancelled while it waits for the replica leaves nothing behind."""
    one = pool(1)

    async def hang(entered):
        async with one.lease(one.replicas[0]):
            entered.set()
            await asyncio.Event().wait()

    entered = asyncio.Event()
    task = asyncio.create_task(hang(entered))
    await entered.wait()
    assert one.replicas[0].inflight == 1
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert one.replicas[0].inflight == 0


async def test_a_task_cancelled_before_it_ran_leaves_nothing(pool):
    """A lease that was made but never entered counts nowhere."""
    one = pool(1)
    task = asyncio.create_task(attempt(one, one.replicas[0], Outcome.OK))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert one.replicas[0].inflight == 0


async def test_leaving_twice_releases_once(pool):
    """The release happens exactly once, however often the exit is called; leaving without entering releases nothing."""
    one = pool(1)
    replica = one.replicas[0]
    async with one.lease(replica):
        lease = one.lease(replica)
        await lease.__aexit__(None, None, None)
        await lease.__aenter__()
        await lease.__aexit__(None, None, None)
        await lease.__aexit__(None, None, None)
        assert replica.inflight == 1
    assert replica.inflight == 0


async def test_a_lease_is_entered_once(pool):
    """A second entering is an error of the program, and changes no count."""
    one = pool(1)
    lease = one.lease(one.replicas[0])
    async with lease:
        pass
    with pytest.raises(RuntimeError):
        await lease.__aenter__()
    assert one.replicas[0].inflight == 0


async def test_only_the_first_settlement_counts(pool):
    """A second settlement, or one after the end, changes nothing."""
    one = pool(1)
    replica = one.replicas[0]
    for _ in range(20):
        async with one.lease(replica) as lease:
            lease.settle(Outcome.OK)
            lease.settle(Outcome.FAILED)
        lease.settle(Outcome.FAILED)
    assert not replica.breaker.tripped


async def test_leaving_unsettled_says_nothing(pool):
    """A client that left does not count against the replica, even a thousand times."""
    one = pool(1)
    for _ in range(1000):
        async with one.lease(one.replicas[0]):
            pass
    assert not one.replicas[0].breaker.tripped


async def test_a_503_that_names_a_time_is_no_failure(pool):
    """A refusal never trips the breaker, and says nothing of how fast the replica is."""
    one = pool(1)
    for _ in range(50):
        async with one.lease(one.replicas[0]) as lease:
            lease.settle(Outcome.REFUSED, 1.0)
    assert not one.replicas[0].breaker.tripped
    assert one.stats()[0].latency is None


async def test_the_first_byte_is_measured_from_dispatch_once(pool, clock):
    """Latency is the time from the lease to the first byte; later calls do not move it."""
    one = pool(1)
    replica = one.replicas[0]
    async with one.lease(replica) as lease:
        clock.now += 0.5
        lease.first_byte()
        clock.now += 5
        lease.first_byte()
        lease.settle(Outcome.OK)
    lease.first_byte()
    assert replica.latency == 0.5


@pytest.mark.parametrize("refusals", [0, 1])
@pytest.mark.parametrize("tripped", [False, True])
async def test_an_answer_that_came_at_once_says_what_its_parts_say(clock, refusals, tripped):
    """`complete` leaves a replica, its breaker and its hold as the first byte and the outcome do that are said one by one."""
    found = []
    for parts in (lambda one: one.complete(), lambda one: (one.first_byte(), one.settle(Outcome.OK))):
        clock.now = 1000.0
        one = make_pool(clock, 2)
        replica = one.replicas[0]
        for _ in range(refusals):
            await attempt(one, replica, Outcome.REFUSED)
        if tripped:
            await trip(one, replica)
        clock.now += 20.0
        async with one.lease(replica, None, Ask(None, 1000, stream=True)) as lease:
            clock.now += 0.25
            parts(lease)
            parts(lease)
        breaker, hold = replica.breaker, replica.hold
        found.append((replica.latency, replica.latency_at, replica.pending, replica.ready, replica.speed, lease.served,
                      breaker.tripped, breaker.epoch, hold.row, hold.until, hold.refusals, one.capacity()))  # fmt: skip
    assert found[0] == found[1]
    assert found[0][0] == 0.25 or tripped


async def test_a_first_byte_that_is_told_late_is_measured_by_its_own_time(pool, clock):
    """A report that waited for company does not make the replica look slower; one from before the attempt counts as 0."""
    one = pool(1)
    replica = one.replicas[0]
    async with one.lease(replica) as lease:
        clock.now += 5
        lease.first_byte(1000.5)
        lease.first_byte(1004.0)
    assert (replica.latency, replica.latency_at) == (0.5, 1000.5)
    other = pool(1).replicas[0]
    async with one.lease(other) as lease:
        lease.first_byte(900.0)
    assert other.latency == 0.0


async def test_an_attempt_that_is_taken_over_counts_from_its_own_beginning(pool, clock):
    """An adopted lease is in flight like any other, and its latency is not measured from the adoption."""
    one = pool(1)
    replica = one.replicas[0]
    async with one.lease(replica, began=clock.now - 3) as lease:
        assert replica.inflight == 1
        clock.now += 1
        lease.first_byte()
        lease.settle(Outcome.OK)
    assert (replica.inflight, replica.latency) == (0, 4.0)
    async with one.lease(replica, began=clock.now - 10) as lease:
        lease.settle(Outcome.FAILED)
    assert replica.latency > 4.0


async def test_an_attempt_from_before_an_opening_is_no_probe(pool, clock):
    """A half-open replica's one probe is not given to a stream that is taken over and began before."""
    two = pool(2)
    sick = two.replicas[0]
    await trip(two, sick)
    began = clock.now
    clock.now += 5
    async with two.lease(sick, began=began) as lease:
        assert not lease.probe
        assert sick.breaker.allows(clock.now)


async def test_a_failure_before_the_first_byte_counts_as_slow(pool, clock):
    """A timeout teaches the latency how long it took; a stream that broke after its first byte does not."""
    one = pool(1)
    replica = one.replicas[0]
    async with one.lease(replica) as lease:
        clock.now += 60
        lease.settle(Outcome.FAILED)
    assert replica.latency == 60
    async with one.lease(replica) as lease:
        lease.first_byte()
        seen = replica.latency
        clock.now += 100
        lease.settle(Outcome.FAILED)
    assert replica.latency == seen


async def test_the_probe_is_held_by_one_lease(pool, clock):
    """While the probe is out the half-open replica is not ready, and it is again as soon as the lease is left."""
    two = pool(2)
    sick, well = two.replicas
    await trip(two, sick)
    assert two.ready() == [well]
    clock.now += 5
    assert two.pick(ASK) is sick
    async with two.lease(sick):
        assert two.ready() == [well]
        assert [two.pick(ASK) for _ in range(10)] == [well] * 10
    assert sick in two.ready()
    await attempt(two, sick, Outcome.OK)
    assert sick.breaker.state(clock.now) is State.CLOSED


async def test_a_cancelled_probe_is_free_again(pool, clock):
    """A probe whose client leaves goes back, so the replica is not lost until a restart."""
    two = pool(2)
    sick = two.replicas[0]
    await trip(two, sick)
    clock.now += 5

    async def probe(entered):
        async with two.lease(sick):
            entered.set()
            await asyncio.Event().wait()

    entered = asyncio.Event()
    task = asyncio.create_task(probe(entered))
    await entered.wait()
    assert not sick.ready
    task.cancel()
    await asyncio.wait([task])
    assert sick.ready
    assert sick.inflight == 0
    assert two.pick(ASK) is sick


async def test_a_failed_probe_shuts_the_replica_out_for_longer(pool, clock):
    """A probe that fails opens the breaker again, and the pool goes on without the replica."""
    two = pool(2)
    sick, well = two.replicas
    await trip(two, sick)
    clock.now += 5
    await attempt(two, sick, Outcome.FAILED)
    clock.now += 7
    assert two.ready() == [well]
    clock.now += 3
    assert sick in two.ready()


async def test_the_first_byte_of_a_probe_heals_and_its_end_still_counts(pool, clock):
    """A long stream as a probe opens the replica at its first byte; if it breaks later, that is one failure."""
    two = pool(2)
    sick = two.replicas[0]
    await trip(two, sick)
    clock.now += 5
    async with two.lease(sick) as lease:
        lease.first_byte()
        assert sick.ready
        assert not sick.breaker.tripped
        lease.settle(Outcome.FAILED)
    assert sick.ready
    for _ in range(4):
        await attempt(two, sick, Outcome.FAILED)
    assert not sick.ready


async def test_a_lease_from_before_the_opening_does_not_close_it(pool):
    """A stream that began before the breaker opened, and goes well, is no probe."""
    two = pool(2)
    sick = two.replicas[0]
    async with two.lease(sick) as lease:
        await trip(two, sick)
        lease.first_byte()
        lease.settle(Outcome.OK)
    assert not sick.ready


async def test_a_lease_of_the_bad_time_does_not_count_in_the_good(pool, clock):
    """An attempt that began before the breaker opened cannot fail the replica after it has healed."""
    two = pool(2)
    sick = two.replicas[0]
    leases = [two.lease(sick) for _ in range(20)]
    for lease in leases:
        await lease.__aenter__()
    await trip(two, sick)
    clock.now += 5
    await attempt(two, sick, Outcome.OK)
    for lease in leases:
        lease.settle(Outcome.FAILED)
        await lease.__aexit__(None, None, None)
    assert sick.ready
    assert sick.inflight == 0


def turn(pool, held, *, verb, replica, choice, clock):
    """One event of a random history."""
    lease = held[choice % len(held)] if held else None
    match verb:
        case "enter":
            held.append(enter(pool, replica))
        case "leave" if lease:
            held.remove(lease)
            leave(lease)
        case "byte" if lease:
            lease.first_byte()
        case "ok" | "failed" | "neutral" if lease:
            lease.settle(Outcome(verb))
        case "up" | "down":
            replica.up = verb == "up"
        case "drain":
            pool.drain(replica)
        case "undrain":
            pool.undrain(replica)
        case "wait":
            clock.now += choice


VERBS = ["enter", "enter", "leave", "ok", "failed", "neutral", "byte", "up", "down", "drain", "undrain", "wait"]


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(VERBS), st.integers(0, 2), st.integers(0, 50)), max_size=150))
def test_counts_are_those_of_the_leases_held_whatever_else_happens(steps):
    """Health, drain, breaker and time never move a count, and the ready list is always what the facts say."""
    clock = Clock()
    pool, held, heard = make_pool(clock, 3), [], []
    pool.on_capacity(heard.append)
    for verb, which, choice in steps:
        turn(pool, held, verb=verb, replica=pool.replicas[which], choice=choice, clock=clock)
        for replica in pool.replicas:
            assert replica.inflight == sum(lease.replica is replica for lease in held)
        able = [replica for replica in pool.replicas if replica.up and not replica.draining]
        allowed = [replica for replica in able if replica.breaker.allows(clock.now)]
        sound = [replica for replica in able if not replica.breaker.tripped]
        assert set(pool.ready()) == set(allowed if sound else able)
        assert [replica for replica in pool.replicas if replica.ready] == sorted(pool.ready(), key=pool.replicas.index)
    assert all(one != other for one, other in pairwise(heard))
    for lease in held:
        leave(lease)
    assert all(replica.inflight == 0 and not replica.breaker._probing for replica in pool.replicas)


async def test_many_requests_at_once_leave_nothing_behind(pool, clock):
    """Hundreds of requests that end in every way leave every count at zero and every probe free."""
    three = pool(3)
    rng = random.Random(11)

    async def request():
        replica = three.pick(ASK)
        async with three.lease(replica) as lease:
            await asyncio.sleep(0)
            if rng.random() < 0.3:
                lease.first_byte()
            clock.now += rng.random()
            lease.settle(rng.choice(list(Outcome)))
            await asyncio.sleep(0)

    tasks = [asyncio.create_task(request()) for _ in range(500)]
    await asyncio.sleep(0)
    for task in rng.sample(tasks, 150):
        task.cancel()
    await asyncio.wait(tasks)
    clock.now += 61
    assert [replica.inflight for replica in three.replicas] == [0, 0, 0]
    assert all(replica.breaker.allows(clock.now) for replica in three.replicas)
