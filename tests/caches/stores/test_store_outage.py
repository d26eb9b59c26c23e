"""A Redis that is stopped, killed, slow, cut off or none at all: never an error of a lookup, and over when it is over."""

import asyncio
import time
from contextlib import asynccontextmanager

import pytest
from redis_proxy import impostor, proxy
from store_world import entry, ident, key_of, know_for_long, redis_store, two_level_store, until

from caches.errors import ExactStoreAway
from caches.which import Which

KINDS = {"redis": redis_store, "two_level": two_level_store}


@pytest.fixture(params=list(KINDS))
def kind(request, monkeypatch):
    monkeypatch.setattr("caches.redis.store.PATIENCE", 0.1)
    return request.param


@asynccontextmanager
async def opened(kind, url, **options):
    store = KINDS[kind](url, **{"deadline": 0.05, "connect_seconds": 0.3} | options)
    async with asyncio.timeout(10):
        await store.start()
    try:
        yield store
    finally:
        await store.close()


async def finds_nothing(store):
    """Every call ends of itself; the reasons why."""
    reasons = []
    async with asyncio.timeout(20):
        for _ in range(6):
            assert await store.get(key_of(1)) is None
            reasons.append(store.away)
            assert not await store.put(entry(2))
            reasons.append(store.away)
        for call in (store.delete(ident(key_of(1)), None), store.flush(Which(everything=True))):
            with pytest.raises(ExactStoreAway):
                await call
        await store.stats()
    assert None not in reasons
    return reasons


async def recovers(store, n=1):
    """Finds again what is there, without anybody's doing."""

    async def found():
        return await store.get(key_of(n)) is not None and store.away is None

    await until(found)


async def stores_again(store):
    async def stored():
        return await store.put(entry(3))

    await until(stored)
    assert (await store.get(key_of(3))).body == entry(3).body


def changes_of_state(caplog):
    return [record.getMessage() for record in caplog.records if "exact answers are" in record.getMessage()]


async def test_a_server_that_stands_still(kind, own_redis, caplog):
    """Its connections are open, and nothing comes: misses in time, then none is even tried; and what it held is found again."""
    caplog.set_level("INFO")
    know_for_long(own_redis)
    async with opened(kind, own_redis.url) as store:
        assert await store.put(entry(1))
        own_redis.stop()
        if kind == "two_level":
            await until(lambda: not store._changes.believed)
        reasons = await finds_nothing(store)
        assert {"timeout", "breaker"} == set(reasons)
        own_redis.resume()
        await recovers(store)
        away, back = changes_of_state(caplog)
        assert "is away" in away
        assert "no answer in time" in away
        assert "answers again" in back


async def test_a_server_that_is_killed_and_comes_back_empty(kind, own_redis):
    """Refused connections are misses at once; the new server is used as soon as it is there, and holds what is made since."""
    know_for_long(own_redis)
    async with opened(kind, own_redis.url) as store:
        assert await store.put(entry(1))
        own_redis.kill()
        if kind == "two_level":
            await until(lambda: not store._changes.believed)
        reasons = await finds_nothing(store)
        assert "breaker" in reasons
        began = time.time()
        own_redis.start()
        await stores_again(store)
        assert await store.get(key_of(1)) is None
        assert store.away is None
        assert not await store.put(entry(4, began=began - 1)), "what was flushed before it was killed, nobody knows"


async def test_a_server_that_is_not_there_at_start(kind, own_redis):
    """A gateway starts without it, and uses it once it comes."""
    own_redis.kill()
    async with opened(kind, own_redis.url) as store:
        await finds_nothing(store)
        own_redis.start()
        await stores_again(store)


async def test_a_slow_server(kind, redis):
    """Slower than the deadline is a miss; at its old pace it is used again."""
    know_for_long(redis)
    async with proxy(str(redis.socket)) as between, opened(kind, between.url) as store:
        assert await store.put(entry(1))
        between.delay = 0.2
        if kind == "two_level":
            await until(lambda: not store._changes.believed)
        assert set(await finds_nothing(store)) <= {"timeout", "breaker"}
        between.delay = 0.0
        await recovers(store)


async def test_connections_that_are_dead_without_a_word(kind, redis):
    """What was connected hears nothing any more, new connections are fine: those are made."""
    know_for_long(redis)
    async with proxy(str(redis.socket)) as between, opened(kind, between.url) as store:
        assert await store.put(entry(1))
        dead = between.accepted
        between.deaf = lambda sent, dead=dead: between.accepted <= dead
        if kind == "two_level":
            await until(lambda: not store._changes.believed)
        assert await store.get(key_of(1)) is None
        assert store.away == "timeout"
        await recovers(store)


async def test_connections_that_were_closed_while_idle(kind, redis):
    """A server that ends idle connections costs nobody a miss."""
    know_for_long(redis)
    async with proxy(str(redis.socket)) as between, opened(kind, between.url, deadline=2.0) as store:
        assert await store.put(entry(1))
        for _ in range(5):
            between.cut()
            if kind == "two_level":
                store._front.clear()
            assert await store.get(key_of(1)) is not None


