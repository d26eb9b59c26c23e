"""Where requests go by what engines say that they have cached, and what becomes of them when engines say nothing."""

import asyncio
import hmac
import random
import socket
from collections import Counter
from contextlib import AsyncExitStack

import pytest
from apart import Apart

from caches.chain import Chain
from caches.tokens import root, token_chain
from gateway.build.requests import draw_secret
from gateway.lab.fake import Options

pytest.importorskip("zmq", reason="the extra `precise` is not installed")

import zmq
from kv_publisher import Publisher

from gateway.dispatch.listening import Ear

NAMES = ("s1", "s2", "s3")
WORDS = ("alpha", "beta", "gamma", "delta", "kappa", "sigma", "omega", "theta")


def text(seed, count=150):
    return " ".join(random.Random(seed).choices(WORDS, k=count))


class World:
    """A pool of three engines with publishers, whose caches are what the test says."""

    def __init__(self, stack, publishers):
        self.stack = stack
        self.publishers = publishers

    @property
    def placing(self):
        return self.stack.gateway.parts.lanes["small-model"].placing

    async def tokens(self, content):
        body = {"model": "fake", "messages": [{"role": "user", "content": content}]}
        answer = await self.stack.client.post(self.stack.small.url.removesuffix("/v1") + "/tokenize", json=body)
        return [token & 0xFFFF_FFFF for token in answer.json()["tokens"]]

    async def cached_at(self, name, content, salt=None):
        self.publishers[name].engine.compute(await self.tokens(content), salt)
        await self.in_step()

    async def claimed(self, content):
        """Who is thought to have it, going by engines alone."""
        start = root(draw_secret(self.stack.gateway.config), None, None)
        ids = Chain.unpack(token_chain(start, await self.tokens(content)))
        return {name for name, tokens in self.placing.known(ids, 1000, {}).items() if tokens}

    async def in_step(self):
        """Everything that was published has been heard."""

        def heard():
            return all(
                sequence.live and sequence._next == len(self.publishers[name].engine.out)
                for name, sequence in self.placing.followed.items()
            )

        await self.stack.until(lambda: len(self.placing.followed) == 3 and heard() and self.asks)

    @property
    def asks(self):
        """Who serves requests asks for token ids."""
        return self.stack.gateway.parts.pipeline._tokens._engines.hearing("small-model")

    async def where(self, content, **more):
        answer = await self.stack.chat(content, max_tokens=1, **more)
        assert answer.status_code == 200, answer.text
        return answer.headers["x-tiergate-replica"]


@pytest.fixture
async def world(start):
    async with AsyncExitStack() as scope:

        async def make(timeout="5s", cache=None, silent=False, **options):
            publishers = {name: Publisher() for name in NAMES}
            if silent:
                await asyncio.gather(*(publisher.stop() for publisher in publishers.values()))
            changes = {
                "models": {0: {
                    "context": None, "balance": {"precise": {"timeout": timeout}},
                    "replicas": {number: publishers[name].addresses for number, name in enumerate(NAMES)},
                }},
                "cache": {"secret": "s", "exact": {"enabled": False}, **(cache or {})},
            }  # fmt: skip
            stack = await start(changes, fakes=dict.fromkeys((*NAMES, "l1"), Options(**options)))
            made = World(stack, publishers)
            if not silent:
                await made.in_step()
            scope.push_async_callback(lambda: asyncio.gather(*(p.stop() for p in made.publishers.values())))
            return made

        yield make


async def test_a_prompt_goes_where_an_engine_says_it_has_it(world):
    """Although nothing like it was ever sent there; and once it is evicted there, to who has it now."""
    here = await world()
    for turn in range(6):
        name = NAMES[turn % 3]
        await here.cached_at(name, text(turn))
        assert await here.where(text(turn)) == name
    await here.cached_at("s1", text("x"))
    here.publishers["s1"].engine.clear()
    await here.cached_at("s2", text("x"))
    assert await here.where(text("x")) == "s2"
    assert here.placing.choices.precise == 7
    assert here.placing.choices.approximate == 0
    await here.stack.at_rest()


async def test_a_long_beginning_that_one_engine_has_and_all_ask_for_spreads(world):
    """Whoever told of it: requests that run at once do not pile up before the one engine that says it has their beginning."""
    here = await world(itl=0.05)
    system = text("long", 2000)
    await here.cached_at("s2", system)
    chats = (here.stack.chat(f"{system} {text(seed, 5)}", stream=True, max_tokens=40, ignore_eos=True) for seed in range(60))
    replies = await asyncio.gather(*chats)
    counts = Counter(reply.headers["x-tiergate-replica"] for reply in replies)
    assert here.placing.choices.precise == 60
    assert len(counts) == 3
    assert max(counts.values()) <= 34, counts


