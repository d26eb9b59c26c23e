"""Gateways on one Redis, each with a semantic cache of its own: what one of them flushes, deletes or refuses, no other serves."""

import asyncio

import pytest
from gateway_talk import ADMIN_KEY, KEY
from semantic_talk import EGG, PASSWORD, ask, cache_of, fill, opened, semantic

pytestmark = pytest.mark.usefixtures("one_model")
ONLY = {"x-tiergate-cache": "only-if-cached"}
OWNER = {"authorization": f"Bearer {KEY}"}
ADMIN = {"authorization": f"Bearer {ADMIN_KEY}"}
FLUSHES = (
    {"tag": "door"}, {"tenant": "acme"}, {"model": "small-model"}, {"older_than": 0}, {"tag": "door", "tenant": "acme"},
    {"all": True},
)  # fmt: skip
FORMS = {"one process, redis": (0, "redis"), "dispatcher apart, two_level": (1, "two_level")}


@pytest.fixture
def node(start, tmp_path, how_many_workers):
    """Another gateway, by the name of its folder."""

    async def make(name, url, kind="redis", workers=how_many_workers, timeout="5s"):
        own = semantic(qdrant={"path": str(tmp_path / name)}, exact={"store": kind})
        return await opened(await start({**own, "redis": {"url": url, "timeout": timeout}}, workers=workers))

    return make


@pytest.fixture(params=FORMS.values(), ids=FORMS)
async def nodes(node, redis, request):
    workers, kind = request.param
    return [await node(name, redis.url, kind, workers) for name in ("one", "two")]


async def filled(*stacks):
    """Each has answers of its own to two questions, and serves them to who asks in other words."""
    for stack in stacks:
        await fill(stack, PASSWORD[0], headers={"x-tiergate-cache": "no-cache, tag=door"})
        await fill(stack, EGG[0], headers={"x-tiergate-cache": "no-cache, tag=kitchen"})
    for stack in stacks:
        await until(stack, PASSWORD[1], "semantic")
        await until(stack, EGG[1], "semantic")


async def kept(stack, content):
    answer = await ask(stack, content, headers=ONLY)
    return "" if answer.status_code == 504 else cache_of(answer)


async def id_of(stack, content):
    return (await ask(stack, content, headers=ONLY)).headers["x-tiergate-cache-id"]


async def flush(stack, **which):
    answer = await stack.client.post("/admin/cache/flush", json=which, headers=ADMIN)
    assert answer.status_code == 200, answer.text


async def until(stack, content, expected):
    """A machine that stood still for a moment has heard nothing meanwhile, and serves nothing until it has."""
    async with asyncio.timeout(20):
        while await kept(stack, content) != expected:
            await asyncio.sleep(0.02)


async def test_what_one_gateway_flushes_no_other_serves(nodes):
    """Whatever a flush names: neither to the same question nor in other words, as soon as it has returned."""
    one, two = nodes
    for which in FLUSHES:
        await filled(one, two)
        await flush(two, **which)
        for stack in (one, two):
            assert [await kept(stack, each) for each in PASSWORD] == ["", "", ""], which
            if "tag" in which:
                await until(stack, EGG[1], "semantic")
            else:
                assert await kept(stack, EGG[1]) == "", which


@pytest.mark.parametrize(
    ("content", "who"),
    [(PASSWORD[0], OWNER), (PASSWORD[1], OWNER), (PASSWORD[1], ADMIN)],
    ids=["an answer, its owner", "a hit, its owner", "a hit, the operator"],
)
async def test_what_one_gateway_deletes_no_other_serves(node, redis, content, who):
    """By the id of an answer or of a hit, from its owner or the operator; also where only the other one keeps anything of it."""
    one, two = [await node(name, redis.url) for name in ("one", "two")]
    await filled(one)
    entry = await id_of(one, content)
    gone = await two.client.delete(f"/v1/cache/{entry}" if who is OWNER else f"/admin/cache/{entry}", headers=who)
    assert gone.status_code == 200, gone.text
    assert [await kept(one, each) for each in PASSWORD[1:]] == ["", ""]
    await until(one, PASSWORD[0], "")
    assert await kept(two, PASSWORD[0]) == ""
    await until(one, EGG[1], "semantic")


async def test_what_one_gateway_refuses_another_learns(node, redis):
    """A complaint to the one refuses the pair at the other, in a moment."""
    one, two = [await node(name, redis.url) for name in ("one", "two")]
    await filled(one, two)
    hit = await ask(two, PASSWORD[1], headers=ONLY)
    told = await two.client.post("/v1/feedback", json={"request_id": hit.headers["x-request-id"], "score": 0.0}, headers=OWNER)
    assert told.status_code == 200, told.text
    await until(one, PASSWORD[1], "")
    await until(one, EGG[1], "semantic")


async def test_a_gateway_that_was_down_serves_nothing_that_was_flushed_meanwhile(node, redis):
    """It reads on from where it was: what was meant is gone, and nothing else."""
    one, two = [await node(name, redis.url) for name in ("one", "two")]
    await filled(one, two)
    await one.gateway.stop()
    await flush(two, tag="door")
    one = await node("one", redis.url)
    assert [await kept(one, each) for each in PASSWORD] == ["", "", ""]
    await until(one, EGG[1], "semantic")


async def test_a_gateway_that_is_cut_off_serves_nothing_until_it_has_heard(node, redis):
    """The flush returns, and what it meant is served by nobody: not while the other one hears nothing, and not afterwards."""
    from redis_proxy import proxy

    async with proxy(str(redis.socket)) as between:
        one, two = await node("one", between.url, timeout="500ms"), await node("two", redis.url)
        await filled(one, two)
        between.deaf = lambda _: True
        await flush(two, tag="door")
        answer = await ask(one, PASSWORD[2], headers={"x-tiergate-cache": "no-store"})
        assert cache_of(answer) == "miss"
        assert "flushes-not-heard" in answer.headers["x-tiergate-cache"]
        assert await kept(one, EGG[1]) == ""
        between.deaf = lambda _: False
        between.cut()
        async with asyncio.timeout(20):
            await until(one, EGG[1], "semantic")
        assert [await kept(one, each) for each in PASSWORD[:2]] == ["", ""]


async def test_with_redis_away_nothing_is_served_and_it_goes_on_by_itself(node, redis):
    """A flush says that it cannot be done; when Redis is back both serve as before."""
    one, two = [await node(name, redis.url, timeout="500ms") for name in ("one", "two")]
    await filled(one, two)
    redis.stop()
    answer = await two.client.post("/admin/cache/flush", json={"tag": "door"}, headers=ADMIN)
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "cache_store_away")
    assert await kept(one, EGG[1]) == await kept(two, PASSWORD[1]) == ""
    redis.resume()
    async with asyncio.timeout(20):
        await until(one, EGG[1], "semantic")
        await until(two, EGG[1], "semantic")
    await flush(two, tag="door")
    assert await kept(one, PASSWORD[1]) == ""


async def test_a_redis_that_is_wiped_may_have_said_anything(node, redis):
    """What was flushed through it is not known any more, so nothing that was kept by then is served."""
    one = await node("one", redis.url)
    await filled(one)
    redis.command(b"FLUSHALL")
    async with asyncio.timeout(10):
        await until(one, EGG[1], "")
    await filled(one)
