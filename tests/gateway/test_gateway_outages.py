"""Stores and embedders that stop, die, are wiped, slow or wrong: a plain answer of a model every time, and back by themselves."""

import asyncio

import psutil
import pytest
from gateway_talk import ADMIN_KEY, hold, posts
from semantic_talk import EGG, PASSWORD, ask, cache_of, fill, opened, semantic, settled, writer

from gateway.lab.fake import Options

pytestmark = pytest.mark.usefixtures("one_model")
ADMIN = {"authorization": f"Bearer {ADMIN_KEY}"}
ONLY = {"x-tiergate-cache": "only-if-cached"}
HURRY = {"x-tiergate-deadline-ms": "20000"}  # of a client: what a store makes it wait must be far below
QUICK = {"qdrant": {"timeout": "100ms"}}


def over(url, kind="redis", **changes):
    """The config of a gateway that keeps exact answers there."""
    return {"redis": {"url": url, "timeout": "100ms"}, "cache": {"secret": "s", "exact": {"store": kind}}, **changes}


async def served(stack, content):
    """What a cache has for it just now; empty: nothing."""
    answer = await ask(stack, content, headers={**ONLY, **HURRY})
    return "" if answer.status_code == 504 else cache_of(answer)


async def until_served(stack, content, kind):
    async with asyncio.timeout(20):
        while await served(stack, content) != kind:
            await asyncio.sleep(0.02)


async def at_rest(stack):
    await stack.until(stack.idle)


async def plain(stack, content):
    """A model's answer, in time; the reason that its header gives for that."""
    await at_rest(stack)
    asked = len(posts(stack.small))
    answer = await ask(stack, content, headers=HURRY)
    assert cache_of(answer) == "miss"
    assert len(posts(stack.small)) == asked + 1
    return answer.headers["x-tiergate-cache"].partition("; reason=")[2]


async def ready(stack):
    answer = await stack.client.get("/ready")
    assert answer.status_code == 200
    return answer.json()


# -- the exact store


async def made(stack, content):
    """An answer of a model, or a kept one; what is to be kept of it is."""
    answer = await ask(stack, content)
    assert answer.status_code == 200, answer.text
    await at_rest(stack)


@pytest.mark.parametrize(
    ("kind", "fault"), [("redis", "stopped"), ("redis", "slow"), ("redis", "killed"), ("two_level", "stopped")]
)
async def test_a_redis_that_is_away_costs_no_request(start, redis, kind, fault):
    """Every request is answered by a model and says why; `/ready` says it too, without the address; then it is used again."""
    from redis_proxy import proxy

    async with proxy(str(redis.socket)) as between:
        stack = await start(over(between.url, kind))
        await made(stack, EGG[0])
        assert await served(stack, EGG[0]) == "exact"
        if fault == "stopped":
            redis.stop()
        elif fault == "killed":
            redis.kill()
            between.cut()
        else:
            between.delay = 0.5
        if kind == "two_level":
            await stack.until(lambda: not stack.gateway.parts.exact._changes.believed)
        for _ in range(5):
            assert await plain(stack, EGG[0]) in {"exact-store-timeout", "exact-store-failed", "exact-store-breaker"}
        assert (await ready(stack))["exact_cache"] in {"redis away: timeout", "redis away: connection"}
        flush = await stack.client.post("/admin/cache/flush", json={"all": True}, headers=ADMIN)
        assert (flush.status_code, flush.json()["error"]["code"]) == (503, "cache_store_away")
        between.delay = 0.0
        redis.resume() if fault == "stopped" else redis.start() if fault == "killed" else None

        async def again():
            await ask(stack, EGG[0])
            return await served(stack, EGG[0]) == "exact"

        async with asyncio.timeout(20):
            while not await again():
                await asyncio.sleep(0.02)
        assert (await ready(stack))["exact_cache"] == "redis ok"


async def test_a_redis_that_is_wiped_is_filled_again(start, redis):
    """What was there is a plain miss, nothing is said to be wrong, and what is made from now on is kept."""
    stack = await start(over(redis.url))
    await made(stack, EGG[0])
    redis.command(b"FLUSHALL")
    assert await plain(stack, EGG[0]) == ""

    async def again():
        await ask(stack, EGG[0])
        return await served(stack, EGG[0]) == "exact"

    async with asyncio.timeout(20):
        while not await again():
            await asyncio.sleep(0.02)


