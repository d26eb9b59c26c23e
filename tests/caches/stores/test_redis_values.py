"""Values as they lie in Redis: outside input, to be read or to be thrown away."""

import time
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from store_world import BODY, entry, ident, key_of, know_for_long, redis_store, until

from caches.which import Which

pytest.importorskip("redis", reason="the extra `redis` is not installed")

from caches.redis.store import _ENTRIES, _INDEX, MARKS, PREFIX
from caches.redis.value import SMALLEST, Foreign, seal, unseal

LIMIT = 10_000


def opened(value, n=1):
    return unseal(value, ident(key_of(n)), key_of(n), LIMIT)


@given(
    body=st.binary(max_size=4000), tenant=st.text(max_size=20), model=st.text(max_size=20),
    tags=st.lists(st.text(max_size=9), max_size=16).map(tuple), born=st.floats(0, 1e16),
)  # fmt: skip
def test_what_is_sealed_is_read_as_it_was(body, tenant, model, tags, born):
    """Every entry comes out as it went in, whatever its names and bytes."""
    made = entry(1, body=body, tenant=tenant, model=model, tags=tags)
    kept, when = opened(seal(made, born, 7.0))
    assert when == born
    assert (kept.body, kept.tenant, kept.model, kept.tags, kept.stored_at) == (body, tenant, model, tags, 7.0)


@pytest.mark.parametrize("body", [b"{}", BODY * 100], ids=["plain", "compressed"])
def test_one_bit_is_enough(body):
    """A value that differs from what was stored in any place is foreign; so is one that is cut short, or goes on."""
    value = seal(entry(1, body=body), 1e15, 1e9)
    assert (len(value) < len(body)) is (len(body) > SMALLEST)
    for at in range(len(value)):
        for bit in (1, 128):
            with pytest.raises(Foreign):
                opened(value[:at] + bytes([value[at] ^ bit]) + value[at + 1 :])
        with pytest.raises(Foreign):
            opened(value[:at])
    with pytest.raises(Foreign):
        opened(value + b"\0")


@given(st.binary(max_size=300), st.integers(1, 3), st.integers(0, 9))
def test_noise_is_foreign(noise, version, fields):
    """Nothing that is none of ours is read, or does harm, even with a checksum that is right."""
    start = bytes([version, fields]) + noise
    for value in (noise, start, start + zlib.crc32(start).to_bytes(4, "big")):
        with pytest.raises(Foreign):
            opened(value)


def test_another_answer_is_foreign():
    """A whole value that lies in another's place, or is too large, is not served."""
    with pytest.raises(Foreign):
        opened(seal(entry(2), 1.0, 1.0))
    with pytest.raises(Foreign):
        opened(seal(entry(1, body=b"x" * (LIMIT + 1)), 1.0, 1.0))
    with pytest.raises(Foreign):
        opened(seal(entry(1, body=b"\0" * 50_000_000), 1.0, 1.0))


@pytest.fixture
async def store(redis):
    know_for_long(redis)
    made = redis_store(redis.url)
    await made.start()
    yield made
    await made.close()


KEY = (_ENTRIES + ident(key_of(1))).encode()
FOREIGN = {
    "noise": [(b"SET", KEY, b"hello")],
    "empty": [(b"SET", KEY, b"")],
    "a list": [(b"DEL", KEY), (b"RPUSH", KEY, b"hello")],
    "a hash": [(b"DEL", KEY), (b"HSET", KEY, b"a", b"b")],
    "head alone": [(b"SET", KEY, b"\1\4" + b"x" * 40)],
    "without an end": [(b"PERSIST", KEY)],
    "damaged": [(b"SETRANGE", KEY, b"60", b"????")],
    "longer": [(b"APPEND", KEY, b"?")],
}


@pytest.mark.parametrize("commands", list(FOREIGN.values()), ids=list(FOREIGN))
async def test_a_foreign_value_is_a_miss_and_is_deleted(store, redis, commands):
    """It is neither served nor an error, it is gone afterwards, and the place can be used again."""
    assert await store.put(entry(1))
    for command in commands:
        assert not redis.command(*command).startswith(b"-")
    assert await store.get(key_of(1)) is None
    assert store.away is None
    await until(lambda: redis.command(b"EXISTS", KEY) == b":0\r\n")
    assert await store.put(entry(1))
    assert await store.get(key_of(1))


async def test_foreign_values_do_not_stand_in_the_way(store, redis):
    """Flushes, dry runs, deletes and figures step over what is none of ours."""
    for n in range(5):
        assert await store.put(entry(n))
    redis.command(b"SET", KEY, b"hello")
    redis.command(b"DEL", (_ENTRIES + ident(key_of(2))).encode())
    redis.command(b"RPUSH", (_ENTRIES + ident(key_of(2))).encode(), b"hello")
    assert await store.flush(Which(tenant="acme"), dry_run=True) == 3
    assert not await store.delete(ident(key_of(2)), "acme")
    assert await store.flush(Which(tenant="acme")) == 3
    assert (await store.stats()).entries <= 1


