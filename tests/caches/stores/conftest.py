"""Stores to be tested: each kind behind one interface, on a real server where it needs one."""

from collections.abc import AsyncIterator

import pytest
from redis_fixtures import one_redis, own_redis, redis, redis_program  # noqa: F401 - fixtures
from store_world import World


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
