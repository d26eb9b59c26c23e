"""What every store does, whichever its kind: seen by two gateways that share it."""

import asyncio
import time

import pytest
from store_world import BODY, MAX_ENTRY, entry, ident, key_of, until

from caches.which import Which


async def seen(world, n):
    """What each gateway finds."""
    return [await store.get(key_of(n)) for store in (world.one, world.two)]


async def test_what_one_puts_both_find(world):
    """An entry comes back whole, with its times, and another key is a miss."""
    made = await world.keep(entry(1, tags=("faq", "news"), body=BODY * 50))
    for found in await seen(world, 1):
        assert (found.id, found.key, found.tenant, found.model, found.tier) == (made.id, made.key, "acme", "small", "small")
        assert (found.endpoint, found.body, found.tags) == ("chat", BODY * 50, ("faq", "news"))
        assert (found.completion_tokens, found.prompt_tokens) == (3, 4)
        assert found.stored_at == pytest.approx(made.stored_at, abs=0.6)
        assert found.expires_at == pytest.approx(made.expires_at, abs=0.6)
        assert found.generation == made.generation > 0
    assert await seen(world, 2) == [None, None]
    assert world.one.away is None


async def test_a_peek_finds_what_a_get_finds_and_leaves_no_trace(world):
    """Both gateways see it, no hit and no miss is counted, and what was flushed is not seen."""
    await world.keep(entry(1))
    before = [await store.stats() for store in (world.one, world.two)]
    peeked = [await store.peek(key_of(1)) for store in (world.one, world.two)]
    assert [found.body for found in peeked] == [BODY, BODY]
    assert [await store.peek(key_of(2)) for store in (world.one, world.two)] == [None, None]
    assert [await store.stats() for store in (world.one, world.two)] == before
    assert [found.generation for found in await seen(world, 1)] == [found.generation for found in peeked]
    await world.one.flush(Which(everything=True))
    assert [await store.peek(key_of(1)) for store in (world.one, world.two)] == [None, None]


@pytest.mark.parametrize("size", [0, 1, 1000, 1100, 3_000_000])
async def test_bodies_of_every_size(world, size):
    """Compressed or not, in a thread or not, bytes are bytes."""
    body = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    await world.keep(entry(1, body=body))
    assert [found.body for found in await seen(world, 1)] == [body, body]


async def test_a_replaced_answer_has_another_generation(world):
    """Who holds a copy can tell that it is no longer the answer; both gateways have the new one."""
    first = await world.keep(entry(1))
    await seen(world, 1)
    second = await world.keep(entry(1, body=b"{}"), world.two)
    assert second.generation != first.generation

    async def both_have_it():
        return [found.generation for found in await seen(world, 1)] == [second.generation] * 2

    await until(both_have_it)
    await world.one.delete(second.id, None)
    third = await world.keep(entry(1, body=b"{}"))
    assert third.generation not in (first.generation, second.generation)


async def test_an_entry_expires(world):
    """At the end of its time it is a miss for both; what has expired already is refused."""
    made = await world.keep(entry(1, ttl=0.3))

    async def gone():
        return await seen(world, 1) == [None, None]

    await until(gone)
    assert time.time() >= made.expires_at - 0.1
    assert not await world.one.put(entry(2, ttl=-1.0))


async def test_too_large_is_refused(world):
    """What is larger than the bound is not stored, and is no error."""
    assert not await world.one.put(entry(1, body=b"x" * (MAX_ENTRY + 1)))
    assert await seen(world, 1) == [None, None]


async def test_only_the_owner_or_the_operator_deletes(world):
    """Another tenant's delete finds nothing, and changes nothing; the owner's and the operator's take it from both gateways."""
    for n in (1, 2):
        await world.keep(entry(n))
    assert None not in await seen(world, 1) + await seen(world, 2)
    assert not await world.two.delete(ident(key_of(1)), "other")
    assert not await world.two.delete("ce-unknown", None)
    assert not await world.two.delete("x" * 10_000, None)
    assert None not in await seen(world, 1)
    assert await world.two.delete(ident(key_of(1)), "acme")
    assert await world.two.delete(ident(key_of(2)), None)
    assert await seen(world, 1) + await seen(world, 2) == [None] * 4
    assert not await world.one.delete(ident(key_of(1)), "acme")


