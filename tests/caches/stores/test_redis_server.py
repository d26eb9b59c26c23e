"""How a Redis is reached, and what it may refuse."""

import random
import ssl
import tempfile
import time
from pathlib import Path

import pytest
from redis_proxy import proxy
from redis_server import RedisServer
from store_world import entry, ident, key_of, know_for_long, redis_store, two_level_store, until

from caches.which import Which

pytest.importorskip("redis", reason="the extra `redis` is not installed")


async def reaches(url, **options):
    store = redis_store(url, **options)
    await store.start()
    try:
        await store.get(key_of(1))
        return store.away
    finally:
        await store.close()


@pytest.fixture(autouse=True)
def often(monkeypatch):
    """Nobody waits a second to see that it is asked how it is."""
    monkeypatch.setattr("caches.redis.store._BEAT", 0.05)


@pytest.fixture
def guarded(redis_program):
    with tempfile.TemporaryDirectory(prefix="tg-") as folder:
        server = RedisServer(redis_program, Path(folder), "--requirepass", "s3cret+/pass")
        server.start()
        yield server
        server.kill()


async def test_a_password(guarded, caplog):
    """The URL's password is used, percent-encoded; without it or with another every lookup misses; no log shows any."""
    async with proxy(str(guarded.socket)) as between:
        place = between.url.removeprefix("redis://")
        assert await reaches(f"redis://:s3cret%2B%2Fpass@{place}") is None
        assert await reaches(f"redis://default:s3cret%2B%2Fpass@{place}") is None
        assert await reaches(f"redis://:wr0ng@{place}") == "failed"
        assert await reaches(f"redis://{place}") == "failed"
    assert "does not answer" in caplog.text
    assert "s3cret" not in caplog.text
    assert "wr0ng" not in caplog.text


async def test_databases_are_apart(redis):
    """The number at the end of the URL is the database."""
    async with proxy(str(redis.socket)) as between:
        know_for_long(redis)
        store = redis_store(between.url.replace("/0", "/5"))
        await store.start()

        async def stored():
            return await store.put(entry(1))

        await until(stored)
        await store.close()
        assert b"db5:" in redis.command(b"INFO", b"keyspace")


async def test_tls(redis, tmp_path):
    """`rediss://` speaks TLS and checks the certificate; the store works through it as it does without."""
    trustme = pytest.importorskip("trustme")
    ca = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert("localhost").configure_cert(context)
    ca.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    know_for_long(redis)
    async with proxy(str(redis.socket), context) as between:
        store = redis_store(f"{between.url}?ssl_ca_certs={tmp_path / 'ca.pem'}", deadline=2.0)
        await store.start()
        try:
            assert await store.put(entry(1))
            assert (await store.get(key_of(1))).body == entry(1).body
        finally:
            await store.close()
        assert await reaches(between.url) == "failed"


async def test_scripts_that_were_forgotten(redis):
    """A server that lost its scripts gets them again, within the same call."""
    know_for_long(redis)
    store = redis_store(redis.url)
    await store.start()
    try:
        for _ in range(2):
            redis.command(b"SCRIPT", b"FLUSH")
            assert await store.put(entry(1))
            redis.command(b"SCRIPT", b"FLUSH")
            assert await store.get(key_of(1))
    finally:
        await store.close()


async def test_a_server_without_memory(redis_program, caplog):
    """Told to evict nothing, it refuses puts: those are dropped, with one line in the log; gets, deletes and flushes go on."""
    caplog.set_level("INFO")
    with tempfile.TemporaryDirectory(prefix="tg-") as folder:
        server = RedisServer(redis_program, Path(folder), "--maxmemory-policy", "noeviction")
        server.start()
        know_for_long(server)
        store = redis_store(server.url)
        await store.start()
        try:
            for n in range(50):
                assert await store.put(entry(n))
            server.command(b"CONFIG", b"SET", b"maxmemory", b"1")
            for _ in range(9):
                assert not await store.put(entry(99))
                assert store.away is None
                assert await store.get(key_of(1))
            assert await store.delete(ident(key_of(1)), "acme")
            assert await store.flush(Which(tenant="acme")) == 49
            assert await store.get(key_of(2)) is None
            server.command(b"CONFIG", b"SET", b"maxmemory", b"100mb")

            async def stored():
                return await store.put(entry(99))

            await until(stored)
        finally:
            await store.close()
            server.kill()
    lines = [record.getMessage() for record in caplog.records if "exact answers are kept" in record.getMessage()]
    assert ["nothing (full)" in line for line in lines] == [True, False]


