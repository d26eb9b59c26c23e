import asyncio
import random
from collections import Counter
from contextlib import asynccontextmanager, suppress

import pytest
from pool_fleet import enter, leave, make_replica
from pool_server import Server

from backends.balance import KINDS, make_balance
from backends.health import HealthMonitor
from backends.pool import Pool
from backends.types import Ask
from backends.warmup import WarmUp

ASK = Ask()
WARM_UP = WarmUp("/chat/completions", b'{"max_tokens":1}', timeout=1.0, attempts=3)


@pytest.fixture
async def server():
    running = await Server().start()
    yield running
    await running.stop()


@asynccontextmanager
async def running(monitor):
    task = asyncio.create_task(monitor.run())
    await asyncio.sleep(0)
    yield
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


def up(replica):
    replica.up = True
    return replica


def test_a_replica_that_joins_brings_its_slots(pool):
    """A joined replica counts once it is up, and the listeners of the capacity hear it."""
    one, heard = pool(1), []
    one.on_capacity(heard.append)
    fresh = make_replica("new", max_inflight=4)
    one.add(fresh)
    assert (one.capacity(), fresh in one.ready()) == (4, False)
    fresh.up = True
    assert (one.capacity(), heard) == (8, [8])
    assert [stats.name for stats in one.stats()] == ["r0", "new"]


def test_a_name_is_there_once(pool):
    """A second replica of a name is refused, and the name is free again once its holder was removed."""
    one = pool(1)
    with pytest.raises(ValueError, match="already"):
        one.add(make_replica("r0"))
    first = one.replicas[0]
    one.remove(first)
    one.add(make_replica("r0"))
    one.remove(first)
    assert len(one.replicas) == 1


def test_a_removed_replica_may_join_another_pool(pool):
    """Leaving a pool ends the tie to it."""
    one, other = pool(1), pool(0)
    replica = one.replicas[0]
    one.remove(replica)
    assert (replica.ready, one.capacity(), one.pick(ASK)) == (False, 0, None)
    other.add(replica)
    assert (other.capacity(), one.capacity()) == (4, 0)


async def test_leases_outlive_the_membership(pool):
    """A lease on a removed replica runs to its end, and its end is what `drained` waits for."""
    two = pool(2)
    leaving = two.replicas[0]
    first, second = enter(two, leaving), enter(two, leaving)
    two.drain(leaving)
    two.remove(leaving)
    waiting = asyncio.create_task(two.drained(leaving))
    await asyncio.sleep(0)
    leave(first)
    await asyncio.sleep(0)
    assert not waiting.done()
    leave(second)
    await waiting
    assert leaving.inflight == 0


async def test_drained_returns_at_once_without_leases(pool):
    """Nothing runs, so there is nothing to wait for."""
    one = pool(1)
    await asyncio.wait_for(one.drained(one.replicas[0]), 0.1)


async def test_all_who_wait_for_the_drain_hear_of_it(pool):
    """Two waiters, and one that gave up: the last lease wakes the two."""
    one = pool(1)
    replica = one.replicas[0]
    lease = enter(one, replica)
    tasks = [asyncio.create_task(one.drained(replica)) for _ in range(3)]
    await asyncio.sleep(0)
    tasks[2].cancel()
    leave(lease)
    await asyncio.gather(*tasks[:2])


@pytest.mark.parametrize("kind", KINDS)
def test_a_slow_start_has_a_growing_share(clock, kind):
    """Under every policy a fresh replica gets a tenth of its fair share at first, half of it at half time, then all."""
    pool = Pool("m", [up(make_replica(f"r{n}")) for n in range(3)], make_balance(kind, seed=1, clock=clock), clock=clock,
                rng=random.Random(5))  # fmt: skip
    pool.refresh()
    fresh = make_replica("new")
    pool.add(fresh, slow_start=30.0)
    fresh.up = True
    shares = []
    for _ in range(3):
        count = Counter(pool.pick(ASK).name for _ in range(4000))
        shares.append(count["new"] / 4000)
        clock.now += 15.0
    assert shares[0] == pytest.approx(0.025, abs=0.015)
    assert shares[1] == pytest.approx(0.125, abs=0.03)
    assert shares[2] == pytest.approx(0.25, abs=0.04)


