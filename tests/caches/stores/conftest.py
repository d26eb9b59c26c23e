"""Stores to be tested: each kind behind one interface, on a real server where it needs one."""

import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from redis_server import RedisServer, find_server
from store_world import World


@pytest.fixture(scope="session")
def redis_program() -> str:
    program = find_server()
    if program is None:
        pytest.skip("neither valkey-server nor redis-server on PATH, and no package that carries one")
    pytest.importorskip("redis", reason="the extra `redis` is not installed")
    return program


@pytest.fixture(scope="session")
def one_redis(redis_program: str) -> Iterator[RedisServer]:
    with tempfile.TemporaryDirectory(prefix="tg-") as folder:  # a Unix socket's path must be short
        server = RedisServer(redis_program, Path(folder))
        server.start()
        yield server
        server.kill()


@pytest.fixture
def redis(one_redis: RedisServer) -> RedisServer:
    """The session's server, empty."""
    one_redis.command(b"FLUSHALL")
    return one_redis


@pytest.fixture
def own_redis(redis_program: str) -> Iterator[RedisServer]:
    """One that a test may stop and kill."""
    with tempfile.TemporaryDirectory(prefix="tg-") as folder:
        server = RedisServer(redis_program, Path(folder))
        server.start()
        yield server
        server.kill()


@pytest.fixture
def short_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who deletes or flushes waits less. Where a test is slower than that, the front is just not believed."""
    pytest.importorskip("redis", reason="the extra `redis` is not installed")
    for name, seconds in (("redis.changes.LEASE", 0.06), ("two_level.LEASE", 0.06), ("redis.changes._PING", 0.015)):
        monkeypatch.setattr(f"caches.{name}", seconds)


@pytest.fixture(params=["memory", "redis", "two_level"])
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    """Two gateways on one store, of every kind there is."""
    if request.param == "two_level":
        request.getfixturevalue("short_lease")
    server = None if request.param == "memory" else request.getfixturevalue("redis")
    async with World(request.param, server) as made:
        yield made
