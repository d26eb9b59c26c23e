"""A Redis that a store would use: asked in its own protocol, over real sockets."""

import asyncio
import sys
import tempfile
import time
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from doctor_talk import HEALTHY, config

sys.path.insert(0, str(Path(__file__).parents[1] / "caches" / "stores"))
from redis_server import RedisServer, find_server

from gateway.config import examine
from gateway.config.secret import SecretUrl
from gateway.doctor import redis
from gateway.doctor.diagnosis import Options, diagnose

WHERE = ("redis", "url")


@asynccontextmanager
async def server(*, ahead=0.0, password=None, raw=None, hang=False):
    """As much of a Redis as is asked; yields its port."""
    over = asyncio.Event()

    async def answer(reader, writer):
        try:
            trusted = password is None
            while True:
                count = int((await reader.readline())[1:])
                words = []
                for _ in range(count):
                    size = int((await reader.readline())[1:])
                    words.append((await reader.readexactly(size + 2))[:-2])
                if hang:
                    await over.wait()
                writer.write(raw if raw is not None else reply(words, trusted))
                trusted = trusted or (words[0] == b"AUTH" and words[-1].decode() == password)
        except (ValueError, asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    def reply(words, trusted):
        now = time.time() + ahead
        if words[0] == b"AUTH":
            return b"+OK\r\n" if words[-1].decode() == password else b"-WRONGPASS invalid: %b\r\n" % words[-1]
        if not trusted:
            return b"-NOAUTH Authentication required.\r\n"
        info = b"# Server\r\nredis_version:7.2.4\r\n"
        seconds = str(int(now)).encode()
        return {
            b"PING": b"+PONG\r\n",
            b"TIME": b"*2\r\n$%d\r\n%b\r\n$6\r\n000000\r\n" % (len(seconds), seconds),
            b"INFO": b"$%d\r\n%b\r\n" % (len(info), info),
        }[words[0]]

    listener = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield listener.sockets[0].getsockname()[1]
    finally:
        over.set()
        listener.close()


async def look(port, *, credentials="", seconds=3.0):
    return redis.judge(WHERE, await redis.ask(f"redis://{credentials}127.0.0.1:{port}/0", seconds, time.time), 10.0)


@pytest.mark.parametrize("password", [None, "s3cr3t"])
async def test_a_healthy_redis_is_well(password):
    """Its version and how long it took, with a password or without."""
    async with server(password=password) as port:
        (found,) = await look(port, credentials=f":{password}@" if password else "")
    assert found.severity == "ok"
    assert "Redis 7.2.4" in found.what


@pytest.mark.parametrize("credentials", ["", ":wr0ng-pass@"])
async def test_a_wrong_password_is_found_and_not_shown(credentials):
    """None, or another one, which the server even repeats."""
    async with server(password="s3cr3t") as port:
        (found,) = await look(port, credentials=credentials)
    assert found.severity == "fail"
    assert "password" in found.mend
    assert "wr0ng" not in found.what


@pytest.mark.parametrize("ahead", [60, -60])
async def test_its_clock_is_compared(ahead):
    """Limits go by its time: both are told."""
    async with server(ahead=ahead) as port:
        (found,) = await look(port)
    assert found.severity == "warn"
    assert "clock of redis" in found.what
    assert "NTP" in found.mend


async def test_nobody_there_is_found(free_port):
    """The connection is refused."""
    (found,) = await look(free_port)
    assert (found.severity, f"127.0.0.1:{free_port}" in found.what) == ("fail", True)


@pytest.mark.parametrize(
    "raw", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"$999999999\r\n", b"*-1\r\n", b"+" + b"x" * 200_000, b"*9999\r\n"]
)
async def test_what_is_no_redis_is_found(raw):
    """Whatever it sends, it is one finding."""
    async with server(raw=raw) as port:
        (found,) = await look(port)
    assert found.severity == "fail"


async def test_one_that_hangs_is_found():
    """No answer within the time that a question has."""
    async with server(hang=True) as port:
        (found,) = await look(port, seconds=0.2)
    assert "no answer within 0.2 s" in found.what


async def test_only_a_store_of_that_kind_is_asked(tmp_path, fake):
    """A config without one leaves Redis alone; with one it is part of the diagnosis."""
    engine = await fake()
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config(engine.url)))
    reading = examine(tmp_path / "config.yaml", {})
    assert [line for line in await diagnose(reading, Options(), HEALTHY) if line.key == "redis.url"] == []
    async with server() as port:
        url = SecretUrl(f"redis://127.0.0.1:{port}/0")
        tree = replace(
            reading.config, limits=replace(reading.config.limits, store="redis"), redis=replace(reading.config.redis, url=url)
        )
        lines = await diagnose(replace(reading, config=tree), Options(), HEALTHY)
    assert [line.severity for line in lines if line.key == "redis.url"] == ["ok"]


# -- a real one


@pytest.fixture
def real():
    """`real(option, …)` → what is found about a server that was started so."""
    program = find_server()
    if program is None:
        pytest.skip("no Redis or Valkey is here")
    started = []

    async def look_at(*options, timeout=10.0, credentials=""):
        with tempfile.TemporaryDirectory() as folder:
            server = RedisServer(program, Path(folder), *options)
            started.append(server)
            server.start()
            facts = await redis.ask(server.url.replace("unix://", f"unix://{credentials}"), 5.0, time.time)
            server.kill()
        return redis.judge(WHERE, facts, timeout)

    yield look_at
    for server in started:
        server.kill()


async def test_a_real_server_is_well(real):
    """With its own defaults, and its version is told."""
    (found,) = await real()
    assert found.severity == "ok"
    assert found.what.split()[1][0].isdigit()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--maxmemory", "64mb", "--maxmemory-policy", "noeviction"), "maxmemory is 64 MiB"),
        (("--maxmemory", "64mb", "--maxmemory-policy", "volatile-lru"), ""),
        (("--maxmemory-policy", "noeviction"), ""),
    ],
)
async def test_a_server_that_refuses_writes_when_it_is_full_is_a_warning(real, options, said):
    """A bound without eviction: from the day that it is full nothing is kept any more."""
    (found,) = await real(*options)
    assert (found.severity, said in found.what) == ("warn" if said else "ok", True)
    assert ("volatile-lru" in found.mend) is bool(said)


@pytest.mark.parametrize(("writes", "severity"), [("yes", "fail"), ("no", "warn")])
async def test_a_replica_is_no_place_to_keep_answers(real, writes, severity):
    """It takes no writes, or loses them: its primary is named."""
    (found,) = await real("--replicaof", "127.0.0.1", "1", "--replica-read-only", writes)
    assert found.severity == severity
    assert "replica of 127.0.0.1:1" in found.what
    assert "primary" in found.mend


async def test_a_node_of_a_cluster_is_found(real):
    """It would send most calls elsewhere."""
    (found,) = await real("--cluster-enabled", "yes")
    assert (found.severity, "cluster" in found.what) == ("fail", True)


async def test_one_that_is_slower_than_a_call_may_be_is_a_warning(real):
    """What a command took, against `redis.timeout`."""
    (found,) = await real(timeout=1e-6)
    assert (found.severity, found.key) == ("warn", "redis.timeout")


async def test_a_user_that_may_not_ask_how_it_is_set_up_is_well(real):
    """A cache needs no such right."""
    user = ["cache", "on", ">pw", "~*", "&*", "+@all", "-info"]
    (found,) = await real("--user", *user, credentials="cache:pw@")
    assert found.severity == "ok"
    assert "unknown version" in found.what
