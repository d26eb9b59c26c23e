"""One replica of three answers badly and at once, the others well in 50 ms, in virtual time, for each kind of balance."""

import heapq
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pool_fleet import Clock, enter, leave, make_pool, run_through

from backends.balance import KINDS
from backends.types import Ask, Outcome

CLIENTS, SECONDS = 16, 6.0
BADLY = {
    "429": (Outcome.REFUSED, 0.0),
    "503 with retry-after": (Outcome.REFUSED, 2.0),
    "500": (Outcome.FAILED, 0.0),
    "400 to everything": (Outcome.FAULTED, 0.0),
}


@dataclass
class Town:
    """Clients that ask again at once; `bad` says when its replica is. `seats`: more at once are refused by each, at once."""

    pool: object
    clock: Clock
    bad: dict = field(default_factory=dict)
    bad_seconds: float = 0.001
    seats: int = 1000
    running: dict = field(default_factory=dict)
    lost: int = 0
    served: int = 0
    asked: dict = field(default_factory=dict)
    capacities: set = field(default_factory=set)

    def run(self, seconds=SECONDS, clients=CLIENTS):
        end = self.clock.now + seconds
        events = [(self.clock.now + number / 1000, number, ("come",)) for number in range(clients)]
        while events:
            at, number, event = heapq.heappop(events)
            self.clock.now = max(self.clock.now, at)
            if event[0] == "come":
                if at < end:
                    events_of = self.attempt(number, [], None)
                else:
                    continue
            else:
                events_of = self.ended(number, *event[1:])
            for later, what in events_of:
                heapq.heappush(events, (later, number, what))
            self.capacities.add(self.pool.capacity())

    def attempt(self, number, tried, doubted):
        ask = Ask(f"client {number}", 400, 500, stream=True, prefix=(number,))
        replica = self.pool.pick(ask, tried)
        if replica is None or len(tried) == 3 or (tried and not self.pool.may_retry()):
            self.lost += 1
            return [(self.clock.now + 0.001, ("come",))]
        self.asked[replica.name] = self.asked.get(replica.name, 0) + 1
        lease = self.pool.lease(replica, None, ask)
        run_through(lease.__aenter__())
        if doubted is not None and doubted.faulted:
            lease.against = doubted.replica
        full = self.running.get(replica, 0) >= self.seats
        if full or replica.name in self.bad:
            seconds = self.bad_seconds
        else:
            seconds = 0.03 + 0.04 * ((self.served * 7 + number) % 11) / 10
            self.running[replica] = self.running.get(replica, 0) + 1
        tried = [*tried, replica]
        return [(self.clock.now + seconds, ("end", lease, full, tried, lease if lease.doubted else doubted))]

    def ended(self, number, lease, full, tried, doubted):
        outcome, after = (Outcome.REFUSED, 0.0) if full else self.bad.get(lease.replica.name, (Outcome.OK, 0.0))
        if outcome is Outcome.OK:
            self.running[lease.replica] -= 1
            lease.first_byte()
        lease.settle(outcome, after)
        leave(lease)
        if outcome is Outcome.OK:
            self.served += 1
        elif outcome is not Outcome.FAULTED or lease.doubted:
            return self.attempt(number, tried, doubted)
        else:
            self.lost += 1
        return [(self.clock.now, ("come",))]


@pytest.fixture
def town(clock):
    def make(kind="work_cost", count=3, max_inflight=32, **options):
        return Town(make_pool(clock, count, kind, max_inflight=max_inflight), clock, **options)

    return make


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("badly", BADLY)
def test_a_replica_that_answers_badly_at_once_does_not_draw_the_traffic(town, kind, badly):
    """Beyond the first few nobody loses a request, and the bad one is asked now and then only; when it is well it is back."""
    one = town(kind, bad={"r0": BADLY[badly]})
    one.run()
    assert one.lost <= 20
    assert one.served > 0.9 * SECONDS * CLIENTS / 0.05
    assert one.asked["r0"] < 0.1 * one.served
    one.bad.clear()
    one.run(61.0 if badly == "500" else 6.0)
    one.asked.clear()
    one.run(3.0)
    assert one.asked["r0"] > 0.1 * sum(one.asked.values())
    assert one.lost <= 20


def test_who_refuses_slowly_is_not_asked_more_than_that(town):
    """A refusal that takes half a second is waited for four times as long: retries stay far from their budget."""
    one = town("least_requests", bad={"r0": BADLY["429"]}, bad_seconds=0.5)
    one.run()
    assert (one.lost, one.asked["r0"] < 0.05 * one.served) == (0, True)


