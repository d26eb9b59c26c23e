"""The in-process store against a plain model of it, and its queue against one of a queue."""

import asyncio

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from caches.memory import MemoryStore
from caches.s3fifo import S3Fifo
from caches.types import ENTRY_OVERHEAD, Entry
from caches.which import Which

KEYS = st.integers(0, 7)
TENANTS = st.sampled_from(["a", "b"])
MODELS = st.sampled_from(["small", "large"])
TAGS = st.sampled_from([(), ("x",), ("x", "y")])
MAX_BYTES = 4 * (ENTRY_OVERHEAD + 100)


def run(coroutine):
    """The store never waits, so its coroutines end at once."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("the store waited")


class StoreMachine(RuleBasedStateMachine):
    """The model: what may be there, and what every flush and delete meant. Room is the store's own affair."""

    def __init__(self):
        super().__init__()
        self.now = 0.0
        self.store = MemoryStore(MAX_BYTES, lambda: self.now)
        self.model = {}
        self.flushes = []  # (which, when)
        self.deletes = []  # (id, tenant, when)

    def there(self):
        return {e.key: e for e in self.store._shelf.of(None)}

    def meant(self, made):
        """Whether something since its making began was meant for it."""
        born = made.began_at or made.stored_at
        return any(
            which.takes(made.tenant, made.model, made.tags, born, when) and born <= when for which, when in self.flushes
        ) or any(made.id == ident and tenant in (None, made.tenant) and born <= when for ident, tenant, when in self.deletes)

    @rule(
        n=KEYS, ident=KEYS, tenant=TENANTS, model=MODELS, tags=TAGS, size=st.sampled_from([0, 100, 500, 99999]),
        ttl=st.integers(0, 20), took=st.integers(0, 9),
    )  # fmt: skip
    def put(self, n, ident, tenant, model, tags, size, ttl, took):
        made = Entry(
            f"ce-{ident}", b"%d" % n, tenant, model, "t", "chat", b"x" * size, self.now, self.now + ttl, tags=tags,
            began_at=self.now - took,
        )  # fmt: skip
        taken = made.size <= MAX_BYTES and ttl > 0 and not self.meant(made)
        assert run(self.store.put(made)) is taken
        if taken:
            self.model = {e.key: e for e in self.model.values() if made.key != e.key and made.id != e.id} | {made.key: made}

    @rule(n=KEYS)
    def get(self, n):
        key = b"%d" % n
        there = self.there().get(key)
        found = run(self.store.get(key))
        assert found is (there if there and there.expires_at > self.now else None)

    @rule(n=KEYS, tenant=TENANTS | st.none())
    def delete(self, n, tenant):
        self.deletes.append((f"ce-{n}", tenant, self.now))
        found = next((e for e in self.there().values() if e.id == f"ce-{n}" and tenant in (None, e.tenant)), None)
        assert run(self.store.delete(f"ce-{n}", tenant)) is (found is not None and found.expires_at > self.now)

    @rule(
        tenant=TENANTS | st.none(), model=MODELS | st.none(), tag=st.none() | st.just("x"), age=st.none() | st.integers(0, 20),
        dry=st.booleans(),
    )  # fmt: skip
    def flush(self, tenant, model, tag, age, dry):
        which = Which(tenant=tenant, model=model, tag=tag, older_than=age, everything=True)
        meant = [e for e in self.there().values() if which.takes(e.tenant, e.model, e.tags, e.born, self.now)]
        assert run(self.store.flush(which, dry_run=dry)) == len([e for e in meant if e.expires_at > self.now])
        if not dry:
            self.flushes.append((which, self.now))

    @rule(seconds=st.integers(0, 15))
    def wait(self, seconds):
        self.now += seconds

    @invariant()
    def only_what_it_may_hold(self):
        for key, entry in self.there().items():
            assert self.model[key] is entry
            assert not self.meant(entry)

    @invariant()
    def indexes_are_exact(self):
        shelf, there = self.store._shelf, list(self.there().values())
        assert shelf._keys_by_id == {e.id: e.key for e in there}
        assert {t: set(keys) for t, keys in shelf._keys_by_tenant.items()} == {
            t: {e.key for e in there if e.tenant == t} for t in {e.tenant for e in there}
        }
        stats = run(self.store.stats())
        assert (stats.entries, stats.bytes) == (len(there), sum(e.size for e in there))
        assert stats.bytes <= MAX_BYTES


TestStoreMachine = StoreMachine.TestCase
TestStoreMachine.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)


class QueueMachine(RuleBasedStateMachine):
    """Whatever is done to it, it holds what was put and not yet taken, and knows its weight."""

    def __init__(self):
        super().__init__()
        self.queue = S3Fifo(100)
        self.held = {}

    @rule(key=KEYS, weight=st.integers(0, 60))
    def add(self, key, weight):
        name = b"%d" % key
        if name in self.held:
            self.queue.replace(name, name, weight)
        else:
            self.queue.add(name, name, weight)
        self.held[name] = weight

    @rule(key=KEYS)
    def use(self, key):
        held = self.queue.find(b"%d" % key)
        assert (held is not None) is (b"%d" % key in self.held)
        if held:
            held.use()

    @rule(key=KEYS)
    def remove(self, key):
        if self.held.pop(b"%d" % key, None) is not None:
            self.queue.remove(b"%d" % key)

    @precondition(lambda self: self.held)
    @rule()
    def evict(self):
        del self.held[self.queue.evict()]

    @rule()
    def clear(self):
        self.queue.clear()
        self.held.clear()

    @invariant()
    def sums_are_right(self):
        queue = self.queue
        assert set(queue) == set(self.held)
        assert len(queue) == len(self.held)
        assert queue.weight == sum(self.held.values())
        assert queue._small_weight == sum(held.weight for held in queue._small.values())
        assert set(queue.oldest()) <= set(self.held)
        assert not set(queue._ghosts) & set(self.held)


TestQueueMachine = QueueMachine.TestCase
TestQueueMachine.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)


def test_run_is_what_a_loop_would_do():
    """Driving a coroutine by hand gives what an event loop gives."""
    store = MemoryStore(MAX_BYTES, lambda: 0.0)
    assert asyncio.run(store.stats()) == run(store.stats())
