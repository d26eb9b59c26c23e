"""Memory in front of a shared store: quick while it hears of every change, and never believed when it may have missed one."""

import asyncio
import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis_proxy import proxy
from store_world import MAX_ENTRY, World, entry, ident, key_of, two_level_store, until

from caches.which import Which

pytest.importorskip("redis", reason="the extra `redis` is not installed")

from caches.two_level import News, TwoLevelStore


@pytest.fixture
async def world(redis):
    async with World("two_level", redis) as made:
        yield made


def asked(redis) -> int:
    """How many scripts the server has run so far."""
    stats = redis.command(b"INFO", b"commandstats")
    return int(stats.split(b"cmdstat_evalsha:calls=")[1].split(b",")[0]) if b"cmdstat_evalsha:" in stats else 0


async def in_front(store, n):
    """It is served from memory."""

    async def there():
        await store.get(key_of(n))
        return store._changes.believed and store._front.get(key_of(n)) is not None

    await until(there)


async def test_a_second_hit_asks_nobody(world, redis):
    """What was put or found once is served from memory, the same entry with the same generation, and counts as a hit."""
    made = await world.keep(entry(1))
    await in_front(world.two, 1)
    before = asked(redis)
    for store in (world.one, world.two):
        for _ in range(10):
            found = await store.get(key_of(1))
            assert (found.generation, found.body) == (made.generation, made.body)
    assert asked(redis) == before
    assert (await world.two.stats()).hits >= 10


async def test_memory_is_bounded(redis):
    """The front holds its bytes and no more; what does not fit comes from the shared store."""
    async with World("two_level", redis) as world:
        small = TwoLevelStore(world.one._shared, 20_000, max_entry=MAX_ENTRY)
        small._changes = world.one._changes  # it hears what the other hears
        for n in range(50):
            await world.keep(entry(n, body=b"x" * 1000), world.two)
        for n in range(50):
            assert (await small.get(key_of(n))).body == b"x" * 1000
        assert 0 < small._front.weight <= 20_000


async def test_a_front_that_hears_nothing_is_not_believed(redis):
    """While changes cannot be heard every lookup asks the shared store; when they can be, memory is used again, and is empty."""
    async with World("two_level", redis) as world, proxy(str(redis.socket)) as between:
        store = two_level_store(between.url)
        await store.start()
        try:
            made = await world.keep(entry(1))
            await in_front(store, 1)
            between.deaf = lambda sent: b"SUBSCRIBE" in sent
            await until(lambda: not store._changes.believed)
            before = asked(redis)
            for _ in range(5):
                assert (await store.get(key_of(1))).generation == made.generation
            assert asked(redis) == before + 5
            assert store.away is None
            between.cut()
            between.deaf = lambda _: False
            await until(lambda: store._changes.believed)
            assert len(store._front) == 0
            await in_front(store, 1)
        finally:
            await store.close()


@pytest.mark.parametrize("command", [b"FLUSHALL", b"FLUSHDB"])
@pytest.mark.parametrize("rewritten", [False, True], ids=["left empty", "written to at once"])
async def test_a_server_that_was_wiped_is_served_from_no_memory(world, redis, command, rewritten):
    """Nobody is told, every connection stays: what was in memory is gone all the same, and new answers are kept as before."""
    await world.keep(entry(1))
    for store in (world.one, world.two):
        await in_front(store, 1)
    redis.command(command)
    if rewritten:
        await world.keep(entry(2))
    for store in (world.one, world.two):

        async def gone(store=store):
            return await store.get(key_of(1)) is None

        await until(gone)
        assert not await store.delete(ident(key_of(1)), "acme")
    made = await world.keep(entry(1))
    for store in (world.one, world.two):
        await in_front(store, 1)
        assert (await store.get(key_of(1))).generation == made.generation


async def test_what_a_server_knows_is_asked_for_as_long_as_it_is_believed(redis):
    """A gateway that no longer hears which epoch it is believes its memory no more, though it hears of every change."""
    async with World("two_level", redis) as world, proxy(str(redis.socket)) as between:
        store = two_level_store(between.url)
        await store.start()
        try:
            await world.keep(entry(1))
            await in_front(store, 1)
            between.deaf = lambda sent: b"SUBSCRIBE" not in sent
            redis.command(b"FLUSHALL")
            await until(lambda: not store._changes.believed)
            assert await store.get(key_of(1)) is None
        finally:
            await store.close()


