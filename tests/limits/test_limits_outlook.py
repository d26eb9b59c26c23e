"""How long who joins would wait, and who is told at once that it is too long."""

import math
import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from queue_talk import FAR, Nobody, bounds

from limits.drain import spread
from limits.line import Line
from limits.outlook import Pace
from limits.provisioned import ReservedQueue
from limits.scheduler import Queue
from limits.shelf import Shelf
from limits.slots import Scheduler
from limits.view import classes, place
from limits.waiting import Order, Priority, QueueBounds, QueueFull, QueueTimeout, ReservedShare, SlotAsk, WaitTooLong

REALTIME, STANDARD, BATCH = Priority
MAX_WAIT = (30.0, 60.0, 240.0)


def ask(tenant="acme", priority=STANDARD, *, prompt=100, output=0, weight=1, deadline=FAR) -> SlotAsk:
    return SlotAsk(priority, tenant, 1, 1, deadline, weight, prompt=prompt, output=output)


def told(*, slots=1, seconds=1.0, order=None, max_wait=MAX_WAIT, **change) -> Queue:
    """A queue in front of so many slots, each of which is known to need so long for 100 tokens."""
    queue = Queue(bounds(max_wait=max_wait, refuse_early=True, **change), order or Order(), random.Random(1))
    queue.outlook.slots = slots
    queue.outlook.completed(100, seconds)
    return queue


def join(queue, *asks, now=0.0):
    return [queue.push(one, Nobody(), now)[0] for one in asks]


def many(count, *args, **kwargs):
    return [ask(*args, **kwargs) for _ in range(count)]


def test_an_own_line_is_waited_for_at_the_pace_of_all_slots():
    """Ten requests of a second each before it, on two slots: five seconds."""
    queue = told(slots=2)
    join(queue, *many(10))
    assert queue.expected(ask(), 0.0) == pytest.approx(5.0)


def test_tenants_share_the_pace_by_weight():
    """Beside one that waits too, a tenant's own line takes twice as long; with three times its weight, four thirds."""
    queue = told(max_wait=(FAR, FAR, FAR))
    join(queue, *many(10), *many(50, "globex"))
    assert queue.expected(ask(), 0.0) == pytest.approx(20.0)
    heavy = told(max_wait=(FAR, FAR, FAR))
    join(heavy, *many(10, weight=3), *many(50, "globex"))
    assert heavy.expected(ask(weight=3), 0.0) == pytest.approx(40 / 3)


def test_a_tenant_that_waits_for_nothing_does_not_wait_for_anothers_line():
    """However much of another tenant's waits, who has nothing waiting is next."""
    queue = told(max_wait=(FAR, FAR, FAR))
    join(queue, *many(500))
    assert queue.expected(ask("globex"), 0.0) == 0.0


def test_a_class_goes_by_its_share():
    """Batch has a part of 21 while all wait, and so many times the wait, but never longer than all that waits now takes."""
    queue = told(max_wait=(FAR, FAR, FAR))
    join(queue, *many(500, priority=REALTIME), *many(100, priority=STANDARD), *many(10, priority=BATCH))
    assert queue.expected(ask(priority=BATCH), 0.0) == pytest.approx(210.0)
    few = told(max_wait=(FAR, FAR, FAR))
    join(few, *many(20, priority=REALTIME), *many(5, priority=STANDARD), *many(10, priority=BATCH))
    assert few.expected(ask(priority=BATCH), 0.0) == pytest.approx(35.0)


def test_batch_is_let_in_under_a_flood_of_realtime():
    """A batch request that would be the next of its class is not refused for what waits in others."""
    queue = told(max_wait=(FAR, FAR, 1.0))
    join(queue, *many(1000, priority=REALTIME))
    join(queue, ask("globex", BATCH))


def test_strict_classes_count_the_more_urgent_and_age():
    """Where the most urgent go first, batch waits until age has promoted it, and then for what was there by then."""
    queue = told(order=Order(promote_after=30.0), max_wait=(FAR, FAR, FAR))
    join(queue, *many(1000, priority=REALTIME), *many(100, priority=BATCH))
    assert queue.expected(ask(priority=BATCH), 0.0) == pytest.approx(200.0)
    for second in range(1, 61):
        queue.dispatch(queue.head(1.0), float(second))
    assert queue.expected(ask(priority=BATCH), 60.0) == pytest.approx(60 + 1040.0)