CONDITIONS = [
    ({"tenant": "a"}, {1, 2}),
    ({"model": "large"}, {2, 4}),
    ({"tag": "faq"}, {1, 4}),
    ({"tenant": "a", "model": "large"}, {2}),
    ({"tenant": "a", "tag": "news"}, {1}),
    ({"model": "large", "tag": "faq"}, {4}),
    ({"tenant": "b", "model": "large", "tag": "faq"}, {4}),
    ({"older_than": 30.0}, {3}),
    ({"tenant": "a", "older_than": 30.0}, set()),
    ({"tenant": "nobody"}, set()),
    ({"everything": True}, {1, 2, 3, 4}),
    ({"everything": True, "tenant": "b"}, {3, 4}),
]


@pytest.mark.parametrize(("conditions", "gone"), CONDITIONS)
async def test_flush_takes_what_meets_all_conditions(world, conditions, gone):
    """A dry run counts and keeps; the flush deletes what was counted, and when it returns neither gateway finds any of it."""
    await world.keep(entry(1, tenant="a", tags=("faq", "news")))
    await world.keep(entry(2, tenant="a", model="large"))
    await world.keep(entry(4, tenant="b", model="large", tags=("faq",)))
    await world.keep(entry(3, tenant="b", age=40.0))
    for n in range(1, 5):
        await seen(world, n)
    which = Which(**conditions)
    assert await world.two.flush(which, dry_run=True) == len(gone)
    assert {n for n in range(1, 5) if None not in await seen(world, n)} == {1, 2, 3, 4}
    assert await world.two.flush(which) == len(gone)
    for n in range(1, 5):
        assert [found is None for found in await seen(world, n)] == [n in gone] * 2
    assert await world.one.flush(which, dry_run=True) == 0


@pytest.mark.parametrize(
    "conditions", [{"tenant": "acme"}, {"model": "small"}, {"tag": "faq"}, {"older_than": 0.0}, {"everything": True}]
)
async def test_what_was_being_made_is_not_stored_after_a_flush(world, conditions):
    """Neither gateway takes an answer that began before the flush, however late it comes; both take one that began since."""
    began = time.time()
    await world.one.flush(Which(**conditions))
    for store in (world.one, world.two):
        assert not await store.put(entry(1, tags=("faq",), began=began))
    await world.keep(entry(1, tags=("faq",)), world.two)
    assert None not in await seen(world, 1)


async def test_a_flush_of_others_refuses_nothing(world):
    """What a flush does not mean is stored, whenever its making began."""
    began = time.time() - 1
    for conditions in ({"tenant": "other"}, {"model": "large"}, {"tag": "news"}, {"older_than": 60.0}):
        await world.one.flush(Which(**conditions))
    assert await world.two.put(entry(1, tags=("faq",), began=began))


@pytest.mark.parametrize(("tenant", "stored"), [("acme", False), (None, False), ("other", True)])
async def test_a_deleted_answer_does_not_come_back(world, tenant, stored):
    """What was being made when its id was deleted is refused, if its owner or the operator did that, and only then."""
    began = time.time()
    await world.one.delete(ident(key_of(1)), tenant)
    assert await world.two.put(entry(1, began=began)) is stored
    assert await world.two.put(entry(2, began=began))
    await world.keep(entry(1), world.two)


async def test_a_store_that_races_a_flush(world):
    """Whatever the order in which they arrive: what began before the flush is not there when both are done."""
    for n in range(20):
        began = time.time()
        puts = [store.put(entry(i, began=began)) for i in range(5) for store in (world.one, world.two)]
        flush = world.two.flush(Which(tenant="acme"))
        await asyncio.gather(*([*puts[:5], flush, *puts[5:]] if n % 2 else [flush, *puts]))
        assert [await seen(world, i) for i in range(5)] == [[None, None]] * 5
        if world.kind == "two_level" and n > 2:
            break  # each waits half a second


async def test_tenants_are_apart(world):
    """A thousand tenants: a flush of one takes its own, and each goes on finding its own alone."""
    for n in range(1000):
        assert await world.one.put(entry(n, tenant=f"t{n}"))
    assert await world.two.flush(Which(tenant="t7"), dry_run=True) == 1
    assert await world.two.flush(Which(tenant="t7")) == 1
    found = [await world.one.get(key_of(n)) for n in range(1000)]
    assert [entry.tenant if entry else None for entry in found] == [None if n == 7 else f"t{n}" for n in range(1000)]


async def test_stats_tell_how_much_there_is(world):
    """Entries are counted, bytes about right, hits and misses as this gateway had them."""
    for n in range(10):
        await world.keep(entry(n))
    await world.one.get(key_of(1))
    await world.one.get(key_of(11))
    stats = await world.one.stats()
    assert (stats.entries, stats.hits, stats.misses) == (10, 1, 1)
    assert stats.bytes >= 10 * len(BODY)