def out_of_memory(server, _):
    server.command(b"CONFIG", b"SET", b"maxmemory", b"1")
    return b"CONFIG", b"SET", b"maxmemory", b"0"


def a_replica_by_now(server, _):
    server.command(b"REPLICAOF", b"127.0.0.1", b"1")
    return b"REPLICAOF", b"NO", b"ONE"


def cannot_save(server, folder):
    (folder / "data").rmdir()
    server.command(b"CONFIG", b"SET", b"save", b"900 1")
    assert b"+" in server.command(b"BGSAVE")
    ends = time.monotonic() + 10
    while b"rdb_last_bgsave_status:err" not in server.command(b"INFO", b"persistence"):
        assert time.monotonic() < ends
    return b"CONFIG", b"SET", b"stop-writes-on-bgsave-error", b"no"


def without_its_replicas(server, _):
    server.command(b"CONFIG", b"SET", b"min-replicas-to-write", b"1")
    return b"CONFIG", b"SET", b"min-replicas-to-write", b"0"


@pytest.mark.parametrize("make", [redis_store, two_level_store])
@pytest.mark.parametrize(
    ("refuse", "reason"),
    [
        (out_of_memory, "full"),
        (a_replica_by_now, "read-only"),
        (cannot_save, "misconfigured"),
        (without_its_replicas, "no replicas"),
    ],
)
async def test_a_server_that_refuses_writes_is_read_from_as_before(redis_program, make, refuse, reason, caplog):
    """Puts are dropped with one line in the log and the reason in its state, lookups go on, and no breaker opens."""
    caplog.set_level("INFO")
    with tempfile.TemporaryDirectory(prefix="tg-") as place:
        folder = Path(place)
        (folder / "data").mkdir()
        server = RedisServer(redis_program, folder, "--maxmemory-policy", "noeviction", "--dir", str(folder / "data"))
        server.start()
        know_for_long(server)
        store = make(server.url)
        await store.start()
        try:
            assert await store.put(entry(1))
            assert str(store.state) == "redis ok"
            mend = refuse(server, folder)
            for n in range(9):
                assert not await store.put(entry(n + 2))
                assert store.away is None
                assert (await store.get(key_of(1))).body == entry(1).body
                assert await store.get(key_of(n + 2)) is None
                assert store.away is None
            assert str(store.state) == f"redis keeps nothing new: {reason}"
            server.command(*mend)

            async def stored():
                return await store.put(entry(99))

            await until(stored)
            assert str(store.state) == "redis ok"
        finally:
            await store.close()
            server.kill()
    lines = [record.getMessage() for record in caplog.records if "exact answers are" in record.getMessage()]
    assert [f"writes nothing ({reason})" in line for line in lines] == [True, False]


async def test_its_state_is_known_without_a_request(own_redis):
    """Killed and started again while nobody asks for anything: it is away, with a class of reason, and then it is not."""
    store = redis_store(own_redis.url)
    await store.start()
    try:
        assert str(store.state) == "redis ok"
        own_redis.kill()
        await until(lambda: store.state.away == "connection")
        own_redis.start()
        await until(lambda: not store.state.away)
    finally:
        await store.close()


async def test_a_server_that_evicts_anything(redis_program):
    """Under `allkeys-random` entries, index and marks may all go at any moment: never a flushed answer, never an error."""
    with tempfile.TemporaryDirectory(prefix="tg-") as folder:
        server = RedisServer(redis_program, Path(folder), "--maxmemory-policy", "allkeys-random")
        server.start()
        know_for_long(server)
        store = redis_store(server.url)
        await store.start()
        try:
            used = int(server.command(b"INFO", b"memory").split(b"used_memory:")[1].split(b"\r\n")[0])
            server.command(b"CONFIG", b"SET", b"maxmemory", b"%d" % (used + 1_000_000))
            flushed, rng = {}, random.Random(5)
            for turn in range(6):
                for n in range(400):
                    made = entry(n, tenant=f"t{n % 3}", body=b"%d" % turn + rng.randbytes(3000))
                    await store.put(made)
                await store.flush(Which(tenant=f"t{turn % 3}"))
                flushed[turn % 3] = turn
                for n in range(400):
                    found = await store.get(key_of(n))
                    assert found is None or n % 3 not in flushed or int(found.body[:1]) > flushed[n % 3]
            assert store.away is None
            assert b"evicted_keys:0\r" not in server.command(b"INFO", b"stats")
        finally:
            await store.close()
            server.kill()