async def test_a_redis_that_refuses_writes_is_told_of(start, redis):
    """Hits go on, new answers are made and not kept, and `/ready`, the metrics and the admin's call have the reason."""
    stack = await start(over(redis.url))
    await made(stack, EGG[0])
    redis.command(b"CONFIG", b"SET", b"maxmemory", b"1")
    for content in PASSWORD:
        assert await plain(stack, content) == ""
    await at_rest(stack)
    assert await served(stack, EGG[0]) == "exact"
    assert await served(stack, PASSWORD[0]) == ""
    assert (await ready(stack))["exact_cache"] == "redis keeps nothing new: full"
    page = (await stack.client.get("/metrics")).text
    assert 'tiergate_exact_store_state{state="full"} 1' in page
    assert 'tiergate_exact_store_state{state="ok"} 0' in page
    told = await stack.client.get("/admin/cache", headers=ADMIN)
    assert told.json()["exact"]["store"] == "redis keeps nothing new: full"


async def test_ready_tells_of_every_kind_of_exact_store(start):
    """Also of one that is in the process, and of none."""
    assert (await ready(await start()))["exact_cache"] == "memory"
    off = await start({"cache": {"secret": "s", "exact": {"enabled": False}}})
    assert (await ready(off))["exact_cache"] == "off"


async def test_a_restart_keeps_exact_answers_and_a_version_hides_them(start, redis):
    """The next process finds them in Redis; under another version of the model it does not, under the old one it does again."""
    for version, expected in (("1", ""), ("1", "exact"), ("2", ""), ("1", "exact")):
        stack = await start(over(redis.url, models={0: {"version": version}}))
        assert await served(stack, EGG[0]) == expected, version
        await made(stack, EGG[0])
        await stack.gateway.stop()


@pytest.mark.parametrize("kind", ["redis", "two_level"])
async def test_two_gateways_over_one_redis(start, redis, kind):
    """What one fills the other serves, and what one flushes or deletes neither has, nor keeps what the other was making."""
    one, two = [await start(over(redis.url, kind)) for _ in range(2)]
    await made(one, EGG[0])
    hit = await ask(two, EGG[0])
    assert cache_of(hit) == "exact"
    gone = await one.client.delete(f"/admin/cache/{hit.headers['x-tiergate-cache-id']}", headers=ADMIN)
    assert gone.status_code == 200
    assert [await served(stack, EGG[0]) for stack in (one, two)] == ["", ""]
    await made(two, EGG[0])
    wake = hold(two.small)
    making = asyncio.create_task(ask(two, EGG[1]))
    await two.until(lambda: len(posts(two.small)) == 2)
    flushed = await one.client.post("/admin/cache/flush", json={"tenant": "acme"}, headers=ADMIN)
    assert flushed.json() == {"flushed": 1}
    wake()
    assert cache_of(await making) == "miss"
    await at_rest(two)
    assert [await served(stack, content) for stack in (one, two) for content in EGG] == [""] * 4


# -- the vector store


def engine():
    (found,) = [child for child in psutil.Process().children() if "caches.vectors.engine" in child.cmdline()]
    return found


async def test_fifty_questions_at_once_are_all_served(start):
    """In the normal state none of them is turned away, by the engine or by what stands before it."""
    stack = await opened(await start(semantic()))
    await fill(stack, PASSWORD[0])
    questions = [PASSWORD[1].replace(" ", " " * (1 + number)) for number in range(50)]
    answers = await asyncio.gather(*(ask(stack, question, headers=ONLY) for question in questions))
    assert [cache_of(answer) for answer in answers] == ["semantic"] * 50


async def until_kept(stack, questions):
    """A new answer to the first serves the second: what is answered while a store comes back need not be kept."""
    async with asyncio.timeout(20):
        while await served(stack, questions[1]) != "semantic":
            await ask(stack, questions[0], headers={"x-tiergate-cache": "no-cache"})
            await asyncio.sleep(0.1)


@pytest.mark.parametrize("fault", ["stopped", "killed"])
async def test_an_engine_that_is_away_costs_no_request(start, fault):
    """Embedded: questions are misses that say so, requests go on, and what was kept is served again by itself."""
    stack = await opened(await start(semantic(**QUICK)))
    await fill(stack, PASSWORD[0])
    assert await served(stack, PASSWORD[1]) == "semantic"
    process = engine()
    process.suspend() if fault == "stopped" else process.kill()
    assert (await plain(stack, PASSWORD[1])).startswith("vector-store-")
    if fault == "stopped":
        assert (await ready(stack))["ready"] is True
        process.resume()
    await until_served(stack, PASSWORD[2], "semantic")


async def test_a_damaged_engine_costs_no_request(start, tmp_path):
    """A page of its files is overwritten under it: misses, then an empty cache that is filled again, and the old folder aside."""
    stack = await opened(await start(semantic(**QUICK)))
    await fill(stack, PASSWORD[0])
    (page,) = (tmp_path / "data").rglob("payload_storage/page_0.dat")
    with page.open("r+b") as file:
        file.write(b"\xff" * 100_000)
    assert (await plain(stack, PASSWORD[1])).startswith("vector-store-")
    while not stack.gateway.parts.semantic.store.renewals:
        await served(stack, PASSWORD[2])
    await stack.until(lambda: stack.gateway.parts.semantic.writer._renewals == 1)
    await until_kept(stack, EGG)
    assert len(list((tmp_path / "data").rglob("*.broken-*"))) == 1


