import asyncio

import pytest
from pool_fleet import enter, leave, make_replica

from backends.balance import make_balance
from backends.pool import Pool
from backends.types import Ask, Outcome

ASK = Ask()


def fail(pool, replica, times=5):
    for _ in range(times):
        lease = enter(pool, replica)
        lease.settle(Outcome.FAILED)
        leave(lease)


def test_nobody_is_ready_before_a_check_found_it_up(pool):
    """A fresh pool has no ready replica, no capacity and picks nothing."""
    two = pool(2, up=False)
    assert two.ready() == []
    assert two.capacity() == 0
    assert two.pick(ASK) is None


def test_capacity_is_the_slots_of_the_ready(pool):
    """Only ready replicas bring slots."""
    three = pool(3, max_inflight=10)
    assert three.capacity() == 30
    three.replicas[0].up = False
    three.drain(three.replicas[1])
    assert three.capacity() == 10


def test_listeners_hear_of_changes_only(pool):
    """The capacity is announced when it has changed, not whenever something happens."""
    two, heard = pool(2, max_inflight=10), []
    two.on_capacity(heard.append)
    two.replicas[0].up = True
    two.replicas[0].up = False
    two.replicas[0].up = False
    two.drain(two.replicas[0])
    two.refresh()
    two.undrain(two.replicas[0])
    two.replicas[0].up = True
    assert heard == [10, 20]


def test_a_changed_number_of_slots_is_announced_on_refresh(pool):
    """Who changes max_inflight refreshes the pool, and the listeners hear it."""
    one, heard = pool(1), []
    one.on_capacity(heard.append)
    one.replicas[0].max_inflight = 9
    one.refresh()
    assert heard == [9]


def test_a_listener_sees_the_new_state(pool):
    """When the capacity is announced, picking already works with what is ready now."""
    one, seen = pool(1, up=False), []
    one.on_capacity(lambda capacity: seen.append((capacity, one.pick(ASK))))
    one.replicas[0].up = True
    assert seen == [(4, one.replicas[0])]


def test_pick_passes_over_the_tried_and_the_full(pool):
    """A replica that was tried is not picked again, and a full one only when all are full."""
    three = pool(3, max_inflight=1)
    first, second, third = three.replicas
    enter(three, first)
    assert three.pick(ASK, [second]) is third
    assert three.pick(ASK, [second, third]) is first
    assert three.pick(ASK, [first, second, third]) is None


def test_when_all_are_full_the_least_loaded_is_picked(pool):
    """A pool that is full throughout still names the replica with the least on it."""
    two = pool(2, max_inflight=1)
    for _ in range(3):
        enter(two, two.replicas[0])
    enter(two, two.replicas[1])
    assert two.pick(ASK) is two.replicas[1]


def test_a_draining_replica_gets_nothing_new_and_finishes_what_it_has(pool):
    """Draining stops choices at once and leaves the running requests alone; it can be taken back."""
    two = pool(2)
    leaving = two.replicas[0]
    lease = enter(two, leaving)
    two.drain(leaving)
    assert {two.pick(ASK) for _ in range(20)} == {two.replicas[1]}
    assert leaving.inflight == 1
    leave(lease)
    assert leaving.inflight == 0
    two.undrain(leaving)
    assert leaving in two.ready()


def test_the_breaker_takes_a_failing_replica_out(pool):
    """After five failures in a row a replica is picked no more, and its slots are gone."""
    two = pool(2)
    fail(two, two.replicas[0])
    assert {two.pick(ASK) for _ in range(20)} == {two.replicas[1]}
    assert two.capacity() == 4


def test_it_comes_back_by_itself(pool, clock):
    """With no restart and no check the replica gets one request after its time, and all its slots after that one's success."""
    two = pool(2)
    sick = two.replicas[0]
    fail(two, sick)
    clock.now += 5
    assert two.pick(ASK) is sick
    assert two.capacity() == 5
    lease = enter(two, sick)
    assert two.pick(ASK) is two.replicas[1]
    lease.settle(Outcome.OK)
    leave(lease)
    assert two.capacity() == 8


def test_the_probe_is_a_first_attempt_not_a_retry(pool, clock):
    """A request that has failed once already is not sent to prove a doubtful replica while a sound one is left."""
    three = pool(3, kind="round_robin")
    fail(three, three.replicas[2])
    clock.now += 5
    assert three.pick(ASK, [three.replicas[0]]) is three.replicas[1]
    assert three.pick(ASK) is three.replicas[2]


def test_a_probe_does_not_go_over_the_slots(pool, clock):
    """A half-open replica whose slots are all held by requests that hang gets no probe on top."""
    two = pool(2, max_inflight=2)
    sick = two.replicas[0]
    fail(two, sick)
    enter(two, sick)
    enter(two, sick)
    clock.now += 5
    assert two.pick(ASK) is two.replicas[1]


@pytest.mark.parametrize("kind", ["round_robin", "least_requests", "least_latency", "queue_depth", "consistent_hash"])
def test_every_policy_heals(pool, clock, kind):
    """Whatever the policy and the session, the next request after the opening is the probe."""
    three = pool(3, kind=kind)
    fail(three, three.replicas[1])
    clock.now += 5
    assert three.pick(Ask(session="s")) is three.replicas[1]


