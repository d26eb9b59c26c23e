"""Who gives a slot back for a realtime request, when, and what that costs: first one by one, then in any order that there is."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace
from queue_talk import bounds

from limits.entry import State
from limits.slots import NOTHING, Scheduler
from limits.waiting import GiveWay, Order, Priority, QueueFull, QueueTimeout, ReservedShare, SlotAsk, Spent, WaitTooLong

REALTIME, STANDARD, BATCH = Priority
WITHIN = 5.0


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Waiter:
    """A future of a loop whose timers never fire: the tests say when a deadline has come."""

    def __init__(self):
        self.woken = False

    def done(self):
        return self.woken

    def set_result(self, result, /):
        assert not self.woken, "woken once"
        self.woken = True

    def get_loop(self):
        return self

    def call_later(self, delay, callback, loop, /):
        return self

    def cancel(self):
        """The timer's."""


class Client:
    """One request. `willing`: nothing of its answer is there."""

    def __init__(self, pool, ask):
        self.pool, self.ask, self.willing, self.told, self.promised, self.entry = pool, ask, True, 0, False, None
        self.urgent_waited = pool.scheduler.queue.urgent(ask.priority)

    def order(self):
        assert not self.promised
        self.told += 1
        self.promised = self.willing
        return self.willing


class Pool:
    """A scheduler, and what a holder of its slots does."""

    def __init__(self, capacity, *, requeue=True, order=None, reserved=(), **bound):
        self.clock = Clock()
        self.scheduler = Scheduler(bounds(**bound), capacity, self.clock, order or Order(), reserved, GiveWay(WITHIN, requeue))
        self.waiting, self.running, self.gave_way = [], [], []

    def ask(self, priority=BATCH, tenant="acme", *, cost=10, life=1e6, since=None, due=None):
        deadline = self.clock.now + life
        ask = SlotAsk(priority, tenant, 1, 1, deadline, prompt=cost, since=since)
        return ask if due is None else replace(ask, due=due)

    def start(self, ask=None):
        client = Client(self, ask or self.ask())
        scheduler = self.scheduler
        if scheduler.inflight < scheduler.capacity:
            client.entry = scheduler.take(client.ask)
            self.run(client)
        else:
            client.entry = scheduler.join(client.ask, Waiter())
            self.waiting.append(client)
        self.wake()
        return client

    def run(self, client):
        self.running.append(client)
        self.scheduler.lend(client.entry, client.order)

    def wake(self):
        """Whoever was given a slot, or has lost its place, knows of it."""
        for client in list(self.waiting):
            if client.entry.state is not State.WAITING:
                self.waiting.remove(client)
                if client.entry.state is State.DISPATCHED:
                    self.run(client)

    def end(self, client, spent=None):
        self.running.remove(client)
        self.scheduler.settle(client.entry, spent)
        self.scheduler.release()
        self.wake()

    def give_way(self, client):
        assert client.promised
        since = client.entry.since
        self.end(client, NOTHING)
        self.gave_way.append(client)
        return self.start(replace(client.ask, since=since))

    def urgent(self):
        return self.start(self.ask(REALTIME, "globex"))


def full(capacity=1, **how):
    """A pool in which batch requests have all slots."""
    pool = Pool(capacity, **how)
    return pool, [pool.start(pool.ask(tenant=f"b{number}")) for number in range(capacity)]


def told(clients):
    return [client.told for client in clients]


def test_the_newest_batch_request_gives_way():
    """Least has been done for it. Its slot goes to the realtime request, and it is next when there is another one."""
    pool, clients = full(3)
    urgent = pool.urgent()
    assert told(clients) == [0, 0, 1]
    again = pool.give_way(clients[2])
    assert urgent.entry.state is State.DISPATCHED
    assert again.entry.state is State.WAITING
    pool.end(clients[0])
    assert again.entry.state is State.DISPATCHED


