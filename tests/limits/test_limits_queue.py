"""The order of the waiting line, without a clock or a loop."""

import math
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from queue_talk import Nobody

from limits.drain import Drain
from limits.entry import Entry, State
from limits.scheduler import Queue
from limits.waiting import Priority, QueueBounds, QueueFull, QueueTimeout, SlotAsk

REALTIME, STANDARD, BATCH = Priority
FAR = 10_000.0


def bounds(**change) -> QueueBounds:
    given = {"max_requests": 1000, "max_bytes": 10**9, "max_tokens": 10**9, "max_wait": (FAR, FAR, FAR)}
    return QueueBounds(**(given | change))


def push(queue: Queue, priority=STANDARD, tenant="acme", *, now=0.0, tokens=1, size=1, deadline=FAR, weight=1) -> Entry:
    return queue.push(SlotAsk(priority, tenant, tokens, size, deadline, weight), Nobody(), now)[0]


def drain(queue: Queue, now=0.0) -> list[Entry]:
    served = []
    while (entry := queue.head(0.0)) is not None:
        queue.dispatch(entry, now)
        served.append(entry)
    return served


def test_first_come_first_served_within_a_tenant():
    """One tenant's requests of one class leave in the order in which they came."""
    queue = Queue(bounds())
    entries = [push(queue) for _ in range(20)]
    assert drain(queue) == entries
    assert len(queue) == 0


def test_tenants_take_turns():
    """A tenant with a hundred waiting does not delay another's single request by more than one turn."""
    queue = Queue(bounds())
    for _ in range(100):
        push(queue, tenant="flood")
    push(queue, tenant="small")
    assert [entry.ask.tenant for entry in drain(queue)][:3] == ["flood", "small", "flood"]


def test_turns_are_weighted():
    """A tenant of weight 3 is served three times for each time that one of weight 1 is."""
    queue = Queue(bounds())
    for _ in range(12):
        push(queue, tenant="heavy", weight=3)
        push(queue, tenant="light")
    names = [entry.ask.tenant for entry in drain(queue)][:16]
    assert [names[i : i + 4].count("heavy") for i in range(0, 16, 4)] == [3, 3, 3, 3]


@pytest.mark.parametrize("weight", [0, -5])
def test_senseless_weight_counts_as_one(weight):
    """A weight below one still gets its turn."""
    queue = Queue(bounds())
    for _ in range(3):
        push(queue, tenant="odd", weight=weight)
        push(queue, tenant="even")
    assert [entry.ask.tenant for entry in drain(queue)] == ["odd", "even"] * 3


def test_classes_share_by_weight():
    """While all classes wait, they are served 16 to 4 to 1."""
    queue = Queue(bounds())
    for _ in range(300):
        for priority in Priority:
            push(queue, priority)
    served = [entry.priority for entry in drain(queue)][:210]
    assert [served.count(priority) for priority in Priority] == [160, 40, 10]


def test_urgent_goes_first_when_both_are_new():
    """Of two that come together the more urgent is served first, whatever came before."""
    queue = Queue(bounds())
    push(queue, BATCH)
    push(queue, STANDARD)
    push(queue, REALTIME)
    assert [entry.priority for entry in drain(queue)] == [REALTIME, STANDARD, BATCH]


