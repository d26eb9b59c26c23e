"""A batch job over many prompts must not empty the cache for everybody else."""

import pytest

from bench.cache_stores import Lru, Ours, hit_ratio, size_of, trace
from caches.memory import MemoryStore
from caches.types import Entry

KEYS = 2_000
ROOM = sum(size_of(key) for key in range(KEYS)) // 20


@pytest.mark.parametrize(("scans", "better"), [(False, 0.03), (True, 0.08)])
def test_hits_under_a_scan(scans, better):
    """Of the requests that could hit, more do than with an LRU of the same bytes; with a scan in between, many more."""
    lru, ours = (hit_ratio(made(ROOM), trace(30_000, KEYS, 0.9, scans), KEYS) for made in (Lru, Ours))
    assert ours >= lru + better


async def test_a_scan_leaves_what_is_in_use():
    """After ten times its bytes have passed through, a store still holds every entry that had been asked for a few times."""
    store = MemoryStore(200_000, lambda: 0.0)

    def made(n):
        return Entry(f"ce-{n}", b"%d" % n, "t", "m", "small", "chat", b"x" * 500, 0.0, 1.0)

    for n in range(30):
        await store.put(made(n))
        for _ in range(3):
            await store.get(b"%d" % n)
    for n in range(1000, 2200):
        await store.put(made(n))
    assert [n for n in range(30) if await store.get(b"%d" % n) is None] == []