@pytest.mark.parametrize("kind", ["least_requests", "queue_depth"])
def test_a_slow_start_has_its_share_of_the_load(clock, kind):
    """A policy that fills the emptiest does not fill a fresh replica to the others' level at once."""
    pool = Pool("m", [up(make_replica(f"r{n}")) for n in range(3)], make_balance(kind, seed=1, clock=clock), clock=clock,
                rng=random.Random(5))  # fmt: skip
    for _ in range(60):
        enter(pool, pool.pick(ASK))
    fresh = make_replica("new")
    pool.add(fresh, slow_start=30.0)
    fresh.up = True
    for _ in range(30):
        enter(pool, pool.pick(ASK))
    assert 1 <= fresh.inflight <= 4
    clock.now += 15
    for _ in range(30):
        enter(pool, pool.pick(ASK))
    assert 10 <= fresh.inflight <= 20


def test_the_slots_of_a_slow_start_grow_with_the_clock(pool, clock):
    """Capacity goes up in steps while time passes, and stays when the replica goes and comes back."""
    one, heard = pool(1, max_inflight=100), []
    one.on_capacity(heard.append)
    fresh = make_replica("new", max_inflight=100)
    one.add(fresh, slow_start=10.0)
    clock.now += 100  # not up yet: no time of the slow start has passed
    fresh.up = True
    assert one.capacity() == 110
    clock.now += 5
    assert one.capacity() == 150
    fresh.up = False
    fresh.up = True
    assert one.capacity() == 150
    clock.now += 6
    assert one.capacity() == 200
    assert one.stats()[1].slots == 100
    clock.now += 1000
    one.refresh()
    assert heard[-1] == 200


def test_a_slow_start_alone_serves_all(pool):
    """Where nobody else can, the fresh replica takes every request that its slots allow."""
    none = pool(0)
    fresh = make_replica("new", max_inflight=50)
    none.add(fresh, slow_start=30.0)
    fresh.up = True
    assert all(none.pick(ASK) is fresh for _ in range(200))
    assert none.capacity() == 5


def test_the_fullest_of_a_full_pool_is_told_by_its_slots(pool):
    """When nobody has a free slot the least loaded is asked, and a fresh replica is not that for having few slots."""
    one = pool(1, max_inflight=40)
    fresh = make_replica("new", max_inflight=40)
    one.add(fresh, slow_start=30.0)
    fresh.up = True
    for replica in one.replicas:
        for _ in range(replica.slots):
            enter(one, replica)
    enter(one, fresh)
    assert one.pick(ASK) is one.replicas[0]


def homes(pool, count=2000):
    return {session: pool.pick(Ask(session=f"s{session}")).name for session in range(count)}


def test_hashed_sessions_move_only_to_the_new_one(pool):
    """When a replica joins, the sessions that move all move to it; when it leaves, they all return."""
    four = pool(4, "consistent_hash")
    before = homes(four)
    fresh = make_replica("new")
    four.add(fresh)
    fresh.up = True
    during = homes(four)
    moved = {session for session in before if before[session] != during[session]}
    assert {during[session] for session in moved} == {"new"}
    assert len(moved) / len(before) == pytest.approx(0.2, abs=0.04)
    four.remove(fresh)
    assert homes(four) == before


def test_a_session_moves_once_in_a_slow_start(pool, clock):
    """While a replica warms up, a hashed session goes over to it at one moment and does not come back."""
    four = pool(4, "consistent_hash")
    fresh = make_replica("new")
    four.add(fresh, slow_start=30.0)
    fresh.up = True
    seen = set()
    for _ in range(35):
        now = {session for session, home in homes(four, 500).items() if home == "new"}
        assert seen <= now
        seen = now
        clock.now += 1.0
    assert len(seen) > 50