def test_the_pace_is_measured():
    """Four slots of which three stand still: what is known of a slot says a quarter of the wait, the pace says most of it."""
    queue = told(slots=4, max_wait=(FAR, FAR, FAR))
    join(queue, *many(200))
    assert queue.expected(ask(), 0.0) == pytest.approx(50.0)
    for second in range(1, 101):
        queue.dispatch(queue.head(0.0), float(second))
    assert 75.0 < queue.expected(ask(), 100.0) <= 100.0


def test_who_is_put_back_waits_longer():
    """Of two that join now the one that is thought to be longer waits longer, for the others that come meanwhile too."""
    queue = told(order=Order(0.03, 512), max_wait=(FAR, FAR, FAR))
    join(queue, *many(30))
    short, long = (queue.expected(ask(output=output), 0.0) for output in (0, 512))
    assert short == pytest.approx(30.0)
    assert long == pytest.approx(30 + 512 * 0.03 * 2 / 3)


def test_what_stands_behind_is_not_waited_for():
    """A short one overtakes the long ones that came just before it."""
    queue = told(order=Order(0.03, 512), max_wait=(FAR, FAR, FAR))
    join(queue, *many(10, output=512))
    assert queue.expected(ask(output=1), 0.0) == 0.0
    assert queue.expected(ask(output=1), 16.0) > 10.0


def test_too_long_a_wait_is_refused_at_once():
    """With the time that it may wait, when to come back, and whose fault it is; nothing is changed."""
    queue = told()
    join(queue, *many(30))
    with pytest.raises(WaitTooLong) as refused:
        join(queue, *many(30))
    error = refused.value
    assert error.most == 60.0
    assert error.expected * 1.5 > error.most
    assert not error.tenant
    assert 1 <= error.retry_after <= 60
    before = queue.load.requests
    with pytest.raises(WaitTooLong):
        join(queue, ask())
    assert queue.load.requests == before


def test_a_deadline_counts_as_the_class_limit_does():
    """A client that goes in two seconds is refused where another may wait."""
    queue = told()
    join(queue, *many(10))
    with pytest.raises(WaitTooLong) as refused:
        join(queue, ask(deadline=2.0))
    assert refused.value.most == 2.0
    join(queue, ask())


def test_it_is_the_tenants_fault_where_it_has_more_than_its_part():
    """A flood is told so; equal tenants that are too many are not, and who is alone neither."""
    queue = told()
    join(queue, *many(20), ask("globex"))
    with pytest.raises(WaitTooLong) as flood:
        join(queue, *many(40))
    assert flood.value.tenant
    crowd = told()
    with pytest.raises(WaitTooLong) as equal:
        join(crowd, *(ask(name) for _ in range(100) for name in "abcd"))
    assert not equal.value.tenant


def test_off_means_off():
    """Without `refuse_early` whoever finds room waits."""
    queue = told()
    queue._refuse_early = False
    join(queue, *many(500))


def test_nothing_measured_refuses_nobody():
    """Before any request has completed nobody knows, and nobody is refused."""
    queue = Queue(bounds(max_wait=(1.0, 1.0, 1.0), refuse_early=True))
    queue.outlook.slots = 1
    join(queue, *many(500))
    assert queue.expected(ask(), 0.0) is None


def test_late_ones_make_it_careful_and_served_ones_less_so():
    """The margin grows when somebody waits in vain, shrinks a little with each that is served, and stays in its bounds."""
    queue = told(seconds=0.01, max_wait=(FAR, FAR, 10.0))
    began = queue.outlook.margin
    join(queue, *many(5, priority=BATCH, deadline=1.0))
    assert len(queue.expire(2.0)) == 5
    assert queue.outlook.margin > began
    for _ in range(1000):
        queue.outlook.late()
    assert queue.outlook.margin <= 0.5
    join(queue, ask())
    for _ in range(20_000):
        queue.outlook.serves(STANDARD, 0, 2.0)
    assert queue.outlook.margin == 0.0


async def test_a_free_slot_is_never_refused():
    """However slow it has been and whatever it may wait: with a slot free nobody asks how long it would wait."""
    clock = [0.0]
    scheduler = Scheduler(bounds(max_wait=(1e-3, 1e-3, 1e-3), refuse_early=True), 2, lambda: clock[0])
    for _ in range(50):
        async with scheduler.slot(ask()), scheduler.slot(ask("globex")):
            clock[0] += 1000.0
    assert scheduler.expected(ask()) == 0.0


def test_the_only_one_to_wait_is_not_refused():
    """Who would be the first in an empty line waits, be its slot a thousand seconds off."""
    join(told(seconds=1000.0), ask())