@pytest.mark.parametrize(("badly", "seconds"), [("429", 1.0), ("503 with retry-after", 2.0)])
def test_one_that_accepts_again_is_asked_within_a_second_or_when_it_said(town, badly, seconds):
    """However long it refused, its hold is short, and the first answer forgets it."""
    one = town(bad={"r0": BADLY[badly]})
    one.run()
    one.bad.clear()
    one.asked.clear()
    one.run(seconds)
    (held, *_) = one.pool.stats()
    assert one.asked["r0"] > 0
    assert held.held_for == 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_pool_of_which_all_refuse_is_not_turned_away(town, kind):
    """Everybody is still asked, in turn, and whoever accepts first serves at once."""
    one = town(kind, bad=dict.fromkeys(("r0", "r1", "r2"), BADLY["429"]))
    one.run(5.0, clients=3)
    assert min(one.asked.values()) > 0.2 * sum(one.asked.values())
    assert one.pool.capacity() == 96
    del one.bad["r1"]
    one.asked.clear()
    one.lost = 0
    one.run(5.0, clients=3)
    assert one.lost <= 6
    assert one.asked["r1"] > 200


def test_a_hold_takes_the_free_slots_and_no_others(clock):
    """What runs at one that is held off goes on to count; its free slots are no capacity, and where all are held, all are."""
    pool = make_pool(clock, 2)
    r0, r1 = pool.replicas
    running = [enter(pool, r0) for _ in range(2)]
    refused = enter(pool, r0)
    refused.settle(Outcome.REFUSED)
    leave(refused)
    assert (pool.capacity(), r0.held, r0.ready) == (4 + 2, True, True)
    leave(running.pop())
    assert pool.capacity() == 4 + 1
    other = enter(pool, r1)
    other.settle(Outcome.REFUSED, 2.0)
    leave(other)
    assert pool.capacity() == 8
    assert pool.pick(Ask()) is r0
    clock.now += 0.1
    assert (pool.capacity(), pool.pick(Ask()), r1.held) == (4, r0, True)
    clock.now += 2
    assert pool.capacity() == 8


def test_who_was_tried_in_vain_elsewhere_may_ask_one_that_is_held_off(clock):
    """A first attempt waits for others rather than ask it; a further one does not end for it."""
    pool = make_pool(clock, 2, max_inflight=1)
    r0, r1 = pool.replicas
    refused = enter(pool, r0)
    refused.settle(Outcome.REFUSED)
    leave(refused)
    running = enter(pool, r1)
    assert pool.pick(Ask()) is r1
    assert pool.pick(Ask(), [r1]) is r0
    assert pool.pick(Ask(), [r1, r0]) is None
    leave(running)


def test_a_burst_that_is_refused_is_one_refusal(clock):
    """Attempts that were under way when the first of them was refused do not lengthen the hold; their answers do not end it."""
    pool = make_pool(clock, 2, max_inflight=8)
    r0 = pool.replicas[0]
    burst = [enter(pool, r0) for _ in range(6)]
    clock.now += 0.01
    for lease in burst[:5]:
        lease.settle(Outcome.REFUSED)
        leave(lease)
    burst[5].first_byte()
    (stats, _) = pool.stats()
    assert (stats.held_for, stats.refusals, r0.hold.row) == (0.1, 5, 1)


def test_one_that_was_full_is_asked_again_when_a_place_there_comes_free(clock):
    """What ran there before it refused ends well: it is on offer at once, and if it refuses then, that is one more in the row."""
    pool = make_pool(clock, 2)
    r0 = pool.replicas[0]
    ran, left = enter(pool, r0), enter(pool, r0)
    clock.now += 1
    for seconds in (0.1, 0.2):
        lease = enter(pool, r0)
        lease.settle(Outcome.REFUSED)
        leave(lease)
        assert (pool.stats()[0].held_for, r0.held) == (seconds, True)
        if seconds == 0.1:
            leave(left)
            assert r0.held
            ran.settle(Outcome.OK)
            leave(ran)
            assert (pool.stats()[0].held_for, r0.held, pool.capacity()) == (0, False, 8)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("clients", [24, 40])
def test_engines_that_are_full_work_as_much_as_they_can(town, kind, clients):
    """Three with 8 seats each refuse what is more: their seats stay busy all the same."""
    one = town(kind, seats=8)
    one.run(3.0, clients)
    assert one.served > 0.9 * 3.0 * min(clients, 24) / 0.05