async def test_tenants_that_share_no_cache(world):
    """Where engines keep tenants apart, what one has cached is nothing to another."""
    here = await world(cache={"prefix": {"isolate": "tenant"}})
    secret = draw_secret(here.stack.gateway.config)
    salt = hmac.digest(secret, b"acme", "sha256").hex()[:32]
    for turn in range(4):
        await here.cached_at("s1", text(turn))  # nobody's
        await here.cached_at("s3", text(turn), salt)
        assert await here.where(text(turn)) == "s3"


async def test_token_ids_that_do_not_come(world):
    """A hanging /tokenize delays nobody beyond its deadline, is not asked any more, and requests are placed by what was sent."""
    here = await world(timeout="10ms")
    for name in NAMES:
        here.stack.fakes[name].faults.add(path="/tokenize", hang_before_headers=True)
    first = await here.where(text("a"))
    for _ in range(8):
        assert await here.where(text("a")) == first
    assert here.placing.choices.precise == 0
    page = (await here.stack.client.get("/metrics")).text
    counts = {line.split('result="')[1].split('"')[0]: float(line.split()[-1]) for line in page.splitlines()
              if line.startswith("tiergate_prompt_tokenizations_total{")}  # fmt: skip
    assert counts["failed"] >= 5
    assert counts["failed"] + counts["open"] == 9
    await here.stack.at_rest()


async def test_an_engine_that_dies(world):
    """Nothing that it said counts while it is gone, and the next one at its address is heard from its beginning."""
    here = await world()
    await here.cached_at("s3", text("a"))
    assert await here.claimed(text("a")) == {"s3"}
    old = here.publishers["s3"]
    await old.stop()
    await here.stack.until(lambda: not here.placing.followed["s3"].live)
    assert await here.claimed(text("a")) == set()
    assert await here.where(text("b")) in NAMES
    here.publishers["s3"] = Publisher(type(old.engine)(clock=1000.0), old.ports)
    here.publishers["s3"].engine.publish()
    await here.cached_at("s3", text("c"))
    assert await here.where(text("c")) == "s3"
    assert await here.claimed(text("a")) == set()


async def test_engines_that_publish_nothing(world, caplog, monkeypatch):
    """Nobody is asked for token ids as long as no engine is heard, and the log says once of each replica that it is not."""
    monkeypatch.setattr("gateway.dispatch.listening._LOOK", 0.02)
    here = await world(silent=True)

    def told():
        return sorted(record.message[:2] for record in caplog.records if "nobody publishes KV cache events" in record.message)

    await here.stack.until(lambda: len(told()) == 3)
    for turn in range(3):
        assert await here.where(text(turn)) in NAMES
    assert here.placing.choices.approximate == 3
    assert "tiergate_prompt_tokenizations_total{" not in (await here.stack.client.get("/metrics")).text
    assert told() == list(NAMES)
    here.publishers["s2"] = Publisher(ports=here.publishers["s2"].ports)
    await here.stack.until(lambda: here.asks)
    here.publishers["s2"].engine.compute(await here.tokens(text("a")))
    await here.stack.until(lambda: here.placing.heard.batches)
    assert await here.where(text("a")) == "s2"
    assert here.placing.choices.precise == 1
    assert told() == list(NAMES)


async def test_an_address_where_nothing_is_replayed(world, caplog):
    """What an engine says from now on is heard, and the log says once that what it said before is not known."""
    here = await world()
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    placing, loop = here.placing, asyncio.get_running_loop()
    context = zmq.Context()
    ear = Ear(context, placing, "x", here.publishers["s1"].addresses["events"], f"tcp://127.0.0.1:{port}")
    try:
        ear.open()
        until = loop.time() + 10
        while "x: nobody replays KV cache events" not in caplog.text and loop.time() < until:
            await asyncio.sleep(0.01)
        assert caplog.text.count("x: nobody replays") == 1
        here.publishers["s1"].engine.compute([1] * 64)
        await here.stack.until(lambda: ear.sequence.live)
    finally:
        ear.close()
        placing.deafen("x")
        context.destroy(linger=0)
        listener.close()