@pytest.mark.parametrize("willing", range(9))
def test_who_is_given_a_lent_slot_is_not_told_that_it_waits_too_long(willing):
    """As many as slots are given back for join; all others are refused, and nothing of them is left."""
    pool, clients = full(8, max_wait=(3.0, 100.0, 1e6), refuse_early=True)
    for client in clients[willing:]:
        client.willing = False
    pool.scheduler.queue.outlook.completed(10, 60.0)
    pool.start(pool.ask(tenant="b0"))
    let_in, refused = [], 0
    for _ in range(12):
        try:
            let_in.append(pool.urgent())
        except WaitTooLong:
            refused += 1
    assert refused
    assert willing <= len(let_in) <= max(1, willing)
    assert sum(client.promised for client in clients) == willing
    assert pool.scheduler.queue.depth(REALTIME) == len(let_in)
    for client in [one for one in clients if one.promised]:
        pool.give_way(client)
    assert sum(client.entry.state is State.DISPATCHED for client in let_in) == willing


def test_one_gives_way_for_each_that_waits():
    """Two realtime requests, two batch ones; a third that has all of them before it tells nobody."""
    pool, clients = full(2)
    for count in (1, 2, 2):
        pool.urgent()
        assert sum(told(clients)) == count
    assert told(clients) == [1, 1]


def test_who_has_sent_something_is_left_alone():
    """It says so, and the one before it is asked."""
    pool, clients = full(3)
    clients[2].willing = False
    pool.urgent()
    assert told(clients) == [0, 1, 1]
    assert [client.promised for client in clients] == [False, True, False]


def test_who_promised_and_cannot_keep_it_is_followed_by_another():
    """Its first byte came while the order was on its way: it keeps its slot, and another gives way."""
    pool, clients = full(2)
    urgent = pool.urgent()
    assert told(clients) == [0, 1]
    pool.scheduler.keep(clients[1].entry)
    assert told(clients) == [1, 1]
    pool.give_way(clients[0])
    assert urgent.entry.state is State.DISPATCHED


def test_nobody_gives_way_twice():
    """Who waits once more then runs to its end, whoever comes."""
    pool, clients = full(1)
    first = pool.urgent()
    again = pool.give_way(clients[0])
    pool.end(first)
    assert again.entry.state is State.DISPATCHED
    pool.urgent()
    assert again.told == 0


def test_what_ran_for_long_is_not_thrown_away():
    """Past `within` nobody is told, and who is younger is."""
    pool, clients = full(1)
    pool.clock.now += WITHIN + 0.1
    pool.scheduler.set_capacity(2)
    young = pool.start()
    pool.clock.now += WITHIN - 0.1
    pool.urgent()
    assert (clients[0].told, young.told) == (0, 1)
    pool.scheduler.keep(young.entry)
    assert clients[0].told == 0


def test_who_has_little_time_left_is_left_alone():
    """Half of what its client gives it has passed: waiting once more would be the end of it. And who named a deadline is."""
    pool = Pool(2)
    short = pool.start(pool.ask(life=4.0))
    hasty = pool.start(pool.ask(life=60.0, due=pool.clock.now + 60.0))
    pool.clock.now += 2.5
    pool.urgent()
    assert told([short, hasty]) == [0, 0]


@pytest.mark.parametrize("other", [REALTIME, STANDARD])
def test_what_batch_got_in_its_turn_is_not_taken_back(other):
    """A slot that batch got while others waited is its share of the pool."""
    pool = Pool(1)
    blocker = pool.start(pool.ask(REALTIME, cost=1000))
    batch, rest = pool.start(), pool.start(pool.ask(other, cost=10_000, tenant="globex"))
    pool.end(blocker)
    running = batch if batch.entry.state is State.DISPATCHED else rest
    while running is not batch:
        pool.end(running)
        running = pool.running[0]
        pool.start(pool.ask(other, cost=10_000, tenant="globex"))
    assert pool.waiting
    pool.urgent()
    assert batch.told == 0


