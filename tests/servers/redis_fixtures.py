"""A real Redis or Valkey, as fixtures: to be imported by the conftest of who needs one."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis_server import RedisServer, find_server


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