async def test_batches_that_are_lost(world):
    """They are asked for again, and nothing is missing then."""
    here = await world()
    here.publishers["s2"].lose = 2
    here.publishers["s2"].engine.compute(await here.tokens(text("a")))
    here.publishers["s2"].engine.compute(await here.tokens(text("b")))
    await here.stack.until(lambda: here.publishers["s2"].lose == 0)
    await here.cached_at("s2", text("c"))
    for letter in "abc":
        assert await here.where(text(letter)) == "s2"
    assert here.placing.heard.gaps == 1
    assert here.placing.heard.replayed >= 2


async def test_a_long_replay(world):
    """All that an engine has kept is heard, and requests are served meanwhile."""
    here = await world()
    publisher, tokens = here.publishers["s2"], await here.tokens(text("a"))
    publisher.lose = 3000
    for _ in range(3000):
        publisher.engine.publish()
    publisher.engine.compute(tokens)
    await here.stack.until(lambda: here.placing.heard.gaps == 1)
    assert await here.where(text("b")) in NAMES
    await here.in_step()
    assert here.placing.precise.whole("s2")
    assert await here.where(text("a")) == "s2"
    assert here.placing.heard.dropped == 0


async def test_nonsense_from_an_engine(world, caplog):
    """Whatever it publishes, requests are served, and the log says so once."""
    here = await world()
    publisher = here.publishers["s1"]
    publisher.say(b"")
    publisher.say(b"", b"short", b"")
    for number, payload in enumerate((b"\xc1", b"\x90")):
        publisher.say(b"kv", number.to_bytes(8, "big"), payload)
    await here.stack.until(lambda: here.placing.heard.garbage == 2)
    assert await here.where(text("a")) in NAMES
    said = [record for record in caplog.records if "s1: its engine published" in record.message]
    assert len(said) == 1


async def test_a_connection_that_breaks_each_time(world, caplog):
    """An engine whose batches are too large is never heard, and the log says why; requests are served meanwhile."""
    here = await world()
    publisher = here.publishers["s1"]

    async def told():
        publisher.say(b"kv", (0).to_bytes(8, "big"), bytes(5 * 2**20))
        await asyncio.sleep(0.2)
        return any("breaks the connection" in record.message for record in caplog.records)

    for _ in range(200):
        if await told():
            break
    else:
        pytest.fail("nothing was said")
    assert await here.where(text("a")) in NAMES


async def test_a_dispatcher_that_is_replaced(world):
    """The next one asks for all that engines have said, and knows it."""
    here = await world()
    if not isinstance(here.stack.gateway, Apart):
        pytest.skip("one process")
    await here.cached_at("s2", text("a"))
    await here.stack.gateway.replace_dispatcher()
    await here.in_step()
    await here.stack.until(lambda: all(r.up for r in here.stack.gateway.parts.lanes["small-model"].pool.replicas))
    assert await here.where(text("a")) == "s2"


@pytest.mark.parametrize(
    "fault",
    [
        {"status": 404},
        {"status": 200, "body": "no JSON"},
        {"status": 200, "body": {"tokens": ["a"]}},
        {"status": 200, "body": {"tokens": []}},
        {"status": 200, "body": {"tokens": [2**63]}},
        {"status": 200, "body": {"tokens": [-1, 7]}},
        {"close_before_headers": True},
    ],
)
async def test_token_ids_that_are_none(world, fault):
    """Whatever /tokenize answers, the request is served, and placed by what was sent where it makes no sense."""
    here = await world()
    for name in NAMES:
        here.stack.fakes[name].faults.add(path="/tokenize", **fault)
    for _ in range(3):
        assert await here.where(text("a")) in NAMES
    assert here.placing.choices.precise + here.placing.choices.approximate == 3
    await here.stack.at_rest()


async def test_prompts_that_cannot_be_compared(world):
    """Images are not asked about; token ids of the client's own need no asking."""
    here = await world()
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    messages = [{"role": "user", "content": [{"type": "text", "text": text("a")}, picture]}]
    await here.stack.chat(messages=messages, max_tokens=1)
    assert here.placing.choices.precise == 0
    ids = [11, 12, 13, 14] * 40
    here.publishers["s3"].engine.compute(ids)
    await here.in_step()
    headers = {"authorization": "Bearer tg-test-key-of-acme"}
    body = {"model": "small-model", "prompt": ids, "max_tokens": 1}
    answer = await here.stack.client.post("/v1/completions", json=body, headers=headers)
    assert answer.headers["x-tiergate-replica"] == "s3"
    assert here.placing.choices.precise == 1
