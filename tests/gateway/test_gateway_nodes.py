"""What is deleted through one worker, or at one of two gateways on one Redis and one Qdrant server, no other serves."""

import asyncio
import tempfile
from pathlib import Path

import pytest
from gateway_talk import KEY
from semantic_talk import EGG, PASSWORD, ask, cache_of, fill, opened, scripted, semantic, settled

from gateway.lab.fake import Options

pytestmark = pytest.mark.usefixtures("one_model")
ONLY = {"x-tiergate-cache": "only-if-cached"}
ALWAYS = {"share": 1.0, "per_minute": 1000}


@pytest.fixture
async def stores(tmp_path):
    """What the config says of both servers."""
    pytest.importorskip("qdrant_client", reason="qdrant-client is not installed (the extra `qdrant`)")
    pytest.importorskip("redis", reason="the extra `redis` is not installed")
    from qdrant_standin import StandIn
    from redis_server import RedisServer, find_server
    from store_world import know_for_long

    program = find_server()
    if program is None:
        pytest.skip("neither valkey-server nor redis-server on PATH, and no package that carries one")
    with tempfile.TemporaryDirectory(prefix="tg-") as folder:  # a Unix socket's path must be short
        redis = RedisServer(program, Path(folder))
        redis.start()
        know_for_long(redis)
        qdrant = await StandIn(tmp_path / "standin").start()
        own = semantic(shadow=ALWAYS, qdrant={"url": f"http://127.0.0.1:{qdrant.port}"}, exact={"store": "redis"})
        yield {**own, "redis": {"url": redis.url, "timeout": "5s"}}
        await qdrant.stop()
        redis.kill()


@pytest.fixture
async def nodes(start, stores, tmp_path):
    """Both know of what the one has kept, an approved pair included."""
    one, two = [
        await opened(await start(stores, fakes={"s1": scripted(tmp_path, {"password": "Click."}), "l1": Options()}))
        for _ in range(2)
    ]
    for content in (PASSWORD[0], PASSWORD[1], EGG[0]):
        await fill(one, content)
    await two.gateway.parts.semantic.writer._scan(0.0)
    assert [await kept(two, content) for content in (*PASSWORD[:2], *EGG)] == ["exact", "exact", "exact", "semantic"]
    await settled(two)
    return one, two


async def kept(stack, content):
    answer = await ask(stack, content, headers=ONLY)
    return "" if answer.status_code == 504 else cache_of(answer)


async def delete(stack, content):
    entry = (await ask(stack, content, headers=ONLY)).headers["x-tiergate-cache-id"]
    gone = await stack.client.delete(f"/v1/cache/{entry}", headers={"authorization": f"Bearer {KEY}"})
    assert gone.status_code == 200
    return entry


@pytest.mark.parametrize(("content", "kind"), [(PASSWORD[0], "ce-"), (PASSWORD[1], "cs-"), (PASSWORD[2], "cs-")])
async def test_what_one_gateway_deletes_no_other_serves(nodes, content, kind):
    """By the id of an answer, an approved pair or a hit: the answer is gone from both caches of both, at once."""
    one, two = nodes
    assert (await delete(one, content)).startswith(kind)
    for stack in (one, two):
        assert [await kept(stack, each) for each in PASSWORD] == ["", "", ""]
        assert [await kept(stack, each) for each in EGG] != ["", ""]


async def test_what_one_worker_deletes_no_other_serves(start):
    """At once, over as many connections as all of them have."""
    stack = await opened(await start(semantic(), workers=2))
    await fill(stack, PASSWORD[0])
    assert set(await asyncio.gather(*(kept(stack, PASSWORD[number % 2]) for number in range(16)))) == {"exact", "semantic"}
    await delete(stack, PASSWORD[0])
    assert set(await asyncio.gather(*(kept(stack, PASSWORD[number % 2]) for number in range(16)))) == {""}
