"""The in-process store, and the store of a cache that is off."""

import tracemalloc
from dataclasses import replace

import pytest

from caches.memory import MemoryStore
from caches.null import NullStore
from caches.types import ENTRY_OVERHEAD, CacheStats, Entry
from caches.which import Which


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


def entry(n, *, tenant="acme", model="small", size=100, born=1000.0, ttl=60.0, ident=None):
    return Entry(
        id=ident or f"ce-{n:024x}", key=b"%024d" % n, tenant=tenant, model=model, tier="small", endpoint="chat",
        body=b"x" * size, stored_at=born, expires_at=born + ttl, completion_tokens=3, prompt_tokens=4,
    )  # fmt: skip


def room(count, size=100):
    return count * (size + ENTRY_OVERHEAD)


async def test_a_peek_saves_nothing_from_going():
    """Who is only looked at goes first, as if nobody had; what has expired is not seen."""
    clock = Clock()
    store = MemoryStore(room(10), clock)
    for n in range(10):
        await store.put(entry(n))
    await store.get(entry(1).key)
    for _ in range(3):
        assert await store.peek(entry(0).key) is not None
    await store.put(entry(10))
    assert await store.peek(entry(0).key) is None
    assert await store.peek(entry(1).key) is not None
    clock.now += 60
    assert await store.peek(entry(1).key) is None
    assert await NullStore().peek(entry(1).key) is None


async def test_get_returns_what_was_put():
    """An entry is found under its key, whole, and counted as a hit; another key is a miss."""
    store = MemoryStore(room(9), Clock())
    assert await store.put(entry(1))
    assert await store.get(entry(1).key) == replace(entry(1), generation=1)
    assert await store.get(entry(2).key) is None
    assert await store.stats() == CacheStats(1, room(1), room(9), hits=1, misses=1, evictions=0)


async def test_what_was_never_asked_for_goes_first():
    """When room is short, an entry that was used stays, and one that nobody asked for goes, though it is the younger."""
    store = MemoryStore(room(2), Clock())
    await store.put(entry(1))
    await store.put(entry(2))
    for _ in range(2):
        await store.get(entry(1).key)
    await store.put(entry(3))
    assert await store.get(entry(2).key) is None
    assert await store.get(entry(1).key)
    assert await store.get(entry(3).key)
    assert (await store.stats()).evictions == 1


async def test_one_large_entry_evicts_as_many_as_it_needs():
    """Bytes are bounded, not the number of entries."""
    store = MemoryStore(room(4), Clock())
    for n in range(4):
        await store.put(entry(n))
    await store.put(entry(9, size=room(3) - ENTRY_OVERHEAD))
    stats = await store.stats()
    assert (stats.entries, stats.bytes, stats.evictions) == (2, room(4), 3)


async def test_expired_entries_are_never_returned():
    """At its expiry an entry is a miss, and its room is free; that is no eviction."""
    clock = Clock()
    store = MemoryStore(room(9), clock)
    await store.put(entry(1))
    clock.now = 1059.999
    assert await store.get(entry(1).key)
    clock.now = 1060.0
    assert await store.get(entry(1).key) is None
    assert await store.stats() == CacheStats(0, 0, room(9), hits=1, misses=1, evictions=0)


async def test_put_sweeps_expired_entries_at_the_old_end():
    """Expired entries that nobody asks for go as new ones come."""
    clock = Clock()
    store = MemoryStore(room(99), clock)
    for n in range(6):
        await store.put(entry(n))
    clock.now = 1060.0
    for n in range(10, 13):
        await store.put(entry(n, born=1060.0))
    assert (await store.stats()).entries == 3


@pytest.mark.parametrize("refused", [entry(1, size=501), entry(1, born=900.0, ttl=100.0)])
async def test_too_large_or_expired_is_refused(refused):
    """A body over `max_entry` or past its expiry is not taken, and takes no other's place."""
    store = MemoryStore(room(9), Clock(), max_entry=500)
    await store.put(entry(1, size=500))
    assert not await store.put(refused)
    assert (await store.get(entry(1).key)).body == b"x" * 500


async def test_larger_than_the_store_is_refused():
    """An entry that cannot fit empties nothing."""
    store = MemoryStore(room(2), Clock())
    await store.put(entry(1))
    assert not await store.put(entry(2, size=room(2)))
    assert (await store.stats()).entries == 1


