"""Any sequence of arrivals, dispatches, raises, cancellations and timeouts, against plain lists."""

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from limits.entry import State
from limits.scheduler import Queue
from limits.waiting import Priority, QueueBounds, QueueFull, QueueTimeout, SlotAsk

MAX_WAIT = (20.0, 40.0, 60.0)
TENANTS = ["a", "b", "c", "d"]
ASKS = st.builds(
    SlotAsk,
    priority=st.sampled_from(Priority),
    tenant=st.sampled_from(TENANTS),
    tokens=st.integers(0, 150),
    size=st.integers(0, 15),
    deadline=st.just(0.0),
    weight=st.integers(1, 3),
    prompt=st.integers(0, 500),
    output=st.integers(0, 500),
)


class Nobody:
    def done(self) -> bool:
        return False

    def set_result(self, result: None, /) -> None:
        raise AssertionError("the order woke a waiter")


def used(entries) -> tuple[int, int, int]:
    asks = [entry.ask for entry in entries]
    return len(asks), sum(ask.size for ask in asks), sum(ask.tokens for ask in asks)


class Line(RuleBasedStateMachine):
    @initialize(share=st.sampled_from([0.25, 0.5, 1.0]), bound=st.integers(1, 12))
    def begin(self, share, bound):
        self.queue = Queue(QueueBounds(bound, 10 * bound, 100 * bound, MAX_WAIT, (5, 2, 1), share))
        self.bound = (bound, 10 * bound, 100 * bound)
        self.share = (max(1, int(bound * share)), int(10 * bound * share), int(100 * bound * share))
        self.now = 0.0
        self.running = []
        self.waiting = []  # in the order of coming, a raised one last
        self.ends = Counter()
        self.came = 0

    @rule(asks=st.lists(ASKS, min_size=3, max_size=12))
    def many_arrive(self, asks):
        for ask in asks:
            self.arrive(ask, 50.0)

    def ended(self, entry, state):
        assert entry.state is state
        self.waiting.remove(entry)
        self.ends[state] += 1

    def beyond(self, tenant, extra=(0, 0, 0)):
        held = used(entry for entry in self.waiting if entry.ask.tenant == tenant)
        return any(h + e > s for h, e, s in zip(held, extra, self.share, strict=True))

    @rule(ask=ASKS, wait=st.floats(-1, 50))
    def arrive(self, ask, wait):
        ask = replace(ask, deadline=self.now + wait)
        tenant, need = ask.tenant, (1, ask.size, min(ask.tokens, self.bound[2]))
        fits = all(b + e <= limit for b, e, limit in zip(used(self.waiting), need, self.bound, strict=True))
        beyond = self.beyond(tenant, need)
        entry, victims, error = self.pushed(ask)
        if isinstance(error, QueueTimeout):
            assert ask.deadline <= self.now
            return
        if isinstance(error, QueueFull):
            assert not fits
            assert error.tenant == (beyond and any(other.ask.tenant != tenant for other in self.waiting))
            assert 1 <= error.retry_after <= 60
            assert not self.may_be_pushed(ask, need, beyond=beyond)
            return
        self.came += 1
        assert bool(victims) != fits
        for victim in victims:
            self.check_victim(victim, ask, beyond=beyond)
            line = [e for e in self.waiting if (e.ask.tenant, e.priority) == (victim.ask.tenant, victim.priority)]
            assert line[-1] is victim
            self.ended(victim, State.PUSHED_OUT)
        self.waiting.append(entry)

    def check_victim(self, victim, ask, *, beyond):
        """Before it is taken out of `waiting`."""
        assert victim.ask.tenant == ask.tenant or not beyond
        if victim.priority <= ask.priority and not self.beyond(victim.ask.tenant):
            assert self.beyond_part(victim.priority)
            assert not self.beyond_part(ask.priority, (1, ask.size, ask.tokens)) or not self.of(ask.priority)

    def pushed(self, ask):
        try:
            return *self.queue.push(ask, Nobody(), self.now), None
        except (QueueFull, QueueTimeout) as error:
            return None, [], error

    def may_be_pushed(self, ask, need, *, beyond):
        """Whether all that plainly may go would have made room: of a tenant beyond its share its own, less urgent ones; else
        what is borrowed, and for a class within its part what others have beyond theirs.
        """
        if beyond:
            stay = [e for e in self.waiting if e.priority <= ask.priority or e.ask.tenant != ask.tenant]
        else:
            stay = list(self.waiting)
            for tenant in TENANTS:
                self.strip(stay, lambda e, tenant=tenant: e.ask.tenant == tenant, self.share)
            if not self.beyond_part(ask.priority, need):
                for priority in Priority:
                    if priority != ask.priority:
                        self.strip(stay, lambda e, priority=priority: e.priority is priority, self.part(priority))
        return all(s + e <= limit for s, e, limit in zip(used(stay), need, self.bound, strict=True))

    def strip(self, stay, which, limit):
        """Take out of `stay` the least urgent and newest of these until they are within the limit."""
        of = sorted((e for e in stay if which(e)), key=lambda e: (e.priority, self.waiting.index(e)))
        while any(load > most for load, most in zip(used(of), limit, strict=True)):
            stay.remove(of.pop())

    def of(self, priority):
        return [e for e in self.waiting if e.priority is priority]

    def part(self, priority):
        weights = (5, 2, 1)
        bound, size, tokens = self.bound
        spare = bound - 3
        requests = 1 + spare * weights[priority] // 8 if spare >= 0 else int(priority < bound)
        return requests, size * weights[priority] // 8, tokens * weights[priority] // 8

    def beyond_part(self, priority, extra=(0, 0, 0)):
        held = used(self.of(priority))
        return any(h + e > limit for h, e, limit in zip(held, extra, self.part(priority), strict=True))

    @precondition(lambda self: self.waiting)
    @rule()
    def dispatch(self):
        entry = self.queue.head(self.now)
        peers = [e for e in self.waiting if (e.ask.tenant, e.priority) == (entry.ask.tenant, entry.priority)]
        assert peers[0] is entry
        self.queue.dispatch(entry, self.now)
        self.ended(entry, State.DISPATCHED)
        self.running.append(entry)

    @precondition(lambda self: not self.waiting)
    @rule(ask=ASKS)
    def take_a_free_slot(self, ask):
        entry = self.queue.take(replace(ask, deadline=self.now + 1), self.now)
        assert entry.state is State.DISPATCHED
        self.running.append(entry)

    @precondition(lambda self: self.running)
    @rule(data=st.data(), cost=st.integers(0, 3000))
    def settle(self, data, cost):
        entry = data.draw(st.sampled_from(self.running))
        self.running.remove(entry)
        self.queue.settle(entry, cost)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def cancel(self, data):
        entry = data.draw(st.sampled_from(self.waiting))
        for _ in range(2):
            self.queue.cancel(entry, self.now)
        self.ended(entry, State.CANCELLED)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data(), priority=st.sampled_from(Priority))
    def raise_priority(self, data, priority):
        entry = data.draw(st.sampled_from(self.waiting))
        deadline, old = entry.deadline, entry.priority
        self.queue.raise_priority(entry, priority, self.now)
        assert entry.deadline >= deadline
        assert entry.priority == min(old, priority)
        if priority < old:
            self.waiting.remove(entry)
            self.waiting.append(entry)

    @rule(seconds=st.sampled_from([0.0, 0.1, 1.0]) | st.floats(0, 30))
    def time_passes(self, seconds):
        self.now += seconds
        expired = self.queue.expire(self.now)
        assert {e for e in self.waiting if e.deadline <= self.now} == set(expired)
        for entry in expired:
            assert isinstance(entry.failure, QueueTimeout)
            self.ended(entry, State.EXPIRED)

    def charged(self):
        """How many running requests await that their charge is corrected."""
        return sum(line.account.running for line in self.queue._lines)

    @invariant()
    def nothing_is_lost_or_counted_twice(self):
        queue = self.queue
        assert self.came == sum(self.ends.values()) + len(self.waiting)
        assert used(self.waiting) == (queue.load.requests, queue.load.bytes, queue.load.tokens)
        assert all(load <= bound for load, bound in zip(used(self.waiting), self.bound, strict=True))
        for priority in Priority:
            assert queue.depth(priority) == sum(entry.priority is priority for entry in self.waiting)
        assert all(entry.state is State.WAITING for entry in self.waiting)
        assert (queue.head(self.now) is None) == (not self.waiting)
        assert queue.next_deadline() == min((entry.deadline for entry in self.waiting), default=None)
        assert self.charged() == len(self.running)
        assert len(queue._deadlines) <= 2 * len(self.waiting) + 64
        assert set(queue._tenants) == {entry.ask.tenant for entry in self.waiting}
        assert set(queue._borrowers) == {tenant for tenant in TENANTS if self.beyond(tenant)}


class TestLine(Line.TestCase):
    """Every entry ends exactly once, bounds hold, counts are exact, and only those who may are pushed out."""

    settings = settings(max_examples=60, stateful_step_count=50, deadline=None)