@pytest.fixture
async def qdrant(tmp_path):
    """A stand-in for a server, behind a network that breaks."""
    pytest.importorskip("qdrant_client", reason="qdrant-client is not installed (the extra `qdrant`)")
    pytest.importorskip("qdrant_edge", reason="qdrant-edge-py is not installed (the extra `semantic`)")
    from qdrant_standin import StandIn
    from tcp_proxy import Proxy

    server = await StandIn(tmp_path / "standin").start()
    proxy = await Proxy(server.port).start()
    yield server, proxy
    await proxy.stop()
    await server.stop()


@pytest.mark.parametrize("fault", ["silent", "gone", "wrong", "wiped"])
async def test_a_qdrant_server_that_is_away_costs_no_request(start, qdrant, fault):
    """The same of a server; one that was wiped gets its collection again, and what is asked from then on is kept."""
    server, proxy = qdrant
    stack = await opened(await start(semantic(qdrant={"url": f"http://127.0.0.1:{proxy.port}", "timeout": "200ms"})))
    await fill(stack, PASSWORD[0])
    assert await served(stack, PASSWORD[1]) == "semantic"
    if fault == "silent":
        proxy.open.clear()
    elif fault == "gone":
        proxy.refuses = True
        await proxy.cut()
    elif fault == "wiped":
        server.wipe()
    else:
        server.fault = "garbage"
    assert (await plain(stack, PASSWORD[1])).startswith("vector-store-")
    server.fault, proxy.refuses = None, False
    proxy.open.set()
    if fault == "wiped":
        await until_kept(stack, (PASSWORD[0], PASSWORD[2]))
    else:
        await until_served(stack, PASSWORD[2], "semantic")


async def test_a_flush_at_one_gateway_takes_what_another_is_making(start, qdrant):
    """Over one Qdrant server: the answer that comes behind the flush is its client's, and nobody else's."""
    server, _ = qdrant
    own = semantic(qdrant={"url": f"http://127.0.0.1:{server.port}"})
    one, two = [await opened(await start(own)) for _ in range(2)]
    wake = hold(two.small)
    making = asyncio.create_task(ask(two, PASSWORD[0]))
    await two.until(lambda: posts(two.small))
    flushed = await one.client.post("/admin/cache/flush", json={"tenant": "acme"}, headers=ADMIN)
    assert flushed.status_code == 200
    wake()
    assert cache_of(await making) == "miss"
    await settled(two)
    for stack in (one, two):
        await stack.gateway.parts.semantic.writer._scan(0.0)
        assert await served(stack, PASSWORD[1]) == ""


# -- the embedder

SAME = ("How do I reset my password?", "How do I reset  my password?", "How  do I reset my password?")
"""With the same words: the pool's vectors know no more."""


@pytest.fixture
async def pooled(start):
    """Vectors come from a model of the config, which reads 64 tokens."""
    own = {"kind": "pool", "model": "large-model", "dimension": 64, "max_tokens": 512, "deadline": "1s"}
    fakes = {"s1": Options(), "l1": Options(dimensions=64, max_model_len=64)}
    stack = await start({**semantic(embedder=own), "models": {1: {"endpoints": ["chat", "embeddings"]}}}, fakes=fakes)
    return await opened(stack)


async def embedded(stack, content):
    """An answer of a model, kept under the vector that the pool has made, if it has."""
    assert cache_of(await ask(stack, content)) == "miss"
    await at_rest(stack)
    await writer(stack).settled()
    await at_rest(stack)


async def test_an_embedder_that_hangs_costs_no_request(pooled):
    """A pool that does not answer: misses that say so, in time, and hits again once it does."""
    await embedded(pooled, SAME[0])
    assert await served(pooled, SAME[1]) == "semantic"
    pooled.large.faults.add(path="/v1/embeddings", hang_before_headers=True)
    for number in range(4):
        reason = await plain(pooled, f"{SAME[0]} {' ' * number}please")
        assert reason in {"embedder-timeout", "embedder-breaker"}, reason
    pooled.large.faults.clear()
    await until_served(pooled, SAME[2], "semantic")


async def test_texts_that_a_pool_finds_too_long_are_no_failures_of_it(pooled):
    """Many of them in a row are not kept, and the next short one is."""
    for number in range(5):
        await embedded(pooled, f"{SAME[0]} {'It worked with the old account before the holidays. ' * 8} {number}")
    await embedded(pooled, SAME[0])
    assert await served(pooled, SAME[1]) == "semantic"