ANSWERS = {
    "http": b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n",
    "ok": b"+OK\r\n",
    "number": b":1\r\n",
    "nothing": b"$-1\r\n",
    "short list": b"*2\r\n:0\r\n:1\r\n",
    "other types": b"*4\r\n+a\r\n+b\r\n+c\r\n+d\r\n",
    "foreign value": b"*4\r\n:1\r\n$5\r\nhello\r\n:1000\r\n:1700000000000000\r\n",
    "endless value": b"*4\r\n:1\r\n$99999999999\r\nhello",
    "endless list": b"*999999999\r\n:1\r\n",
    "negative": b"*-7\r\n$-9\r\n",
    "deep": b"*1\r\n" * 20_000,
    "loading": b"-LOADING Redis is loading the dataset in memory\r\n",
    "busy": b"-BUSY Redis is busy running a script.\r\n",
    "readonly": b"-READONLY You can't write against a read only replica.\r\n",
    "password": b"-NOAUTH Authentication required.\r\n",
    "no script": b"-NOSCRIPT No matching script.\r\n",
    "noise": bytes(range(256)) * 40,
    "no line": b"x" * 300_000,
    "silence": None,
}


@pytest.mark.parametrize("answer", list(ANSWERS))
@pytest.mark.parametrize("manners", [{}, {"polite": True}, {"polite": True, "ends": True}], ids=["rude", "polite", "curt"])
async def test_what_is_no_redis(kind, answer, manners, caplog):
    """Whatever answers in its place, lookups miss in time, nothing is believed, and the log stays short."""
    async with impostor(ANSWERS[answer], **manners) as url, opened(kind, url, connect_seconds=0.1) as store:
        async with asyncio.timeout(20):
            for _ in range(6):
                assert await store.get(key_of(1)) is None
                assert not await store.put(entry(2))
            for call in (store.delete(ident(key_of(1)), None), store.flush(Which(everything=True))):
                with pytest.raises(ExactStoreAway):
                    await call
        if kind == "two_level":
            assert not store._changes.believed
    assert len([record for record in caplog.records if record.name.startswith("tiergate")]) <= 4
    assert all(len(record.getMessage()) < 400 for record in caplog.records)


async def test_many_at_once_when_it_stands_still(kind, own_redis):
    """Hundreds of lookups end in time over a handful of connections, and after it is back there is no herd."""
    know_for_long(own_redis)
    async with opened(kind, own_redis.url, connections=4) as store:
        assert await store.put(entry(1))
        own_redis.stop()
        async with asyncio.timeout(20):
            if kind == "two_level":
                await until(lambda: not store._changes.believed)
            assert await asyncio.gather(*(store.get(key_of(1)) for _ in range(500))) == [None] * 500
        own_redis.resume()
        await recovers(store)
        assert own_redis.command(b"CLIENT", b"LIST").count(b"cmd=evalsha") <= 4


async def test_who_leaves_in_the_middle_spoils_nothing(kind, redis):
    """Lookups that are cancelled at any moment: those that stay get their own answer, never another's."""
    know_for_long(redis)
    async with opened(kind, redis.url, connections=3, deadline=5.0) as store:
        for n in range(20):
            assert await store.put(entry(n, body=b"%d" % n * 2000))
        for turn in range(10):
            tasks = [asyncio.create_task(store.get(key_of(n % 20))) for n in range(60)]
            for _ in range(turn):
                await asyncio.sleep(0)
            for task in tasks[::3]:
                task.cancel()
            if kind == "two_level":
                store._front.clear()
            done = await asyncio.gather(*tasks, return_exceptions=True)
            for n, found in enumerate(done):
                if not isinstance(found, asyncio.CancelledError):
                    assert found.body == b"%d" % (n % 20) * 2000
            assert store.away is None


async def test_a_loop_that_was_busy_is_not_a_slow_server(kind, redis):
    """The answer came in time, and nobody had time to read it: it is still a hit."""
    know_for_long(redis)
    async with opened(kind, redis.url, deadline=0.05) as store:
        assert await store.put(entry(1))
        if kind == "two_level":
            store._front.clear()
        looking = asyncio.create_task(store.get(key_of(1)))
        for _ in range(3):
            await asyncio.sleep(0)
        time.sleep(0.2)  # what a busy loop looks like from inside
        assert (await looking) is not None


async def test_connecting_that_takes_longer_than_the_deadline(kind, redis):
    """It goes on behind the misses, so that such a server can be used at all."""
    know_for_long(redis)
    async with proxy(str(redis.socket)) as between:
        between.delay = 0.04  # a command takes 80 ms, TLS or a password would take more than one
        async with opened(kind, between.url.replace("/0", "/3"), deadline=0.12) as store:

            async def reached():
                await store.get(key_of(1))
                return store.away is None

            await until(reached)