def test_a_hold_is_bounded_whatever_was_said(clock):
    """Refusals in a row double it up to a second, a time that the replica names counts up to five."""
    pool = make_pool(clock, 2)
    r0 = pool.replicas[0]
    seen = []
    for after in (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 3.0, 86_400.0, float("inf")):
        lease = enter(pool, r0)
        lease.settle(Outcome.REFUSED, after)
        leave(lease)
        seen.append(pool.stats()[0].held_for)
        clock.now = max(clock.now, r0.hold.until)
    assert seen == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 3.0, 5.0, 5.0]
    clock.now += 11
    lease = enter(pool, r0)
    lease.settle(Outcome.REFUSED)
    leave(lease)
    assert pool.stats()[0].held_for == 0.1


def test_a_refusing_probe_does_not_make_every_request_a_probe(clock):
    """A half-open replica that refuses its probe is held off like any other, and not given the next request at once."""
    pool = make_pool(clock, 2)
    r0, r1 = pool.replicas
    for _ in range(5):
        lease = enter(pool, r0)
        lease.settle(Outcome.FAILED)
        leave(lease)
    clock.now += 5
    assert pool.pick(Ask()) is r0
    probe = enter(pool, r0)
    probe.settle(Outcome.REFUSED)
    leave(probe)
    assert {pool.pick(Ask()) for _ in range(20)} == {r1}
    clock.now += 0.1
    assert pool.pick(Ask()) is r0


def test_bad_requests_of_a_client_take_nobody_out(town):
    """Where all find fault with a request it is the request's: no breaker, no hold, one further opinion a second."""
    one = town(bad=dict.fromkeys(("r0", "r1", "r2"), BADLY["400 to everything"]))
    one.run(10.0, clients=3)
    asked = sum(one.asked.values())
    assert 0 < asked - one.lost <= 12
    assert all(stats.breaker == "closed" and not stats.refusals for stats in one.pool.stats())


def test_one_that_finds_fault_with_what_others_serve_is_told_of_once(town, caplog):
    """The log says which replica it is, and not once for each request."""
    one = town(bad={"r1": BADLY["400 to everything"]})
    one.run()
    told = [record.getMessage() for record in caplog.records if "finds fault" in record.getMessage()]
    assert len(told) == 1
    assert told[0].startswith("m/r1: ")


def test_a_second_opinion_that_never_comes_costs_little(clock):
    """A client that leaves before another replica has spoken holds a replica off for a tenth of a second, once a second."""
    pool = make_pool(clock, 2)
    r0 = pool.replicas[0]
    held = doubted = 0
    for _ in range(1000):
        lease = enter(pool, r0)
        doubted += lease.doubted
        lease.settle(Outcome.FAULTED)
        leave(lease)
        held += pool.stats()[0].held_for > 0
        clock.now += 0.01
    assert doubted == 10
    assert held <= 10 * 10
    assert (r0.breaker.tripped, r0.hold.refusals) == (False, 0)


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["enter", "first", "leave", "wait", "down", "up", *Outcome]), st.integers(0, 8), st.floats(0, 30)
        ),
        max_size=80,
    )
)
def test_somebody_is_always_on_offer(steps):
    """Whatever is answered: while any replica is up one is chosen, no hold is longer than five seconds, and capacity is true."""
    clock = Clock()
    pool = make_pool(clock, 3)
    held = []
    for what, number, seconds in steps:
        replica, lease = pool.replicas[number % 3], held[number % len(held)] if held else None
        if what == "enter":
            held.append(enter(pool, replica))
        elif what == "wait":
            clock.now += seconds
        elif what in ("up", "down"):
            replica.up = what == "up"
        elif lease is not None and what == "first":
            lease.first_byte()
        elif lease is not None and what == "leave":
            leave(lease)
            held.remove(lease)
        elif lease is not None:
            lease.settle(what, seconds)
        ready, capacity = pool.ready(), pool.capacity()
        assert (pool.pick(Ask()) is not None) == any(one.up for one in pool.replicas) == bool(ready)
        assert pool.pick(Ask(), ready[:-1]) is not None or not ready
        assert all(stats.held_for <= 5 for stats in pool.stats())
        assert all(one.hold.until > clock.now and one.ready for one in pool.replicas if one.held)
        assert sum(not one.held for one in ready) > 0 or not ready
        if not any(one.breaker.tripped for one in pool.replicas):
            assert capacity == sum(min(one.slots, one.inflight) if one.held else one.slots for one in ready)
