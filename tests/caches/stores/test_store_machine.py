"""Two gateways on one Redis against a plain model of it, step by step."""

import asyncio
import contextlib
import time

import pytest
import uvloop
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test
from store_world import World, entry, ident, key_of, until

from caches.which import Which

KEYS = st.integers(0, 3)
TENANTS = ["a", "b"]  # of even and odd keys: as with real ones, a key belongs to one tenant
MODELS = st.sampled_from(["small", "large"])
TAGS = st.sampled_from([(), ("x",), ("x", "y")])
NODES = st.integers(0, 1)


class StoreMachine(RuleBasedStateMachine):
    """The model: for each key the answer that was stored last. The server's clock is its own, so time is what it is."""

    kind = "redis"
    server = None

    def __init__(self):
        super().__init__()
        self.runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        self.model = {}
        self.number = 0

    @initialize()
    def open(self):
        self.server.command(b"FLUSHALL")
        self.world = self.runner.run(self._opened())

    async def _opened(self):
        return await World(self.kind, self.server).__aenter__()

    def teardown(self):
        with contextlib.suppress(AttributeError):
            self.runner.run(self.world.__aexit__())
        self.runner.close()

    def node(self, n):
        return (self.world.one, self.world.two)[n]

    def made(self, n, model="small", tags=(), age=0.0):
        self.number += 1
        return entry(n, tenant=TENANTS[n % 2], model=model, tags=tags, age=age, body=b"%d" % self.number)

    @rule(node=NODES, n=KEYS, model=MODELS, tags=TAGS, age=st.sampled_from([0.0, 50.0]))
    def put(self, node, n, model, tags, age):
        made = self.made(n, model, tags, age)
        if age and not self.runner.run(self.node(node).put(made)):
            return  # a flush since then is meant for it
        if not age:
            self.runner.run(self.world.keep(made, self.node(node)))
        self.model[n] = made

    @rule(node=NODES, n=KEYS)
    def get(self, node, n):
        known = self.model.get(n)

        async def found():
            there = await self.node(node).get(key_of(n))
            if known is None:
                assert there is None
            if self.kind == "redis":
                assert (there and there.body) == (known and known.body)
            return (there and there.generation) == (known and known.generation)

        self.runner.run(until(found))  # a replaced answer may be seen for a moment, a deleted one may not

    @rule(node=NODES, n=KEYS, who=st.sampled_from(["a", "b", None]))
    def delete(self, node, n, who):
        began = time.time()
        owned = who in (None, TENANTS[n % 2])
        assert self.runner.run(self.node(node).delete(ident(key_of(n)), who)) is (owned and n in self.model)
        if owned:
            self.model.pop(n, None)
            late = self.made(n)
            late.began_at = began
            assert not self.runner.run(self.node(1 - node).put(late))

    @rule(
        node=NODES, tenant=st.sampled_from([*TENANTS, None]), model=MODELS | st.none(), tag=st.none() | st.just("x"),
        age=st.sampled_from([None, None, 0.0, 25.0]), dry=st.booleans(),
    )  # fmt: skip
    def flush(self, node, tenant, model, tag, age, dry):
        which, began = Which(tenant=tenant, model=model, tag=tag, older_than=age, everything=True), time.time()
        meant = [n for n, e in self.model.items() if which.takes(e.tenant, e.model, e.tags, e.born, began + 0.001)]
        assert self.runner.run(self.node(node).flush(which, dry_run=dry)) == len(meant)
        if dry:
            return
        for n in meant:
            del self.model[n]
        if not age:
            late = self.made(0, model or "small", ("x",))
            late.began_at = began
            stored = self.runner.run(self.node(1 - node).put(late))
            assert not stored or tenant == "b"
            if stored:
                self.model[0] = late


@pytest.mark.parametrize(("kind", "examples"), [("redis", 40), ("two_level", 8)])
def test_two_gateways_agree_with_the_model(redis, request, kind, examples):
    """Whatever is stored, replaced, deleted and flushed through either, both find what the model holds, and nothing else."""
    if kind == "two_level":
        request.getfixturevalue("short_lease")
    machine = type("Machine", (StoreMachine,), {"kind": kind, "server": redis})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck), database=None
        ),
    )
