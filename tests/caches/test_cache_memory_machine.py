"""The in-process store against a plain model of it."""

import asyncio

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from caches.memory import MemoryStore
from caches.types import ENTRY_OVERHEAD, Entry
from caches.which import Which

KEYS = st.integers(0, 7)
TENANTS = st.sampled_from(["a", "b"])
MODELS = st.sampled_from(["small", "large"])
MAX_BYTES = 4 * (ENTRY_OVERHEAD + 100)


def run(coroutine):
    """The store never waits, so its coroutines end at once."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("the store waited")


class StoreMachine(RuleBasedStateMachine):
    """The model: a list of live entries, least recently used first."""

    def __init__(self):
        super().__init__()
        self.now = 0.0
        self.store = MemoryStore(MAX_BYTES, lambda: self.now)
        self.model = []

    def live(self):
        return [entry for entry in self.model if entry.expires_at > self.now]

    @rule(n=KEYS, ident=KEYS, tenant=TENANTS, model=MODELS, size=st.sampled_from([0, 100, 500, 99999]), ttl=st.integers(0, 20))
    def put(self, n, ident, tenant, model, size, ttl):
        made = Entry(f"ce-{ident}", b"%d" % n, tenant, model, "t", "chat", b"x" * size, self.now, self.now + ttl)
        fits = made.size <= MAX_BYTES and ttl > 0
        assert run(self.store.put(made)) is fits
        if not fits:
            return
        self.model = [e for e in self.model if e.key != made.key and e.id != made.id] + [made]
        while sum(e.size for e in self.model) > MAX_BYTES:
            self.model.pop(0)
        for _ in range(2):
            if self.model[0].expires_at <= self.now:
                self.model.pop(0)

    @rule(n=KEYS)
    def get(self, n):
        key = b"%d" % n
        known = next((e for e in self.live() if e.key == key), None)
        assert run(self.store.get(key)) is known
        self.model = [e for e in self.model if e.key != key] + ([known] if known else [])

    @rule(n=KEYS, tenant=TENANTS | st.none())
    def delete(self, n, tenant):
        found = next((e for e in self.model if e.id == f"ce-{n}" and tenant in (None, e.tenant)), None)
        assert run(self.store.delete(f"ce-{n}", tenant)) is (found in self.live() if found else False)
        self.model = [e for e in self.model if e is not found]

    @rule(tenant=TENANTS | st.none(), model=MODELS | st.none(), age=st.none() | st.integers(0, 20), dry=st.booleans())
    def flush(self, tenant, model, age, dry):
        matching = [
            e
            for e in self.model
            if tenant in (None, e.tenant) and model in (None, e.model) and (age is None or e.stored_at <= self.now - age)
        ]
        count = run(self.store.flush(Which(tenant=tenant, model=model, older_than=age, everything=True), dry_run=dry))
        assert count == len([e for e in matching if e.expires_at > self.now])
        if not dry:
            self.model = [e for e in self.model if e not in matching]

    @rule(seconds=st.integers(0, 15))
    def wait(self, seconds):
        self.now += seconds

    @invariant()
    def indexes_are_exact(self):
        store = self.store
        assert list(store._entries.values()) == self.model
        assert store._keys_by_id == {e.id: e.key for e in self.model}
        assert {t: set(keys) for t, keys in store._keys_by_tenant.items()} == {
            t: {e.key for e in self.model if e.tenant == t} for t in {e.tenant for e in self.model}
        }
        stats = run(store.stats())
        assert (stats.entries, stats.bytes) == (len(self.model), sum(e.size for e in self.model))
        assert stats.bytes <= MAX_BYTES


TestStoreMachine = StoreMachine.TestCase
TestStoreMachine.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)


def test_run_is_what_a_loop_would_do():
    """Driving a coroutine by hand gives what an event loop gives."""
    store = MemoryStore(MAX_BYTES, lambda: 0.0)
    assert asyncio.run(store.stats()) == run(store.stats())