@pytest.mark.parametrize("waits", [False, True], ids=["free", "waited"])
def test_what_a_tenant_has_reserved_is_not_taken_back(waits):
    """Batch work on its tenant's own slots stays; beyond them it is lent what others do not use, like anybody's."""
    pool = Pool(2, reserved=[ReservedShare("owner", slots=1)])
    blocker = [pool.start(pool.ask(REALTIME, "globex")) for _ in range(2)] if waits else []
    mine, beyond = [pool.start(pool.ask(tenant="owner")) for _ in range(2)]
    for one in blocker:
        pool.end(one)
    pool.urgent()
    assert told([mine, beyond]) == [0, 1]
    pool.scheduler.keep(beyond.entry)
    pool.urgent()
    assert mine.told == 0


@pytest.mark.parametrize("priority", [REALTIME, STANDARD])
def test_only_batch_gives_way(priority):
    """And what was raised from batch, because somebody more urgent shares it, is no batch any more."""
    pool = Pool(1)
    running = pool.start(pool.ask(priority))
    pool.urgent()
    assert running.told == 0
    pool = Pool(1)
    blocker, raised = pool.start(pool.ask(REALTIME)), pool.start()
    pool.scheduler.raise_priority(raised.entry, priority)
    pool.end(blocker)
    pool.urgent()
    assert raised.told == 0


@pytest.mark.parametrize("priority", [STANDARD, BATCH])
def test_it_gives_way_to_realtime_alone(priority):
    """Until the one that waits is raised to it."""
    pool, clients = full(1)
    waiting = pool.start(pool.ask(priority))
    assert told(clients) == [0]
    pool.scheduler.raise_priority(waiting.entry, REALTIME)
    assert told(clients) == [1]


def test_nobody_gives_way_to_those_who_would_not_get_the_slot():
    """It is batch's turn, or there are slots too many in use."""
    pool = Pool(1)
    pool.end(pool.start(pool.ask(REALTIME, cost=1)))
    batch = pool.start(pool.ask(cost=1))
    pool.start(pool.ask(cost=1))
    pool.start(pool.ask(REALTIME, cost=1_000_000))
    assert batch.told == 0
    pool, clients = full(2)
    pool.scheduler.set_capacity(1)
    pool.urgent()
    assert told(clients) == [0, 0]


@pytest.mark.parametrize("requeue", [True, False])
def test_there_has_to_be_room_to_wait(requeue):
    """A request that could not wait again is not made to; one that is to be refused needs no room."""
    pool, clients = full(1, requeue=requeue, max_requests=1)
    pool.urgent()
    assert told(clients) == [0 if requeue else 1]


def test_an_old_place_in_line_is_before_those_who_came_later():
    """Also for who is the oldest of a class, and for who is pushed out as the newest."""
    pool = Pool(1, max_requests=3)
    first = pool.start(pool.ask(cost=10))
    pool.clock.now += 1
    second = pool.start(pool.ask(cost=10))
    pool.urgent()
    again = pool.give_way(first)
    line = pool.scheduler.queue._lines[BATCH]
    assert list(line.entries) == [again.entry, second.entry]
    assert line.head() is again.entry
    pool.urgent()
    pool.start(pool.ask(REALTIME, "initech"))
    assert second.entry.state is State.PUSHED_OUT
    assert again.entry.state is State.WAITING


def test_its_tenant_pays_nothing_and_its_class_what_it_was_lent():
    """So its tenant is not behind others for a slot that it gave back, and batch has no claim to make up for it."""
    pool, clients = full(1)
    line = pool.scheduler.queue._lines[BATCH]
    lent = line.account.counter
    assert clients[0].entry.account.counter == 10
    urgent = pool.urgent()
    pool.end(clients[0], NOTHING)
    assert line.account.counter == lent > 0
    assert clients[0].entry.account.counter == 0
    again = pool.start(replace(clients[0].ask, since=clients[0].entry.since))
    pool.end(urgent)
    pool.end(again, Spent(7, 0, whole=True))
    assert again.entry.account.counter == 7
    assert {one.account.running for one in pool.scheduler.queue._lines} == {0}