async def test_a_joined_replica_is_checked_and_a_removed_one_is_not(pool, server):
    """The running monitor begins with a replica that joins, and ends with one that leaves."""
    none = pool(0)
    monitor = HealthMonitor([none], interval=0.01, timeout=1.0)
    async with running(monitor):
        replica = make_replica("new", server.url)
        none.add(replica)
        await asyncio.wait_for(server.arrived.wait(), 5)
        while not replica.up:
            await asyncio.sleep(0)
        none.remove(replica)
        none.suspect(replica)
        await asyncio.sleep(0.02)
        seen = len(server.heads)
        await asyncio.sleep(0.05)
        assert len(server.heads) == seen
        assert none.stats() == []
        again = make_replica("new", server.url)
        none.add(again)
        while not again.up:
            await asyncio.sleep(0)
    await replica.client.close()
    await again.client.close()


async def test_a_warm_up_comes_before_the_first_request(pool, server):
    """After the first good check the warm-up is sent, once, and only then is the replica up."""
    none = pool(0)
    monitor = HealthMonitor([none], timeout=5.0)
    replica = make_replica("new", server.url, api_key="key")
    none.add(replica, warm_up=WARM_UP)
    await monitor.check_once()
    await monitor.check_once()
    assert replica.up
    assert server.paths == [b"/health", b"/v1/chat/completions", b"/health"]
    assert server.bodies[1] == WARM_UP.body
    assert b"authorization: Bearer key\r\n" in server.heads[1]
    await replica.client.close()


@pytest.mark.parametrize(("posted", "reason"), [(500, "status 500"), (503, "status 503"), (None, "no answer within 1 s")])
async def test_a_failed_warm_up_is_tried_again(pool, server, caplog, posted, reason):
    """A replica whose warm-up fails gets no requests, and the next check's warm-up can let it in."""
    none = pool(0)
    monitor = HealthMonitor([none], timeout=5.0)
    replica = make_replica("new", server.url)
    server.posted = posted
    none.add(replica, warm_up=WARM_UP)
    await monitor.check_once()
    assert (replica.up, none.pick(ASK)) == (False, None)
    assert f"m/new: warm-up 1 of 3 failed ({reason})" in caplog.text
    server.posted = 200
    await monitor.check_once()
    assert replica.up
    await replica.client.close()


async def test_the_last_failed_warm_up_lets_it_serve(pool, server, caplog):
    """A warm-up that never works does not keep a replica out for ever."""
    none = pool(0)
    monitor = HealthMonitor([none], timeout=5.0)
    replica = make_replica("new", server.url)
    server.posted = 500
    none.add(replica, warm_up=WARM_UP)
    for number in range(4):
        await monitor.check_once()
        assert replica.up is (number >= 2)
    assert server.paths.count(b"/v1/chat/completions") == 3
    assert "the last warm-up failed (status 500), it serves without" in caplog.text
    await replica.client.close()


async def test_a_bad_check_is_no_warm_up(pool, server):
    """A replica that is not healthy is not sent a warm-up."""
    none = pool(0)
    monitor = HealthMonitor([none], timeout=5.0)
    replica = make_replica("new", server.url)
    server.status = 503
    none.add(replica, warm_up=WARM_UP)
    await monitor.check_once()
    assert server.paths == [b"/health"]
    await replica.client.close()


async def test_one_that_leaves_during_its_warm_up_is_not_brought_up(pool, server):
    """A check that ends after its replica was removed changes nothing."""
    none = pool(0)
    monitor = HealthMonitor([none], timeout=5.0)
    replica = make_replica("new", server.url)
    none.add(replica, warm_up=WARM_UP)
    server.gate.clear()
    check = asyncio.create_task(monitor.check_once())
    await asyncio.wait_for(server.arrived.wait(), 5)
    none.remove(replica)
    server.gate.set()
    await check
    assert not replica.up
    await replica.client.close()


async def test_one_that_refuses_its_warm_up_never_serves(pool, server, caplog):
    """A wrong key or path fails every client as well: it stays out until it is mended, and one line says so."""
    none = pool(0)
    monitor = HealthMonitor([none], timeout=5.0)
    replica = make_replica("new", server.url)
    server.posted = 401
    none.add(replica, warm_up=WARM_UP)
    for _ in range(5):
        await monitor.check_once()
        assert not replica.up
    assert caplog.text.count("it refuses the warm-up (status 401)") == 1
    server.posted = 200
    await monitor.check_once()
    assert replica.up
    await replica.client.close()
