"""Flushes of the semantic cache where several gateways write, where the store is away, and over a restart."""

from __future__ import annotations

import asyncio
import dataclasses
import random

import pytest
from semantic_world import SECRET, DictStore, WordEmbedder, World, ask, body

from caches.errors import CacheAway
from caches.semantic.cache import SemanticCache
from caches.types import Entry
from caches.which import Which

QUESTION = "how do I reset my password"
SLOW = ("put", "delete", "flush", "mark", "marks", "search", "fetch")


class SlowStore(DictStore):
    """One server: each call is obeyed at one moment, somewhere between its asking and its answer."""

    def __init__(self, clock, rng):
        super().__init__(clock)
        self.notes_apart = False
        for name in SLOW:
            setattr(self, name, self._slow(getattr(self, name), rng))

    @staticmethod
    def _slow(work, rng):
        async def call(*given, **named):
            for _ in range(rng.randrange(6)):
                await asyncio.sleep(0)
            answer = await work(*given, **named)
            for _ in range(rng.randrange(6)):
                await asyncio.sleep(0)
            return answer

        return call


def gateway(world, skew):
    """One of several; its clock is as wrong as it may be."""
    return SemanticCache(
        embedder=WordEmbedder(), store=world.store, secret=SECRET, wall=lambda: world.clock.now + skew, max_answer=10_000,
        preset="strict", shared=True,
    )  # fmt: skip


def entry(now):
    return Entry(
        id="ce-1", key=b"k", tenant="acme", model="m", tier="small", endpoint="chat", body=body("the answer"), stored_at=now,
        expires_at=now + 1000, began_at=now,
    )  # fmt: skip


@pytest.mark.parametrize("skew", [-9.0, 0.0, 9.0])
@pytest.mark.parametrize("which", [Which(tenant="acme"), Which(everything=True)])
async def test_what_another_gateway_makes_during_a_flush_is_not_kept(skew, which):
    """However the two interleave, whatever the clocks say; and what is made afterwards is kept."""
    for seed in range(60):
        rng, world = random.Random(seed), World()
        world.store = SlowStore(world.clock, rng)
        flushes, makes = gateway(world, 0.0), gateway(world, skew)
        for one in (flushes, makes):
            await one.writer.turn()
        await makes.keep(ask(QUESTION), entry(world.clock.now + skew))

        async def flush(flushes=flushes, rng=rng):
            for _ in range(rng.randrange(30)):
                await asyncio.sleep(0)
            await flushes.flush(which)

        await asyncio.gather(makes.writer.turn(), flush())
        assert world.store.points == {}, seed
        world.clock.now += 30
        for one in (flushes, makes):
            await one.writer.turn()
        world.clock.now += 1
        await makes.keep(ask(QUESTION), entry(world.clock.now + skew))
        await makes.writer.turn()
        assert len(world.store.points) == 1, seed
        assert (await makes.look(ask(QUESTION))).entry is not None


async def test_an_answer_that_is_still_being_made_when_another_gateway_flushes_is_not_kept():
    """Its making began before the flush, its writing comes long after."""
    world = World()
    world.store = SlowStore(world.clock, random.Random(1))
    flushes, makes = gateway(world, 0.0), gateway(world, 5.0)
    for one in (flushes, makes):
        await one.writer.turn()
    made = entry(world.clock.now + 5.0)
    await flushes.flush(Which(tenant="acme"))
    world.clock.now += 60
    made.stored_at = world.clock.now + 5.0
    await makes.keep(ask(QUESTION), made)
    await makes.writer.turn()
    assert world.store.points == {}


async def test_a_mark_is_obeyed_however_old_it_is():
    """Who left it at the server ended before it came to delete anything, and days went by."""
    world = World()
    world.store.notes_apart = False
    first = gateway(world, 0.0)
    await first.writer.turn()
    await first.keep(ask(QUESTION), entry(world.clock.now))
    await first.writer.turn()
    first.writer.flushes.begin(Which(tenant="acme"))
    await first.writer.flushes.tell()
    world.clock.now += 3 * 86_400
    for point in list(world.store.points.values()):
        world.store.points[point.id] = dataclasses.replace(point, expires_at=world.clock.now + 1000)
    second = gateway(world, 0.0)
    await second.writer.turn()
    assert world.store.points == {}
    await second.writer.turn()
    world.clock.now += 4
    await second.writer.turn()
    assert world.store.kept_marks == {}


@pytest.mark.parametrize("days", [0, 3])
async def test_a_flush_that_waits_for_the_store_outlives_a_restart(days):
    """The gateway ends while its store is away: the next one serves nothing before the store has obeyed, however late."""
    world = await World().open()
    await world.fill(ask(QUESTION), expires_at=world.clock.now + 1e6)
    await world.fill(ask("which planets have rings", tenant="beta", scope="t:beta", room="bb"), expires_at=world.clock.now + 1e6)
    world.store.away = "failed"
    with pytest.raises(CacheAway):
        await world.cache.flush(Which(tenant="acme"))
    cache = world.again()
    world.clock.now += days * 86_400
    await cache.writer.turn()
    assert (await cache.look(ask(QUESTION))).away
    world.store.away = ""
    await cache.writer.turn()
    assert [point.tenant for point in world.store.points.values()] == ["beta"]
    assert (await cache.look(ask(QUESTION))).entry is None
    assert world.store.kept_marks == {}


async def test_a_flush_after_a_restart_takes_only_what_it_meant():
    """A mark that a gateway has left, and died before it was done, takes nothing that was kept since."""
    world = World()
    world.store.notes_apart = False
    first = gateway(world, 0.0)
    await first.writer.turn()
    await first.flush(Which(tenant="acme"))
    world.clock.now += 60
    await first.keep(ask(QUESTION), entry(world.clock.now))
    await first.writer.turn()
    assert len(world.store.points) == 1
    second = gateway(world, 0.0)
    await second.writer.turn()
    assert len(world.store.points) == 1
    world.clock.now += 4000
    await second.writer.turn()
    assert world.store.kept_marks == {}


async def test_a_mark_that_cannot_be_read_harms_nobody():
    """What somebody else has put there is left out, and taken away."""
    world = World()
    world.store.notes_apart = False
    world.store.kept_marks = {"x": b"\xff\x00", "y": b"\x82\xa2at\x01\xa5which\x80"}
    cache = gateway(world, 0.0)
    await cache.writer.turn()
    assert (await cache.look(ask(QUESTION))).away == ""
    assert world.store.kept_marks == {}