def test_the_last_replica_is_never_ejected(pool, clock):
    """A breaker does not take the only replica out, however often it fails."""
    one = pool(1)
    fail(one, one.replicas[0], 100)
    assert one.pick(ASK) is one.replicas[0]
    assert one.capacity() == 4
    assert one.stats()[0].breaker == "open"


def test_when_all_breakers_are_open_all_are_ready(pool, clock):
    """A pool that fails throughout is tried throughout, also while one of its replicas is being probed."""
    two = pool(2)
    fail(two, two.replicas[0])
    fail(two, two.replicas[1])
    assert set(two.ready()) == set(two.replicas)
    assert two.capacity() == 8
    clock.now += 5
    enter(two, two.pick(ASK))
    assert set(two.ready()) == set(two.replicas)


def test_only_the_breaker_is_overridden(pool):
    """A replica that is down or draining stays out even when no other is left."""
    two = pool(2)
    fail(two, two.replicas[0])
    two.replicas[1].up = False
    assert two.ready() == [two.replicas[0]]
    two.drain(two.replicas[0])
    assert two.pick(ASK) is None


def test_coming_back_resets_nothing(pool):
    """A replica that was down and is up again has the counts, the breaker and the latency that it had."""
    two = pool(2)
    replica = two.replicas[0]
    fail(two, replica)
    held = [enter(two, replica) for _ in range(3)]
    replica.observe_latency(1.5, 10.0)
    before = two.stats()[0]
    replica.up = False
    replica.up = True
    assert two.stats()[0] == before
    assert replica.inflight == 3
    for lease in held:
        leave(lease)
    assert replica.inflight == 0


def test_ready_lists_are_the_callers_own(pool):
    """Changing a list that was handed out does not change the pool."""
    two = pool(2)
    two.ready().clear()
    assert len(two.ready()) == 2


def test_stats_say_all_there_is_by_name(pool, clock):
    """The stats name each replica with its state, and nothing that is secret."""
    two = pool(2)
    lease = enter(two, two.replicas[1])
    clock.now += 0.25
    lease.first_byte()
    two.replicas[1].observe_waiting(3.0, clock.now)
    first, second = two.stats()
    assert (first.name, first.ready, first.up, first.inflight, first.latency, first.waiting) == ("r0", True, True, 0, None, None)
    assert (second.name, second.inflight, second.latency, second.waiting) == ("r1", 1, 0.25, 3.0)
    assert (second.max_inflight, second.breaker, second.draining) == (4, "closed", False)


def test_names_are_unique_and_a_replica_has_one_pool(clock):
    """Two replicas of one name, or one replica in two pools, are errors at the start."""
    balance = make_balance("round_robin")
    with pytest.raises(ValueError, match="same name"):
        Pool("m", [make_replica("a"), make_replica("a")], balance, clock=clock)
    replica = make_replica("a")
    Pool("m", [replica], balance, clock=clock)
    with pytest.raises(ValueError, match="already in a pool"):
        Pool("n", [replica], balance, clock=clock)


def test_an_empty_pool_picks_nothing(clock):
    """A pool without replicas is allowed, and has nothing to offer."""
    empty = Pool("m", [], make_balance("least_requests"), clock=clock)
    assert empty.pick(ASK) is None
    assert empty.capacity() == 0


def test_a_retry_loop_ends(pool, clock):
    """Retrying for ever is cut by the budget of the pool, which comes back with time."""
    one = pool(1)
    for _ in range(10):
        leave(enter(one, one.replicas[0]))
    assert sum(one.may_retry() for _ in range(5000)) == 100
    clock.now += 11
    assert one.may_retry()


async def test_a_replica_that_hangs_does_not_hang_the_others(pool):
    """With one replica that never answers, requests go on to the others, and it holds no more than its own slots."""
    three = pool(3, max_inflight=2)
    hanging = three.replicas[0]
    served = 0

    async def request():
        nonlocal served
        replica = three.pick(ASK)
        async with three.lease(replica) as lease:
            if replica is hanging:
                await asyncio.Event().wait()
            await asyncio.sleep(0)
            lease.settle(Outcome.OK)
            served += 1

    tasks = []
    for _ in range(60):
        tasks.append(asyncio.create_task(request()))
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert hanging.inflight <= 2
    assert served >= 58
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    assert hanging.inflight == 0


def test_breaker_changes_are_logged_once_each(pool, clock, caplog):
    """One line when a breaker opens and one when it closes, whatever the number of requests."""
    caplog.set_level("INFO", logger="tiergate.pool")
    two = pool(2)
    fail(two, two.replicas[0], 50)
    clock.now += 5
    lease = enter(two, two.pick(ASK))
    lease.settle(Outcome.OK)
    leave(lease)
    assert [record.getMessage().split(":")[1][:16] for record in caplog.records] == [" breaker open fo", " breaker closed"]


def test_a_suspicion_reaches_who_watches(pool):
    """A replica that could not be connected to is pointed out to the listeners."""
    two, heard = pool(2), []
    two.on_suspect(heard.append)
    two.suspect(two.replicas[1])
    assert heard == [two.replicas[1]]