async def test_putting_again_replaces():
    """One key has one entry, and its bytes are counted once."""
    store = MemoryStore(room(9), Clock())
    await store.put(entry(1))
    await store.put(entry(1, size=300, ttl=90.0))
    stats = await store.stats()
    assert (stats.entries, stats.bytes, stats.evictions) == (1, 300 + ENTRY_OVERHEAD, 0)


async def test_an_id_names_one_entry():
    """Should two keys ever have one id, the later entry stands alone, so that deleting by id leaves nothing behind."""
    store = MemoryStore(room(9), Clock())
    await store.put(entry(1, ident="ce-same"))
    await store.put(entry(2, ident="ce-same"))
    assert await store.get(entry(1).key) is None
    assert await store.delete("ce-same", "acme")
    assert (await store.stats()).entries == 0


async def test_only_the_owner_or_the_operator_deletes():
    """Another tenant's delete finds nothing; the owner's and the operator's (None) do."""
    store = MemoryStore(room(9), Clock())
    await store.put(entry(1))
    await store.put(entry(2))
    assert not await store.delete(entry(1).id, "other")
    assert not await store.delete("ce-unknown", None)
    assert await store.delete(entry(1).id, "acme")
    assert not await store.delete(entry(1).id, "acme")
    assert await store.delete(entry(2).id, None)
    assert (await store.stats()).entries == 0


async def test_deleting_an_expired_entry_finds_nothing():
    """What could no longer be read cannot be deleted either, as far as anybody is told."""
    clock = Clock()
    store = MemoryStore(room(9), clock)
    await store.put(entry(1))
    clock.now = 2000.0
    assert not await store.delete(entry(1).id, "acme")
    assert (await store.stats()).entries == 0


@pytest.mark.parametrize(
    ("conditions", "gone"),
    [
        ({"tenant": "a"}, {1, 2}),
        ({"model": "large"}, {2, 4}),
        ({"tenant": "a", "model": "large"}, {2}),
        ({"older_than": 30.0}, {3}),
        ({"older_than": 0.0}, {1, 2, 3, 4}),
        ({"tenant": "a", "older_than": 30.0}, set()),
        ({"tenant": "nobody"}, set()),
        ({"everything": True}, {1, 2, 3, 4}),
        ({"everything": True, "tenant": "b"}, {3, 4}),
    ],
)
async def test_flush_takes_what_meets_all_conditions(conditions, gone):
    """A dry run counts and keeps; the flush itself deletes exactly what it counted."""
    store = MemoryStore(room(9), Clock())
    await store.put(entry(1, tenant="a"))
    await store.put(entry(2, tenant="a", model="large"))
    await store.put(entry(3, tenant="b", born=970.0))
    await store.put(entry(4, tenant="b", model="large"))
    assert await store.flush(Which(**conditions), dry_run=True) == len(gone)
    assert (await store.stats()).entries == 4
    assert await store.flush(Which(**conditions)) == len(gone)
    left = {n for n in range(1, 5) if await store.get(entry(n).key)}
    assert left == {1, 2, 3, 4} - gone


async def test_flush_without_a_condition_is_refused():
    """A forgotten condition empties nothing; an age of 0 and an empty name are conditions."""
    store = MemoryStore(room(9), Clock())
    await store.put(entry(1))
    with pytest.raises(ValueError, match="condition"):
        await store.flush(Which())
    assert await store.flush(Which(tenant="")) == 0
    assert (await store.stats()).entries == 1


def test_an_entry_hides_its_content():
    """The repr of an entry, which may reach a log, shows neither the answer nor the key."""
    shown = repr(entry(1))
    assert "ce-" in shown
    assert "xxx" not in shown
    assert str(entry(1).key) not in shown


async def test_the_bound_is_honest():
    """A full store really takes no more memory than its bound, whatever it keeps beside the bodies, ghosts too."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        store = MemoryStore(2_000_000, Clock())
        for n in range(3000):
            await store.put(entry(n, tenant=f"tenant-{n}", model=f"model-{n}", size=40))
            for _ in range(2):
                await store.get(entry(n).key)
        for n in range(3000, 6000):
            await store.put(entry(n, tenant=f"tenant-{n}", model=f"model-{n}", size=40))
        used = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    stats = await store.stats()
    assert stats.evictions > 0
    assert used <= stats.max_bytes


async def test_the_null_store_keeps_nothing():
    """A cache that is off takes every call and finds nothing."""
    store = NullStore()
    assert not await store.put(entry(1))
    assert await store.get(entry(1).key) is None
    assert not await store.delete(entry(1).id, None)
    assert await store.flush(Which(everything=True)) == 0
    assert await store.stats() == CacheStats(0, 0, 0, 0, 0, 0)
