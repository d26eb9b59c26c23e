import random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from pool_fleet import Clock, enter, leave, make_replica

from backends.balance import KINDS, make_balance
from backends.pool import Pool
from backends.types import Ask, Outcome

INDEX = st.integers(0, 1000)


class Members(RuleBasedStateMachine):
    """Replicas join, drain and leave while leases run; a plain list of leases is the truth about counts."""

    def __init__(self):
        super().__init__()
        self.clock = Clock()
        self.pool = None
        self.leases = []
        self.heard = []
        self.gone = []
        self.names = 0

    @precondition(lambda self: self.pool is None)
    @rule(kind=st.sampled_from(KINDS), seed=st.integers(0, 99))
    def begin(self, kind, seed):
        balance = make_balance(kind, seed=seed, clock=self.clock)
        self.pool = Pool("m", [], balance, clock=self.clock, rng=random.Random(seed))
        self.pool.on_capacity(self.heard.append)

    def any_of(self, index):
        return self.pool.replicas[index % len(self.pool.replicas)]

    @precondition(lambda self: self.pool is not None)
    @rule(slow=st.sampled_from([0.0, 10.0]), slots=st.integers(1, 5), up=st.booleans())
    def add(self, slow, slots, up):
        self.names += 1
        replica = make_replica(f"r{self.names}", max_inflight=slots)
        self.pool.add(replica, slow_start=slow)
        replica.up = up

    @precondition(lambda self: self.pool is not None and self.pool.replicas)
    @rule(index=INDEX, what=st.sampled_from(["drain", "undrain", "remove", "up", "down"]))
    def change(self, index, what):
        replica = self.any_of(index)
        match what:
            case "drain":
                self.pool.drain(replica)
            case "undrain":
                self.pool.undrain(replica)
            case "remove":
                self.pool.remove(replica)
                self.gone.append(replica)
            case _:
                replica.up = what == "up"

    @precondition(lambda self: self.pool is not None)
    @rule(session=st.none() | st.sampled_from("abc"), again=st.booleans())
    def request(self, session, again):
        tried = [self.leases[-1].replica] if again and self.leases else []
        replica = self.pool.pick(Ask(session=session), tried)
        able = [one for one in self.pool.replicas if one.up and not one.draining and one not in tried]
        assert replica is None or replica in able
        if replica is not None:
            self.leases.append(enter(self.pool, replica))

    @precondition(lambda self: self.leases)
    @rule(index=INDEX, outcome=st.sampled_from([*Outcome, None]))
    def end(self, index, outcome):
        lease = self.leases.pop(index % len(self.leases))
        if outcome is not None:
            lease.settle(outcome)
        leave(lease)

    @rule(seconds=st.floats(0, 12))
    def wait(self, seconds):
        self.clock.now += seconds

    @invariant()
    def counts_are_exact(self):
        if self.pool is None:
            return
        for replica in (*self.pool.replicas, *self.gone):
            assert replica.inflight == sum(lease.replica is replica for lease in self.leases)

    @invariant()
    def the_ready_are_members_and_able(self):
        if self.pool is None:
            return
        for replica in self.pool.ready():
            assert replica in self.pool.replicas
            assert replica.up
            assert not replica.draining
        assert not any(replica.ready for replica in self.gone)

    @invariant()
    def capacity_is_bounded_and_heard(self):
        if self.pool is None:
            return
        capacity = self.pool.capacity()
        assert 0 <= capacity <= sum(replica.max_inflight for replica in self.pool.replicas)
        assert (self.heard[-1] if self.heard else 0) == capacity
        for replica in self.pool.replicas:
            assert 1 <= replica.slots <= replica.max_inflight


TestMembers = Members.TestCase
TestMembers.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