@given(
    weights=st.tuples(*[st.integers(1, 40)] * 3),
    waiting=st.sampled_from(Priority),
    before=st.integers(0, 60),
    arrivals=st.randoms(use_true_random=False),
)
@settings(max_examples=200)
def test_no_class_starves(weights, waiting, before, arrivals):
    """Among endless work of all other classes, one request is served within the stated number of dispatches."""
    queue = Queue(bounds(weights=weights, max_requests=10**6))
    others = [priority for priority in Priority if priority is not waiting]
    for _ in range(before):
        push(queue, arrivals.choice(others))
        if arrivals.random() < 0.9:
            queue.dispatch(queue.head(0.0), 0.0)
    for priority in others:
        push(queue, priority)
    entry = push(queue, waiting, tenant="lonely")
    bound = sum(weights[other] // weights[waiting] + 1 for other in others)
    for _ in range(bound):
        for priority in others:
            push(queue, priority)
        head = queue.head(0.0)
        queue.dispatch(head, 0.0)
        if head is entry:
            return
    assert queue.head(0.0) is entry


def test_giving_up_costs_the_class_nothing():
    """Requests that come and go unserved do not push back the ones of their class that come after."""
    queue = Queue(bounds())
    for _ in range(1000):
        queue.cancel(push(queue, BATCH), 0.0)
    batch = push(queue, BATCH)
    for _ in range(16):
        push(queue, REALTIME)
        queue.dispatch(queue.head(0.0), 0.0)
    push(queue, REALTIME)
    assert queue.head(0.0) is batch


def test_idleness_earns_nothing():
    """A class that was away for long does not catch up on what it did not use."""
    queue = Queue(bounds())
    for _ in range(500):
        push(queue, REALTIME)
        queue.dispatch(queue.head(0.0), 0.0)
    for _ in range(40):
        push(queue, REALTIME)
        push(queue, BATCH)
    assert [entry.priority for entry in drain(queue)][:17].count(BATCH) <= 1


def test_raise_goes_to_the_end_of_the_tenants_urgent_line():
    """A raised request is served after those of its tenant that were in that class before it, not before."""
    queue = Queue(bounds())
    low = push(queue, BATCH)
    first = push(queue, REALTIME)
    queue.raise_priority(low, REALTIME, 0.0)
    second = push(queue, REALTIME)
    assert (queue.depth(REALTIME), queue.depth(BATCH)) == (3, 0)
    assert drain(queue) == [first, low, second]


@pytest.mark.parametrize("priority", [STANDARD, BATCH])
def test_raise_never_lowers(priority):
    """To raise to the same or a lower class changes nothing."""
    queue = Queue(bounds())
    entry = push(queue, STANDARD)
    queue.raise_priority(entry, priority, 0.0)
    assert (entry.priority, queue.depth(STANDARD)) == (STANDARD, 1)


def test_raise_after_the_end_changes_nothing():
    """A request that was served or is gone cannot be raised back into the line."""
    queue = Queue(bounds())
    served, gone = push(queue, BATCH), push(queue, BATCH)
    queue.dispatch(served, 0.0)
    queue.cancel(gone, 0.0)
    for entry in (served, gone):
        queue.raise_priority(entry, REALTIME, 0.0)
    assert len(queue) == 0
    assert queue.head(0.0) is None


def test_raise_never_shortens_the_wait():
    """Who is raised keeps its own deadline if the urgent class waits less, and gains if it waits more."""
    queue = Queue(bounds(max_wait=(5.0, 100.0, 20.0)))
    patient, hasty = push(queue, STANDARD), push(queue, BATCH)
    queue.raise_priority(patient, REALTIME, 10.0)
    queue.raise_priority(hasty, STANDARD, 10.0)
    assert (patient.deadline, hasty.deadline) == (100.0, 110.0)
    assert queue.next_deadline() == 100.0
    assert queue.expire(100.0) == [patient]
    assert queue.expire(110.0) == [hasty]


def test_each_waits_as_long_as_its_class_and_itself_allow():
    """The earlier of the class's wait and the request's own deadline ends the wait, for those only whose time it is."""
    queue = Queue(bounds(max_wait=(10.0, 30.0, 300.0)))
    realtime = push(queue, REALTIME, now=1.0)
    hasty = push(queue, BATCH, now=1.0, deadline=8.0)
    batch = push(queue, BATCH, now=1.0)
    assert queue.next_deadline() == 8.0
    assert queue.expire(7.999) == []
    assert queue.expire(8.0) == [hasty]
    assert queue.expire(11.0) == [realtime]
    assert (realtime.state, realtime.waited, type(realtime.failure)) == (State.EXPIRED, 10.0, QueueTimeout)
    assert realtime.failure.waited == 10.0
    assert queue.next_deadline() == 301.0
    assert drain(queue) == [batch]
    assert queue.next_deadline() is None


def test_many_can_expire_at_once():
    """All whose time has come are ended together, and the rest stays in order."""
    queue = Queue(bounds())
    entries = [push(queue, deadline=5.0 if i % 2 else FAR) for i in range(100)]
    assert queue.expire(5.0) == entries[1::2]
    assert drain(queue) == entries[::2]


@pytest.mark.parametrize("deadline", [0.0, -1.0, 10.0])
def test_deadline_that_has_passed_is_not_queued(deadline):
    """Who comes too late is told so at once."""
    queue = Queue(bounds())
    with pytest.raises(QueueTimeout) as late:
        push(queue, now=10.0, deadline=deadline)
    assert late.value.waited == 0.0
    assert len(queue) == 0


def test_deadline_that_is_no_number_falls_back_to_the_class():
    """A NaN cannot spoil the order of the deadlines."""
    queue = Queue(bounds(max_wait=(1.0, 2.0, 3.0)))
    entry = push(queue, STANDARD, deadline=math.nan)
    assert entry.deadline == 2.0
    queue.raise_priority(entry, REALTIME, 10.0)
    assert entry.deadline == 11.0


def test_ended_entries_are_not_kept():
    """However many time out, are cancelled or served, what is remembered stays near what waits."""
    queue = Queue(bounds(max_requests=10**6))
    for i in range(20_000):
        entry = push(queue, Priority(i % 3), f"tenant{i % 7}", deadline=FAR - i % 100)
        if i % 2:
            queue.cancel(entry, 0.0)
        else:
            queue.dispatch(queue.head(0.0), 0.0)
        assert len(queue._deadlines) <= 2 * len(queue) + 64
    assert (len(queue), queue._tenants, queue._borrowers) == (0, {}, {})
    assert not any(line.entries or line._tenants for line in queue._lines)
    assert (queue.load.requests, queue.load.bytes, queue.load.tokens) == (0, 0, 0)


def test_endless_raising_keeps_no_leftovers():
    """Raising leaves old deadlines behind; they are swept as well."""
    queue = Queue(bounds(max_wait=(300.0, 200.0, 100.0)))
    for i in range(1000):
        entry = push(queue, BATCH, now=float(i), deadline=10**6)
        queue.raise_priority(entry, STANDARD, float(i))
        queue.raise_priority(entry, REALTIME, float(i))
        queue.cancel(entry, float(i))
    assert len(queue._deadlines) <= 64


@pytest.mark.parametrize("limit", [{"max_requests": 4}, {"max_bytes": 40}, {"max_tokens": 400}])
def test_each_bound_refuses(limit):
    """Requests, bytes and tokens are each bounded, and a refusal leaves the line as it was."""
    queue = Queue(bounds(**limit))
    entries = [push(queue, tokens=100, size=10) for _ in range(4)]
    with pytest.raises(QueueFull) as full:
        push(queue, tokens=100, size=10)
    assert not full.value.tenant
    assert drain(queue) == entries
    push(queue, tokens=100, size=10)


@pytest.mark.parametrize("ask", [{"size": 41}])
def test_ask_beyond_the_whole_bound_pushes_nobody_out(ask):
    """A request that would not fit into an empty line is refused, however urgent."""
    queue = Queue(bounds(max_bytes=40, max_tokens=400))
    waiting = push(queue, BATCH, "other")
    with pytest.raises(QueueFull):
        push(queue, REALTIME, **ask)
    assert queue.head(0.0) is waiting


def test_urgent_pushes_out_the_newest_of_the_least_urgent():
    """In a full line the newest batch request makes room for a realtime one, and is told that the pool is full."""
    queue = Queue(bounds(max_requests=4, tenant_share=1.0))
    standard, old, new = push(queue, STANDARD), push(queue, BATCH, "b"), push(queue, BATCH, "b")
    last = push(queue, BATCH, "b")
    _, victims = queue.push(SlotAsk(REALTIME, "acme", 1, 1, FAR), Nobody(), 1.0)
    assert victims == [last]
    entry, victims = queue.push(SlotAsk(REALTIME, "acme", 1, 1, FAR), Nobody(), 1.0)
    assert victims == [new]
    assert (new.state, new.failure.tenant, new.waited) == (State.PUSHED_OUT, False, 1.0)
    assert (standard.state, old.state, entry.state, len(queue)) == (*[State.WAITING] * 3, 4)
    with pytest.raises(QueueFull):
        push(queue, STANDARD, "c")


def test_large_ask_pushes_out_as_many_as_it_needs():
    """One large request may need the room of several; no more than needed go."""
    queue = Queue(bounds(max_tokens=100, tenant_share=1.0))
    entries = [push(queue, BATCH, f"t{i}", tokens=10) for i in range(10)]
    _, victims = queue.push(SlotAsk(REALTIME, "acme", 35, 1, FAR), Nobody(), 0.0)
    assert victims == entries[:5:-1]


def test_nobody_is_pushed_out_in_vain():
    """When even pushing out all that may go would not be enough, none goes."""
    queue = Queue(bounds(max_tokens=100, tenant_share=1.0))
    push(queue, REALTIME, "a", tokens=60)
    batch = push(queue, BATCH, "b", tokens=40)
    with pytest.raises(QueueFull):
        push(queue, REALTIME, "c", tokens=41)
    assert batch.state is State.WAITING


def test_lone_tenant_may_fill_the_line():
    """The share binds only while others want room; a tenant alone is told that the pool is full."""
    queue = Queue(bounds(max_requests=10))
    for _ in range(10):
        push(queue)
    with pytest.raises(QueueFull) as full:
        push(queue)
    assert not full.value.tenant


def test_lone_tenant_gives_way_to_its_own_urgent_work():
    """Alone in a full line, urgent work pushes out the tenant's own batch work, because the pool is full."""
    queue = Queue(bounds(max_requests=10))
    batch = [push(queue, BATCH) for _ in range(10)]
    push(queue, REALTIME)
    assert (batch[-1].state, batch[-1].failure.tenant) == (State.PUSHED_OUT, False)


def test_borrowed_room_is_given_back():
    """Another tenant gets in up to its share, at the cost of the newest of the one beyond; then that one is told so."""
    queue = Queue(bounds(max_requests=10))
    flood = [push(queue, tenant="flood") for _ in range(10)]
    for _ in range(5):
        push(queue, tenant="small")
    assert [entry.state for entry in flood] == [State.WAITING] * 5 + [State.PUSHED_OUT] * 5
    assert all(entry.failure.tenant for entry in flood[5:])
    for tenant in ("flood", "small"):
        with pytest.raises(QueueFull) as full:
            push(queue, tenant=tenant)
        assert full.value.tenant
    with pytest.raises(QueueFull) as full:
        push(queue, tenant="third")
    assert not full.value.tenant


def test_borrowed_room_goes_first_then_less_urgent_work():
    """A large urgent request takes what was borrowed, and only the rest from tenants within their share."""
    queue = Queue(bounds(max_tokens=100))
    flood = [push(queue, BATCH, "flood", tokens=10) for _ in range(7)]
    other = [push(queue, BATCH, "other", tokens=10) for _ in range(2)]
    flood.append(push(queue, BATCH, "flood", tokens=10))
    _, victims = queue.push(SlotAsk(REALTIME, "third", 50, 1, FAR), Nobody(), 0.0)
    assert victims == [*flood[:4:-1], *other[::-1]]
    assert [entry.failure.tenant for entry in victims] == [True, True, True, False, False]


@pytest.mark.parametrize("ask", [{"size": 100}, {"tokens": 100}])
def test_share_is_of_bytes_and_tokens_too(ask):
    """A few huge requests cannot hold all bytes or tokens against another tenant."""
    queue = Queue(bounds(max_bytes=400, max_tokens=400))
    huge = [push(queue, tenant="huge", **ask) for _ in range(3)]
    push(queue, tenant="small", **ask)
    push(queue, tenant="small", **ask)
    assert [entry.state for entry in huge] == [State.WAITING, State.WAITING, State.PUSHED_OUT]


@pytest.mark.parametrize("flood", Priority)
@pytest.mark.parametrize("small", Priority)
def test_borrowed_room_is_taken_back_from_every_class(flood, small):
    """Half of the queue is there for others, whatever their class and the flood's."""
    queue = Queue(bounds(max_requests=10))
    entries = [push(queue, flood, "flood") for _ in range(10)]
    for _ in range(5):
        push(queue, small, "small")
    assert [entry.state for entry in entries] == [State.WAITING] * 5 + [State.PUSHED_OUT] * 5


@pytest.mark.parametrize("priority", Priority)
def test_a_class_has_a_part_of_a_queue_that_others_fill(priority):
    """Where sixty tenants fill the queue and none borrows, each class has its part, at the cost of the newest beyond theirs."""
    queue = Queue(bounds(max_requests=100))
    flood = REALTIME if priority is not REALTIME else BATCH
    entries = [push(queue, flood, f"t{number % 60}") for number in range(100)]
    part = 1 + 97 * (16, 4, 1)[priority] // 21
    for _ in range(min(part, 50)):
        push(queue, priority, "small")
    assert [entry.state for entry in entries] == [State.WAITING] * (100 - min(part, 50)) + [State.PUSHED_OUT] * min(part, 50)
    if priority is BATCH:
        with pytest.raises(QueueFull):
            push(queue, BATCH, "small")


def test_a_request_that_names_more_tokens_than_may_wait_waits_alone():
    """It is not told for ever that an empty queue is full; it borrows all, and gives way to who is within its share."""
    queue = Queue(bounds(max_tokens=400))
    large = push(queue, tokens=10**7)
    assert queue.load.tokens == 400
    push(queue, BATCH, "other", tokens=100)
    assert large.state is State.PUSHED_OUT


def test_tenant_beyond_its_share_pushes_out_only_its_own():
    """Beyond its share an urgent request takes the place of its tenant's own batch work, never of another's."""
    queue = Queue(bounds(max_requests=6))
    other = [push(queue, BATCH, "other") for _ in range(2)]
    own = [push(queue, BATCH, "flood") for _ in range(4)]
    entry, victims = queue.push(SlotAsk(REALTIME, "flood", 1, 1, FAR), Nobody(), 0.0)
    assert victims == [own[-1]]
    assert own[-1].failure.tenant
    assert all(entry.state is State.WAITING for entry in [*other, entry])


@pytest.mark.parametrize("bound", ["max_requests", "max_bytes", "max_tokens"])
def test_bound_of_zero_means_no_queue(bound):
    """Where nothing may wait, everything that would have to is refused."""
    with pytest.raises(QueueFull):
        push(Queue(bounds(**{bound: 0})))


class TestDrain:
    def test_nothing_measured_is_the_least(self):
        """Before anything has left a new queue, the shortest wait is told."""
        drain = Drain()
        drain.begin(50.0)
        assert drain.wait(1000, 50.1) == 1.0

    def test_rate_is_what_left_per_second(self):
        """Ten a second and a hundred waiting: ten seconds."""
        drain = Drain()
        drain.begin(100.0)
        for i in range(300):
            drain.note(100.0 + i / 10)
        assert drain.wait(100, 130.0) == pytest.approx(10.0, rel=0.02)
        assert drain.wait(1, 130.0) == 1.0
        assert drain.wait(10**6, 130.0) == 60.0

    def test_early_rate_is_used_but_not_trusted_below_a_second(self):
        """Five in the first tenth of a second count as five a second."""
        drain = Drain()
        drain.begin(0.0)
        for _ in range(5):
            drain.note(0.1)
        assert drain.wait(50, 0.1) == 10.0
        assert drain.wait(50, 5.0) == 50.0

    def test_stall_is_the_most(self):
        """When nothing has left for two windows, the longest wait is told."""
        drain = Drain()
        drain.begin(0.0)
        for _ in range(1000):
            drain.note(1.0)
        assert drain.wait(10, 35.0) == 60.0

    def test_old_measurements_do_not_speak_for_a_new_queue(self):
        """After a quiet time a queue that forms anew starts to measure anew."""
        drain = Drain()
        drain.begin(0.0)
        drain.note(1.0)
        drain.begin(500.0)
        assert drain.wait(10, 500.0) == 1.0

    @given(st.lists(st.floats(0, 15), max_size=60), st.integers(1, 10**6))
    def test_always_within_bounds(self, pauses, depth):
        """Whatever was measured, the answer lies between one second and a minute, and grows with the depth."""
        drain, now = Drain(), 0.0
        drain.begin(now)
        for pause in pauses:
            now += pause
            drain.note(now)
        waits = [drain.wait(depth * factor, now) for factor in (1, 2, 4)]
        assert all(1.0 <= shorter <= longer <= 60.0 for shorter, longer in pairwise(waits))


def test_refusal_says_when_from_the_measured_drain():
    """The queue's own dispatches are what a refusal's retry_after is made of, and some seconds by chance."""
    queue = Queue(bounds(max_requests=40))
    for i in range(200):
        push(queue, now=i / 10)
        if i >= 20:
            queue.dispatch(queue.head(0.0), i / 10)
    for _ in range(20):
        push(queue, now=20.0)
    with pytest.raises(QueueFull) as full:
        push(queue, now=20.0)
    assert 3.6 <= full.value.retry_after <= 8.4