class TestView:
    def test_classes_show_who_waits_and_who_has_had_more(self):
        """By class and tenant: waiting, running, and what was served beyond the least; at most twenty tenants."""
        scheduler = Scheduler(bounds(), 1, lambda: 0.0)
        running = scheduler.take(ask("globex"))
        join(scheduler.queue, *many(3), ask("globex"), *(ask(f"t{number}") for number in range(40)))
        view = classes(scheduler)["standard"]
        assert view.waiting == 44
        assert len(view.tenants) == 20
        assert (view.tenants[0].tenant, view.tenants[0].waiting, view.tenants[0].running) == ("acme", 3, 0)
        assert {one.tenant: one.running for one in view.tenants}["globex"] == 1
        assert view.expected_wait is None
        scheduler.settle(running, None)
        assert classes(scheduler)["realtime"].expected_wait == 0.0

    def test_a_place_shows_what_a_request_would_meet(self):
        """Slots, depths, what of its tenant waits and runs, its wait, whether it would be refused; looking changes nothing."""
        clock = [0.0]
        scheduler = Scheduler(bounds(max_wait=(30.0, 5.0, 30.0), refuse_early=True), 1, lambda: clock[0])
        scheduler.queue.outlook.completed(100, 1.0)
        scheduler.take(ask())
        join(scheduler.queue, *many(3))
        seen = place(scheduler, ask())
        assert (seen.capacity, seen.inflight, seen.depth["standard"], seen.waiting, seen.running) == (1, 1, 3, 3, 1)
        assert seen.expected_wait == pytest.approx(3.0)
        assert (seen.max_wait, seen.refused) == (5.0, False)
        join(scheduler.queue, ask())
        assert place(scheduler, ask(deadline=2.0)).refused
        assert len(scheduler.queue) == 4


@given(st.floats(allow_nan=False), st.integers())
def test_when_to_come_back_is_within_bounds(seconds, seed):
    """Whatever is thought: between a second and a minute, and not sooner than thought, as far as that is within 40 seconds."""
    told_time = spread(seconds, random.Random(seed))
    assert 1.0 <= told_time <= 60.0
    assert told_time >= min(seconds, 40.0)


@pytest.mark.parametrize("seconds", [0.0, 1.0, 10.0, 1000.0])
def test_a_refused_crowd_does_not_come_back_at_once(seconds):
    """Of 200 that are refused in one moment and obey, no whole second sees more than a third, no 50 ms more than a tenth."""
    rng = random.Random(7)
    times = [spread(seconds, rng) for _ in range(200)]
    assert max(Counter(math.ceil(time) for time in times).values()) <= 200 / 3
    assert max(Counter(int(time * 20) for time in times).values()) <= 200 / 10


def test_all_that_refuse_spread():
    """Also those whom a full queue turns away, and those that waited in vain."""
    queue = Queue(bounds(max_requests=1, max_wait=(FAR, 1.0, FAR)), rng=random.Random(3))
    join(queue, ask())
    full = []
    for _ in range(20):
        with pytest.raises(QueueFull) as refused:
            join(queue, ask())
        full.append(refused.value.retry_after)
    assert len(set(full)) == 20
    (late,) = queue.expire(1.0)
    assert isinstance(late.failure, QueueTimeout)
    assert 1 < late.failure.retry_after <= 60


