"""Gateways on one Redis, each with a semantic cache of its own: what one of them flushes, deletes or refuses, no other serves."""

import tempfile
from pathlib import Path

import pytest
from gateway_talk import KEY
from semantic_talk import EGG, PASSWORD, ask, cache_of, fill, opened, semantic, settled, writer

pytestmark = pytest.mark.usefixtures("one_model")
ONLY = {"x-tiergate-cache": "only-if-cached"}
ADMIN = {"authorization": "Bearer admin-key"}
FLUSHES = [
    {"tag": "door"},
    {"tenant": "acme"},
    {"model": "small"},
    {"all": True},
    {"older_than": 0},
    {"tag": "door", "tenant": "acme"},
]


@pytest.fixture
def redis():
    pytest.importorskip("redis", reason="the extra `redis` is not installed")
    from redis_server import RedisServer, find_server
    from store_world import know_for_long

    program = find_server()
    if program is None:
        pytest.skip("neither valkey-server nor redis-server on PATH, and no package that carries one")
    with tempfile.TemporaryDirectory(prefix="tg-") as folder:  # a Unix socket's path must be short
        server = RedisServer(program, Path(folder))
        server.start()
        know_for_long(server)
        yield server
        server.kill()


def over(redis, path, kind="redis"):
    own = semantic(qdrant={"path": str(path)}, exact={"store": kind})
    return {**own, "admin": {"key": "admin-key"}, "redis": {"url": redis.url, "timeout": "5s"}}


@pytest.fixture(params=["redis", "two_level"])
async def nodes(start, redis, tmp_path, request):
    """Each has kept both questions' answers for itself."""
    made = [await opened(await start(over(redis, tmp_path / name, request.param))) for name in ("one", "two")]
    for stack in made:
        await fill(stack, PASSWORD[0], headers={"x-tiergate-cache": "no-cache, tag=door"})
        await fill(stack, EGG[0], headers={"x-tiergate-cache": "no-cache, tag=kitchen"})
        assert await kept(stack, PASSWORD[1]) == await kept(stack, EGG[1]) == "semantic"
    return made


async def kept(stack, content):
    answer = await ask(stack, content, headers=ONLY)
    return "" if answer.status_code == 504 else cache_of(answer)


async def flush(stack, **which):
    return await stack.client.post("/admin/cache/flush", json=which, headers=ADMIN)


@pytest.mark.parametrize("which", FLUSHES, ids=str)
async def test_what_one_gateway_flushes_no_other_serves(nodes, which):
    """Whatever it names: neither to the same question nor in other words, as soon as the flush has returned."""
    one, two = nodes
    answer = await flush(two, **which)
    assert answer.status_code == 200, answer.text
    for stack in (one, two):
        assert [await kept(stack, each) for each in PASSWORD] == ["", "", ""]
        assert await kept(stack, EGG[1]) == ("semantic" if "tag" in which else "")
