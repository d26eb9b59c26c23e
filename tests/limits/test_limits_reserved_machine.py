"""The queue's state machine once more, on a pool of which tenants have shares and whose capacity changes."""

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule
from test_limits_queue_machine import MAX_WAIT, Line, used

from limits.provisioned import ReservedQueue
from limits.waiting import Order, QueueBounds, ReservedShare

SHARES = st.fixed_dictionaries(
    {},
    optional={"a": st.tuples(st.integers(1, 5), st.none()), "b": st.tuples(st.integers(1, 5) | st.none(), st.integers(1, 3000))},
).filter(bool)


class Shared(Line):
    @initialize(share=st.sampled_from([0.25, 0.5, 1.0]), bound=st.integers(1, 12), shares=SHARES, slots=st.integers(1, 12))
    def begin(self, share, bound, shares, slots):
        super().begin(share, bound)
        bounds = QueueBounds(bound, 10 * bound, 100 * bound, MAX_WAIT, (5, 2, 1), share)
        self.queue = ReservedQueue(bounds, Order(), [ReservedShare(tenant, *of) for tenant, of in shares.items()])
        self.shares = shares
        self.capacity(slots)

    @rule(slots=st.integers(0, 12))
    def capacity(self, slots):
        self.queue.resize(slots)
        self.slots = slots
        self.parts = {tenant: owner.part for tenant, owner in self.queue._owners.items()}

    def standing(self, tenant):
        return next((each for each in self.queue.reserved(self.now) if each.tenant == tenant), None)

    def keeps(self, tenant, extra=(0, 0, 0)):
        """Whether an owner has no more waiting than its part of the queue."""
        if tenant not in self.shares:
            return False
        part = self.parts[tenant] if self.shares[tenant][0] else min(self.parts[tenant], self.queue._most_unnamed)
        held = [h + e for h, e in zip(used(e for e in self.waiting if e.ask.tenant == tenant), extra, strict=True)]
        return held[0] <= 1 or all(h <= int(bound * part) for h, bound in zip(held, self.bound, strict=True))

    def check_victim(self, victim, ask, *, beyond):
        if victim.ask.tenant != ask.tenant:
            assert not self.keeps(victim.ask.tenant)
        if victim.ask.tenant == ask.tenant or not self.keeps(ask.tenant, (1, ask.size, ask.tokens)):
            assert victim.ask.tenant == ask.tenant or not beyond

    def may_be_pushed(self, ask, need, *, beyond):
        """Only what no owner keeps; for an owner within its part, all the rest."""
        inside = self.keeps(ask.tenant, need)
        stay = used(
            e
            for e in self.waiting
            if e.ask.tenant in self.shares
            or (not inside and not (beyond and e.ask.tenant == ask.tenant and e.priority > ask.priority))
        )
        return all(s + e <= limit for s, e, limit in zip(stay, need, self.bound, strict=True))

    @precondition(lambda self: self.waiting)
    @rule()
    def dispatch(self):
        before = {tenant: self.standing(tenant) for tenant in self.shares}
        due = self.due()
        super().dispatch()
        entry = self.running[-1]
        after = self.standing(entry.ask.tenant)
        in_all = sum(each.used for each in before.values())
        if due and in_all < max(1, self.slots - 1):
            assert entry.ask.tenant in due
            assert entry.ask.tenant in before
            assert after.used == before[entry.ask.tenant].used + 1
        if after is not None and after.used > before[entry.ask.tenant].used:
            assert in_all < max(1, self.slots - 1)
            assert after.used <= after.slots

    @precondition(lambda self: not self.waiting)
    @rule(tenant=st.sampled_from("abc"))
    def take_over(self, tenant):
        entry = self.queue.adopt(tenant, self.now)
        if entry is not None:
            self.running.append(entry)
            assert self.standing(tenant).used <= self.standing(tenant).slots

    def due(self):
        """Owners whose next request may run on their share."""
        found = []
        for tenant, owner in self.queue._owners.items():
            line = min((e for e in self.waiting if e.ask.tenant == tenant), key=lambda e: e.priority, default=None)
            if line is not None and owner.running < owner.slots and owner.holds(line.ask.prompt + line.ask.output, self.now):
                found.append(tenant)
        return found

    def charged(self):
        return super().charged() + len(self.queue._running)

    @invariant()
    def shares_are_counted_once(self):
        on = Counter(entry.ask.tenant for entry in self.queue._running)
        assert {tenant: self.standing(tenant).used for tenant in self.shares} == {t: on[t] for t in self.shares}
        assert self.queue._reservations.running == len(self.queue._running)
        assert set(self.queue._running) <= {entry for entry in self.running if not entry.lent}
        assert set(self.queue._waiting) == {entry.ask.tenant for entry in self.waiting} & set(self.shares)


class TestShared(Shared.TestCase):
    """Owners go first within their shares and keep their room; all else holds as in any queue."""

    settings = settings(max_examples=60, stateful_step_count=50, deadline=None)