def test_who_is_told_and_ends_meanwhile_is_charged_as_ever():
    """Its answer came before the order did."""
    pool, clients = full(1)
    pool.urgent()
    pool.end(clients[0], Spent(3, 1, whole=True))
    assert clients[0].entry.account.counter == 5


def test_batch_has_its_share_under_endless_realtime_work():
    """A realtime request always waits, and each that comes claims: batch is served its share of tokens all the same."""
    pool, _ = full(2)
    for number in range(3):
        pool.start(pool.ask(tenant=f"w{number}"))
    done = {REALTIME: 0, BATCH: 0}
    for _ in range(2000):
        while pool.scheduler.depth(REALTIME) < 2:
            pool.urgent()
        for client in [client for client in pool.running if client.promised]:
            pool.give_way(client)
        client = pool.running[0]
        done[client.ask.priority] += 1
        pool.end(client, Spent(10, 0, whole=True))
        if client.ask.priority is BATCH:
            pool.start(pool.ask(tenant=client.ask.tenant))
    assert done[BATCH] * 17 >= done[REALTIME] + done[BATCH] - 17 * 4


@settings(max_examples=60, deadline=None)
@given(weights=st.tuples(*[st.integers(1, 16)] * 3), seed=st.integers(0, 2**32), slots=st.integers(1, 5))
def test_the_shares_hold_in_any_window_whoever_claims(weights, seed, slots):
    """From when a realtime and a batch request always wait, what their classes are served by weight differs by at most a largest
    cost of each, in any window: what gave way before was lent, and what is served from then on is nobody's to take back.
    """
    rng, pool = random.Random(seed), Pool(slots, weights=weights)
    for _ in range(slots + 2):
        pool.start(pool.ask(tenant=rng.choice("ab"), cost=rng.randint(1, 100)))
    served = []
    for _ in range(150):
        for priority in (REALTIME, BATCH):
            while pool.scheduler.depth(priority) < 3:
                pool.start(pool.ask(priority, rng.choice("abc"), cost=rng.randint(1, 100)))
        before = {client.entry for client in pool.running}
        promised = [client for client in pool.running if client.promised]
        if promised:
            pool.give_way(promised[0])
        else:
            pool.end(rng.choice(pool.running))
        [new] = [client.entry for client in pool.running if client.entry not in before]
        served.append((new.priority, new.cost / weights[new.priority]))
    level = least = most = 0.0
    for priority, amount in served:
        level += amount if priority is REALTIME else -amount
        least, most = min(least, level), max(most, level)
    assert most - least <= 100 / weights[REALTIME] + 100 / weights[BATCH] + 1e-6