@pytest.mark.parametrize("what", ["delete", "flush", "replace"])
@pytest.mark.parametrize("deaf", [b"SUBSCRIBE", b""], ids=["to changes", "to everything"])
async def test_a_gateway_that_is_cut_off_without_a_word(redis, what, deaf):
    """Its connections look alive. When a delete or flush elsewhere has returned, it no longer serves what was meant."""
    async with World("two_level", redis) as world, proxy(str(redis.socket)) as between:
        store = two_level_store(between.url, deadline=0.05)
        await store.start()
        try:
            old = await world.keep(entry(1))
            await in_front(store, 1)
            between.deaf = lambda sent: deaf in sent
            if what == "delete":
                assert await world.one.delete(ident(key_of(1)), "acme")
            elif what == "flush":
                assert await world.one.flush(Which(tenant="acme")) == 1
            else:
                await world.keep(entry(1, body=b"{}"))
                await until(lambda: not store._changes.believed)
            found = await store.get(key_of(1))
            assert found is None or found.generation != old.generation
        finally:
            await store.close()


async def test_an_answer_on_its_way_is_not_put_in_front_when_it_was_deleted_meanwhile(redis):
    """The lookup may still give it, for it was asked before; the next one must not."""
    async with World("two_level", redis) as world, proxy(str(redis.socket)) as between:
        store = two_level_store(between.url, deadline=5.0)
        await store.start()
        try:
            await world.keep(entry(1))
            await until(lambda: store._changes.believed)
            between.hold = asyncio.Event()
            looking = asyncio.create_task(store.get(key_of(1)))
            await until(lambda: between.held)
            await world.one._shared.delete(ident(key_of(1)), None)
            await until(lambda: store._news.count > 1)
            between.hold.set()
            await looking
            assert store._front.get(key_of(1)) is None
            assert await store.get(key_of(1)) is None
        finally:
            await store.close()


async def test_two_puts_of_one_key_leave_the_last_one_for_both(world):
    """Whatever the order in which answers come back, both gateways end with what the shared store holds."""
    for turn in range(30):
        puts = [(world.one, world.two)[n % 2].put(entry(1, body=b"%d %d" % (turn, n))) for n in range(6)]
        await asyncio.gather(*puts)

        async def agree():
            kept = await world.one._shared.get(key_of(1))
            return [(await store.get(key_of(1))).body for store in (world.one, world.two)] == [kept.body] * 2

        await until(agree)


@pytest.mark.parametrize("text", [b"", b"f", b"c", b"x" * 300, b"c12345678", b"z12345678ce-1", bytes(range(200))])
async def test_a_message_that_is_none_harms_nobody(world, redis, text):
    """What anybody publishes there costs what is in memory, at the very most, and the next lookup is right."""
    made = await world.keep(entry(1))
    await in_front(world.two, 1)
    redis.command(b"PUBLISH", b"tiergate:1:{exact}:changes", text)
    await in_front(world.two, 1)
    assert (await world.two.get(key_of(1))).generation == made.generation


async def test_it_says_once_that_it_hears_nothing(own_redis, caplog):
    """One line when changes are no longer heard, one when they are again."""
    caplog.set_level("INFO")
    store = two_level_store(own_redis.url)
    await store.start()
    try:
        for _ in range(2):
            await until(lambda: store._changes.believed)
            own_redis.kill()
            await until(lambda: not store._changes.believed)
            await until(lambda: store._changes._cut)
            own_redis.start()
        await until(lambda: store._changes.believed)
    finally:
        await store.close()
    lines = [record.getMessage() for record in caplog.records if "changes are" in record.getMessage()]
    assert ["not heard" in line for line in lines] == [True, False] * 2


@given(st.lists(st.none() | st.integers(0, 9), max_size=60), st.integers(0, 59), st.integers(0, 9))
def test_news_never_forgets_a_change(changes, since, name):
    """Whatever was changed after a moment is told, however many changes there were: what it has lost counts as changed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("caches.two_level._MOST_CHANGES", 3)
        news, then, changed = News(), 0, False
        for n, change in enumerate(changes):
            if n == since:
                then, changed = news.count, False
            news.add(None if change is None else str(change))
            changed = changed or change in (None, name)
            assert len(news._ids) <= 3
        if changed and since < len(changes):
            assert news.since(then, str(name))
        assert not news.since(news.count, str(name))


async def test_random_work_of_two_gateways(world):
    """Gets, puts and deletes of both at once: after a delete has returned, nobody finds what began to be made before it."""
    deleted, found = dict.fromkeys(range(4), 0.0), []

    async def work(store, seed):
        rng = random.Random(seed)
        for n in range(60):
            key = rng.randrange(4)
            if rng.random() < 0.3:
                await store.put(entry(key, body=b"%d" % n))
            else:
                known, there = deleted[key], await store.get(key_of(key))
                found.append(there)
                assert there is None or there.began_at >= known - 0.01  # clocks are read at either end of a round trip
            await asyncio.sleep(rng.random() / 30)

    async def delete(store, key):
        for _ in range(2):
            now = time.time()
            await store.delete(ident(key_of(key)), None)
            deleted[key] = now

    stores = world.one, world.two
    await asyncio.gather(*(work(store, n) for n in range(3) for store in stores), *(delete(stores[n % 2], n) for n in range(4)))
    assert any(found)