class TestWhenToComeBack:
    """What a request that got no slot is told: when such a one of its tenant would have one, and up to a half and 4 s more."""

    def waits(self, asks, *, seconds=1.0, **change) -> Queue:
        """A queue that lets in whoever finds room; its one slot makes a request in a second."""
        queue = Queue(bounds(max_wait=(FAR, FAR, FAR), **change), rng=random.Random(1))
        queue.outlook.slots = 1
        queue.outlook.completed(100, seconds)
        join(queue, *asks)
        return queue

    def flooded(self) -> Queue:
        """One tenant's requests take a hundred seconds, and some have gone."""
        return self.served(self.waits(many(112, "flood")))

    def served(self, queue) -> Queue:
        """Until the twelfth second, one a second."""
        for second in range(1, 13):
            queue.dispatch(queue.head(second), second)
        return queue

    def late(self, queue, one, seconds):
        """It waits so long, in vain."""
        one.deadline = 12.0 + seconds
        (entry,) = join(queue, one, now=12.0)
        assert queue.expire(one.deadline) == [entry]
        return entry.failure.retry_after

    def test_a_tenant_that_is_next_comes_soon(self):
        """However much of another tenant's waits: its next request would be one of the first."""
        assert 1 <= self.late(self.flooded(), ask("other"), 0.5) <= 5

    def test_the_one_that_floods_comes_when_its_line_is_over(self):
        """And that is more than a minute, or nearly."""
        assert 40 <= self.late(self.flooded(), ask("flood"), 0.5) <= 60

    def test_a_class_that_waits_long_is_told_so(self):
        """Batch behind a flood of realtime is not told the time in which realtime is served."""
        queue = self.served(self.waits([*many(112, "flood", REALTIME), *many(3, "other", BATCH)]))
        assert self.late(queue, ask("other", REALTIME), 0.5) <= 5
        assert self.late(queue, ask("other", BATCH), 1.0) >= 40

    def test_it_is_told_without_having_waited(self):
        """Of a deadline that has passed already, too."""
        with pytest.raises(QueueTimeout) as refused:
            join(self.flooded(), ask("other", deadline=12.0), now=12.0)
        assert 1 <= refused.value.retry_after <= 5

    def test_a_full_share_has_room_when_its_line_is_over(self):
        """The tenant that fills the queue is told its own wait, at five a second, though nobody has left the queue yet."""
        queue = self.waits([ask("other"), *many(59, "flood")], max_requests=60, seconds=0.2)
        with pytest.raises(QueueFull) as refused:
            join(queue, ask("flood"))
        assert refused.value.tenant
        assert 12 <= refused.value.retry_after <= 25

    def test_where_nothing_is_known_it_is_the_whole_queue(self):
        """As fast as it was seen to empty: here, not at all."""
        queue = Queue(bounds(), rng=random.Random(1))
        join(queue, *many(100, "flood"))
        assert self.late(queue, ask("other"), 15.0) >= 40

    @given(
        st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(Priority), st.integers(0, 10**6)), max_size=30), st.integers()
    )
    def test_it_is_never_soon_or_far(self, waiting, seed):
        """Whatever waits, and whether or not anything is known: from one second to a minute."""
        queue = Queue(bounds(), rng=random.Random(seed))
        if seed % 2:
            queue.outlook.slots = 3
            queue.outlook.completed(100, 1.0)
        join(queue, *(ask(tenant, priority, prompt=prompt) for tenant, priority, prompt in waiting))
        assert all(1 <= queue.come_back(ask("a", priority), 5.0) <= 60 for priority in Priority)


SHELF = st.lists(st.tuples(st.floats(0, 100), st.floats(0, 15), st.integers(1, 1000)), max_size=60)


@given(SHELF, st.floats(0, 15), st.data())
def test_a_shelf_knows_what_stands_before_a_place(rows, back, data):
    """Within a step of a 32nd of the reach, whatever came and went before."""
    shelf, now = Shelf(15.0), max((at for at, _, _ in rows), default=0.0)
    standing = []
    for at, put_back, work in rows:
        shelf.put(at + put_back, work)
        standing.append((at + put_back, work))
        if data.draw(st.booleans()):
            shelf.take(*standing.pop(data.draw(st.integers(0, len(standing) - 1))))
    key, step = now + back, 15.0 / 32
    assert sum(work for place_, work in standing if place_ <= key) <= shelf.before(key)
    assert shelf.before(key) <= sum(work for place_, work in standing if place_ <= key + step)
    assert shelf.total == sum(work for _, work in standing)


@given(st.lists(st.tuples(st.floats(-1e9, 1e9), st.floats(0, 1e6)), max_size=50))
def test_a_pace_survives_any_clock(steps):
    """A clock that stands still, jumps or goes back leaves sums that are finite and not negative."""
    pace = Pace()
    for now, served in steps:
        pace.begin(now)
        pace.note(now, served)
        assert 0 <= pace.served < math.inf
        assert 0 <= pace.time < math.inf


@given(
    st.integers(1, 30), st.integers(0, 29), st.integers(1, 3), st.lists(st.integers(1, 50), min_size=3, max_size=3),
)  # fmt: skip
def test_more_before_it_is_never_told_a_shorter_wait(most, fewer, slots, weights):
    """Of two tenants alike the one with less waiting, and of classes alike the more urgent, is not told a longer wait."""
    by_class = tuple(sorted(weights, reverse=True))
    queue = told(slots=slots, max_wait=(FAR, FAR, FAR), weights=by_class)
    for priority in Priority:
        join(queue, *many(most, "much", priority), *many(min(fewer, most), "little", priority), *many(3, "other", priority))
    for tenant in ("much", "little"):
        waits = [round(queue.expected(ask(tenant, priority), 0.0), 9) for priority in Priority]
        assert waits == sorted(waits)
    for priority in Priority:
        assert queue.expected(ask("little", priority), 0.0) <= queue.expected(ask("much", priority), 0.0) + 1e-9


