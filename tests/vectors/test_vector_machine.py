"""A vector store against a dict that does the same: whatever is done to it, in whatever order."""

import asyncio
import dataclasses
import random
import tempfile
from pathlib import Path

import pytest

pytest.importorskip("qdrant_edge", reason="qdrant-edge-py is not installed (the extra `semantic`)")

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from vector_points import NOW, made, vector
from vector_stores import Stores

from caches.which import Which

PARTITIONS = ("aa", "bb", "cc")
TENANTS = ("acme", "other")

towards = st.tuples(*[st.integers(-3, 3)] * 3).filter(any)
points = st.builds(
    lambda number, partition, tenant, ttl, towards: made(number, partition, tenant=tenant, ttl=ttl, towards=towards),
    st.integers(0, 15),
    st.sampled_from(PARTITIONS),
    st.sampled_from(TENANTS),
    st.sampled_from([10.0, 50.0, 1000.0]),
    towards,
)
steps = st.one_of(
    st.tuples(st.just("put"), st.lists(points, max_size=20)),
    st.tuples(st.just("delete"), st.lists(st.integers(0, 15), max_size=4)),
    st.tuples(
        st.just("flush"), st.sampled_from([Which(tenant="acme"), Which(older_than=30.0), Which(tenant="other", older_than=5.0)])
    ),
    st.tuples(st.just("search"), st.tuples(st.sampled_from(PARTITIONS), towards, st.integers(1, 20))),
    st.tuples(st.just("wait"), st.sampled_from([1.0, 10.0, 60.0])),
    st.tuples(st.just("sweep"), st.none()),
    st.tuples(st.just("tidy"), st.none()),
    st.tuples(st.just("reopen"), st.none()),
)


class World:
    """The store, and what it should hold."""

    def __init__(self, stores, store):
        self.stores = stores
        self.store = store
        self.held = {}

    def alive(self):
        return {entry: point for entry, point in self.held.items() if point.expires_at > self.stores.clock.now}

    async def put(self, given):
        now = self.stores.clock.now
        given = [dataclasses.replace(point, stored_at=now, expires_at=now + point.expires_at - NOW) for point in given]
        await self.store.put(given)
        self.held |= {point.id: point for point in given}

    async def delete(self, numbers):
        ids = [made(number).id for number in numbers]
        await self.store.delete(ids)
        for entry in ids:
            self.held.pop(entry, None)

    async def flush(self, which):
        now = self.stores.clock.now
        meant = [entry for entry, it in self.alive().items() if which.takes(it.tenant, it.model, it.tags, it.stored_at, now)]
        assert sorted(await self.store.flush(which, dry_run=True)) == sorted(meant)
        assert sorted(await self.store.flush(which)) == sorted(meant)
        for entry in meant:
            del self.held[entry]

    async def search(self, asked):
        partition, towards, limit = asked
        mine = vector(*towards)
        found = await self.store.search(partition, mine, limit)
        here = {entry: point for entry, point in self.alive().items() if point.partition == partition}
        assert len({match.id for match in found}) == len(found) == min(limit, len(here))
        cosines = {entry: cosine(mine, point.vector) for entry, point in here.items()}
        for match in found:
            assert match.cosine == pytest.approx(cosines[match.id], abs=1e-5)
        best = sorted(cosines.values(), reverse=True)[: len(found)]
        assert [match.cosine for match in found] == pytest.approx(best, abs=1e-5)

    async def wait(self, seconds):
        self.stores.clock.now += seconds

    async def sweep(self, _):
        await self.store.sweep()
        assert (await self.store.stats()).points == len(self.alive())

    async def tidy(self, _):
        if self.stores.kind == "embedded":
            await self.store._backend.tidy()

    async def reopen(self, _):
        if self.stores.kind == "embedded":
            await self.store.close()
            self.store = await self.stores.open()

    async def check(self):
        known = [one async for page in self.store.scan() for one in page]
        assert sorted((one.id, one.partition) for one in known) == sorted((it.id, it.partition) for it in self.alive().values())
        for entry, point in self.alive().items():
            assert (await self.store.fetch(entry)).answer == point.answer


def cosine(one, other):
    return float(one @ other) / float(np.linalg.norm(one) * np.linalg.norm(other))


async def lived(kind, folder, story):
    stores = Stores(kind, folder, 0)
    try:
        world = World(stores, await stores.open())
        for what, with_what in story:
            await getattr(world, what)(with_what)
        await world.check()
    finally:
        await stores.close()


@pytest.mark.parametrize("kind", ["embedded", "local"])
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(story=st.lists(steps, max_size=25))
def test_a_store_does_what_a_dict_would(kind, story):
    """Put, delete, flush, search, expire, sweep, tidy, reopen: never a point too many, too few, or of another partition."""
    if kind == "local":
        pytest.importorskip("qdrant_client", reason="qdrant-client is not installed (the extra `qdrant`)")
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="tiergate-", dir=memory if memory.is_dir() else None) as name:
        asyncio.run(lived(kind, Path(name), story))


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_no_search_leaves_its_partition(seed):
    """However the points lie, and however many of other partitions are nearer."""
    rng = random.Random(seed)

    async def run(folder):
        stores = Stores("embedded", folder, 0)
        store = await stores.open()
        partitions = [f"{number:02x}" for number in range(8)]
        placed = {number: rng.choice(partitions) for number in range(120)}
        await store.put([made(number, placed[number], towards=(1.0, rng.random() / 100)) for number in placed])
        for partition in partitions:
            found = await store.search(partition, vector(1.0), 120)
            assert {match.id for match in found} == {made(number).id for number, at in placed.items() if at == partition}
        await stores.close()

    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="tiergate-", dir=memory if memory.is_dir() else None) as name:
        asyncio.run(run(Path(name)))