async def test_marks_that_are_lost_cost_entries_not_flushes(store, redis):
    """A server that evicted the marks does not know any more what was flushed: nothing older is served or stored, newer is."""
    assert await store.put(entry(1))
    began = time.time()
    await store.flush(Which(everything=True))
    assert not await store.put(entry(1, began=began))
    redis.command(b"DEL", MARKS.encode())
    assert not await store.put(entry(1, began=began)), "it says from when on it knows"
    assert not await store.put(entry(1, began=began))
    assert await store.get(key_of(1)) is None

    async def stored():
        return await store.put(entry(1))

    await until(stored)
    redis.command(b"DEL", MARKS.encode())
    assert await store.get(key_of(1)) is None
    assert store.away is None


async def test_an_index_that_is_lost_costs_counts_not_flushes(store, redis):
    """What cannot be counted any more is flushed all the same."""
    assert await store.put(entry(1))
    redis.command(b"DEL", _INDEX.encode())
    assert await store.flush(Which(tenant="acme")) == 0
    assert await store.get(key_of(1)) is None


async def test_a_flush_is_over_before_its_deleting_is(store, redis):
    """Should a gateway end in the middle of a flush, what it has not deleted yet is not served, nor found by a delete."""
    assert await store.put(entry(1))
    store._walk = lambda *_, **__: _never()
    await store.flush(Which(tenant="acme"))
    assert redis.command(b"EXISTS", KEY) == b":1\r\n"
    assert await store.get(key_of(1)) is None
    assert redis.command(b"EXISTS", KEY) == b":0\r\n", "who meets it deletes it"
    assert not await store.delete(ident(key_of(1)), "acme")


async def _never():
    return 0


async def test_everything_lies_under_one_prefix(store, redis):
    """All keys have our prefix and one hash tag, and the index loses what has expired."""
    for n in range(8):
        assert await store.put(entry(n, ttl=0.05))
    keys = redis.command(b"KEYS", b"*").split(b"\r\n")[2::2]
    assert keys
    assert all(key.startswith(PREFIX.encode()) for key in keys)
    assert "{exact}" in PREFIX

    async def gone():
        return await store.get(key_of(7)) is None

    await until(gone)
    for n in range(10, 13):
        assert await store.put(entry(n))
    assert redis.command(b"ZCARD", _INDEX.encode()) == b":3\r\n"
    assert (await store.stats()).entries == 3


async def test_an_answer_that_took_too_long_is_not_stored(store):
    """Nothing that began more than an hour ago is taken: marks need not be kept for longer than that."""
    assert await store.put(entry(1, age=3500.0))
    assert not await store.put(entry(2, age=3700.0))


async def test_an_answer_of_tomorrow_is_not_stored(store):
    """What began later than the server's present would outlive a flush."""
    assert not await store.put(entry(1, age=-60.0))


@pytest.mark.parametrize("wrong", [{"id": "ce-other"}, {"tags": tuple(f"t{n}" for n in range(17))}])
async def test_entries_that_cannot_be_kept(store, wrong):
    """An id that is not its key's, or more tags than a flush can look at: refused, and no error."""
    made = entry(1)
    for name, value in wrong.items():
        setattr(made, name, value)
    assert not await store.put(made)
    assert await store.get(key_of(1)) is None


async def test_marks_are_bounded_and_never_weaker(redis, monkeypatch):
    """Thousands of flushes and deletes: the hash stays small, and what they meant is refused to the last."""
    from caches.redis import scripts
    from caches.redis.server import Script

    for name in ("PUT", "DELETE", "FLUSH"):
        known = getattr(scripts, name)
        monkeypatch.setattr(scripts, name, Script(known.text.replace("4096", "16"), known.answer))
    know_for_long(redis)
    store = redis_store(redis.url)
    await store.start()
    began = time.time()
    try:
        for n in range(60):
            await store.flush(Which(tenant=f"t{n}"))
            await store.delete(ident(key_of(n)), f"d{n}")
        assert int(redis.command(b"HLEN", MARKS.encode())[1:]) <= 17
        for n in range(60):
            assert not await store.put(entry(n, tenant=f"t{n}", began=began))
            assert not await store.put(entry(n, tenant=f"d{n}", began=began))

        async def stored():
            return await store.put(entry(1, tenant="t1"))

        await until(stored)
    finally:
        await store.close()


async def test_a_tenant_that_deletes_without_end_harms_itself_alone(store, redis):
    """Its own marks become coarse: no answer of it that began before its last deletes is stored; others do not feel it."""
    began = time.time()
    for n in range(200):
        await store.delete(f"ce-{n}", "noisy")
    assert await store.put(entry(1, began=began))
    assert not await store.put(entry(2, tenant="noisy", began=began))
    sizes = [int(redis.command(b"HSTRLEN", MARKS.encode(), field)[1:]) for field in fields(redis)]
    assert max(sizes) <= 64 * 16


def fields(redis):
    reply = redis.command(b"HKEYS", MARKS.encode())
    found, at = [], reply.index(b"\r\n") + 2
    while at < len(reply):
        end = reply.index(b"\r\n", at)
        size = int(reply[at + 1 : end])
        found.append(reply[end + 2 : end + 2 + size])
        at = end + 4 + size
    return found