class History(RuleBasedStateMachine):
    """Anything that can happen to a queue, by a clock that also stands still and goes back."""

    def __init__(self):
        super().__init__()
        self.queue = Queue(QueueBounds(50, 10**9, 10**9, MAX_WAIT, refuse_early=True), Order(0.03, 512), random.Random(5))
        self.now = 0.0
        self.running = []

    @rule(
        tenant=st.sampled_from("abc"), priority=st.sampled_from(Priority), prompt=st.integers(0, 10**6),
        output=st.integers(0, 10**6), weight=st.integers(1, 9), within=st.floats(0.001, 500),
    )  # fmt: skip
    def arrive(self, tenant, priority, prompt, output, weight, within):
        one = ask(tenant, priority, prompt=prompt, output=output, weight=weight, deadline=self.now + within)
        alone, before = not self.queue.load.requests, self.queue.load.requests
        line, expected = self.queue._lines[priority], self.queue.expected(one, self.now)
        refused = self.pushed(one)
        if isinstance(refused, WaitTooLong):
            assert not alone
            assert refused.expected > refused.most / 1.5
            assert 1 <= refused.retry_after <= 60
            assert self.queue.load.requests == before
        elif refused is None:
            again = ask(tenant, priority, prompt=prompt, output=output, weight=weight)
            after = self.queue.expected(again, self.now)
            assert expected is None or line.weights > weight or after >= expected - 1e-6

    def pushed(self, one):
        try:
            self.queue.push(one, Nobody(), self.now)
        except (QueueFull, QueueTimeout) as error:
            return error
        return None

    @rule(seconds=st.floats(-5, 60))
    def pass_time(self, seconds):
        self.now += seconds

    @rule(slots=st.integers(0, 5))
    def resize(self, slots):
        self.queue.outlook.slots = slots

    @rule()
    def dispatch(self):
        head = self.queue.head(self.now)
        if head is not None:
            self.queue.dispatch(head, self.now)
            self.running.append(head)

    @rule(cost=st.integers(0, 10**6), seconds=st.floats(-1, 1e5))
    def settle(self, cost, seconds):
        if self.running:
            entry = self.running.pop()
            self.queue.outlook.completed(entry.cost, seconds)
            self.queue.settle(entry, cost)

    @rule()
    def expire(self):
        self.queue.expire(self.now)

    @rule(priority=st.sampled_from(Priority))
    def leave(self, priority):
        entries = self.queue._lines[priority].entries
        if entries:
            self.queue.cancel(next(iter(entries)), self.now)

    @invariant()
    def estimates_are_numbers(self):
        for priority in Priority:
            for wait in (self.queue.outlook.whole(priority, self.now), self.queue.expected(ask("a", priority), self.now)):
                assert wait is None or 0 <= wait <= 1e6

    @invariant()
    def sums_are_right(self):
        for line in self.queue._lines:
            assert line.work == sum(entry.cost for entry in line.entries)
            assert line.weights == sum(tenant.weight for tenant in line._tenants.values())
            for tenant in line._tenants.values():
                assert tenant.turns.work.total == sum(entry.cost for entry in tenant.turns.entries)


TestHistory = History.TestCase
TestHistory.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_a_line_that_is_empty_has_nothing_before_it():
    """What its tenant was served before does not put back who is alone."""
    queue = told()
    queue.settle(queue.take(ask(prompt=10**6), 0.0), 10**7)
    assert isinstance(queue._lines[STANDARD], Line)
    assert queue._lines[STANDARD].before(ask(), 0.0) == 0.0


def test_an_owners_share_shortens_what_it_is_told():
    """Half of the slots for itself: its line goes by them and by its turns together; others hear what they did before."""
    queue = ReservedQueue(bounds(), Order(), [ReservedShare("acme", 2, None)])
    queue.resize(4)
    queue.outlook.completed(100, 1.0)
    join(queue, *many(20), *many(20, "globex"))
    assert queue.expected(ask("globex"), 0.0) == pytest.approx(10.0)
    assert queue.expected(ask(), 0.0) == pytest.approx(5.0)
    assert queue.expected(ask("third"), 0.0) == 0.0
    small = ReservedQueue(bounds(), Order(), [ReservedShare("acme", 2, 60)])
    small.resize(4)
    small.outlook.completed(100, 1.0)
    join(small, *many(20), *many(20, "globex"))
    assert 9.0 < small.expected(ask(), 0.0) <= 10.0