class Giving(RuleBasedStateMachine):
    """Every order in which a pool's requests can come, send, end, give way, refuse to, leave, be raised and run out of time."""

    @initialize(
        capacity=st.integers(1, 4),
        requeue=st.booleans(),
        order=st.sampled_from([Order(), Order(promote_after=10.0), Order(0.1)]),
        room=st.integers(1, 12),
    )
    def begin(self, capacity, requeue, order, room):
        self.pool = Pool(capacity, requeue=requeue, order=order, max_requests=room, max_wait=(30.0, 40.0, 50.0))
        self.requeue = requeue
        self.came = self.ended = 0

    def started(self, ask):
        before = list(self.pool.waiting)
        orders = dict(self.lent._orders)
        try:
            client = self.pool.start(ask)
        except (QueueFull, QueueTimeout):
            assert self.lent._orders == orders
            self.count(before)
            return None
        self.count([other for other in before if other is not client])
        return client

    def count(self, before):
        """Of those that waited, who was pushed out or ran out of time."""
        self.ended += sum(client.entry.state in (State.PUSHED_OUT, State.EXPIRED, State.CANCELLED) for client in before)

    @property
    def lent(self):
        return self.pool.scheduler._lent

    @rule(priority=st.sampled_from(Priority), tenant=st.sampled_from("ab"), cost=st.integers(1, 500), life=st.floats(1, 60))
    def arrive(self, priority, tenant, cost, life):
        client = self.started(self.pool.ask(priority, tenant, cost=cost, life=life))
        self.came += client is not None

    @precondition(lambda self: self.pool.running)
    @rule(data=st.data(), spent=st.sampled_from([None, NOTHING, Spent(5, 5, whole=True), Spent(9, 0, whole=False)]))
    def end(self, data, spent):
        client = data.draw(st.sampled_from(self.pool.running))
        before = list(self.pool.waiting)
        self.pool.end(client, spent)
        self.ended += 1
        self.count(before)

    @precondition(lambda self: any(client.promised for client in self.pool.running))
    @rule(data=st.data(), keeps=st.booleans())
    def obey(self, data, keeps):
        client = data.draw(st.sampled_from([client for client in self.pool.running if client.promised]))
        if keeps:
            client.promised = client.willing = False
            self.pool.scheduler.keep(client.entry)
            return
        entry, before = client.entry, list(self.pool.waiting)
        self.pool.end(client, NOTHING)
        self.count(before)
        assert entry.ask.since is None, "nobody gives way twice"
        again = self.started(replace(client.ask, since=entry.since)) if self.requeue else None
        self.ended += again is None

    @precondition(lambda self: self.pool.running)
    @rule(data=st.data())
    def first_byte(self, data):
        client = data.draw(st.sampled_from(self.pool.running))
        client.willing = client.promised = False
        self.pool.scheduler.keep(client.entry)

    @precondition(lambda self: self.pool.waiting)
    @rule(data=st.data())
    def leave(self, data):
        client = data.draw(st.sampled_from(self.pool.waiting))
        self.pool.scheduler.abandon(client.entry)
        self.pool.wake()
        self.ended += 1

    @precondition(lambda self: self.pool.waiting)
    @rule(data=st.data(), priority=st.sampled_from(Priority))
    def raised(self, data, priority):
        self.pool.scheduler.raise_priority(data.draw(st.sampled_from(self.pool.waiting)).entry, priority)

    @rule(seconds=st.floats(0, 8))
    def time_passes(self, seconds):
        self.pool.clock.now += seconds
        before = list(self.pool.waiting)
        self.pool.scheduler.queue.expire(self.pool.clock.now)
        self.pool.wake()
        self.count(before)

    @rule(capacity=st.integers(0, 4))
    def resized(self, capacity):
        before = list(self.pool.waiting)
        self.pool.scheduler.set_capacity(capacity)
        self.pool.wake()
        self.count(before)

    @invariant()
    def nothing_leaks_and_nobody_ends_twice(self):
        pool, scheduler, lent = self.pool, self.pool.scheduler, self.lent
        assert self.came == self.ended + len(pool.waiting) + len(pool.running)
        assert scheduler.inflight == len(pool.running)
        assert not pool.waiting or scheduler.inflight >= scheduler.capacity, "nobody waits while a slot is free"
        assert {client.entry for client in pool.waiting} == {entry for line in scheduler.queue._lines for entry in line.entries}
        running = {client.entry: client for client in pool.running}
        assert lent._holders.keys() <= running.keys()
        assert lent._orders.keys() == {entry for entry, client in running.items() if client.promised}
        assert len(set(lent._orders.values())) == len(lent._orders), "one for each claimant"
        for entry in lent._orders:
            assert entry.priority is BATCH
            assert entry.lent
            assert entry.ask.since is None
        assert sum(line.account.running for line in scheduler.queue._lines) == len(running)
        for line in scheduler.queue._lines:
            came = [entry.since for entry in line.entries]
            assert came == sorted(came)


class TestGiving(Giving.TestCase):
    """In every order: each request ends once, no slot is lost or idle, only what was lent is asked back, and by one claimant."""

    settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
