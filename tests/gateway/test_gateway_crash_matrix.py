"""Redis {stopped, slow, killed, flushed} at each point of a request's life: what its client hears, its cost, what is left."""

import asyncio
import json

import pytest
from gateway_talk import KEY, ask, chat, hold, lines, queued, station, tenant, usage, wire

from gateway.lab.fake import Options

pytest.importorskip("redis", reason="the extra `redis` is not installed")
from redis_proxy import proxy

FAULTS = ["stopped", "slow", "killed", "flushed"]
POINTS = ["before admission", "queued", "dispatched", "first token", "mid-stream", "settle"]
RPM, TPM = 100, 100_000


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """The pauses of an outage, shorter."""
    for name, seconds in (("line._RETURN", 0.05), ("line._PAUSES", (0.02, 0.2)), ("held.BEAT", 0.1)):
        monkeypatch.setattr(f"limits.redis.{name}", seconds)


class Outage:
    """A fault that strikes once, and its end."""

    def __init__(self, fault, server, network, line):
        self.fault, self.server, self.network, self.line, self.struck = fault, server, network, line, False

    def strike(self):
        if self.struck:
            return
        self.struck = True
        if self.fault == "stopped":
            self.server.stop()
        elif self.fault == "slow":
            self.network.delay = 0.06
        elif self.fault == "killed":
            self.server.kill()
        else:
            self.server.command(b"FLUSHALL")

    def strike_with_the_next_word(self):
        """A settlement is such a word: nobody waits for its answer."""
        say = self.line.say

        def struck(*words):
            self.strike()
            say(*words)

        self.line.say = struck

    def end(self):
        assert self.struck
        self.network.delay = 0.0
        if self.fault == "stopped":
            self.server.resume()
        elif self.fault == "killed":
            self.server.start()


async def streamed(stack, point, outage):
    """A stream that is met after its first token, or after some; its answer is whole all the same."""
    async with wire(stack.gateway.port) as one:
        one.send(chat(stream=True, stream_options={"include_usage": True}))
        await one.head()
        said = b""
        while piece := await one.piece():
            said += piece
            if said.count(b'"content":') >= (1 if point == "first token" else 4):
                outage.strike()
        assert one.status == 200
    events = [part[6:] for part in said.decode().split("\n\n") if part]
    assert events[-1] == "[DONE]"
    return json.loads(events[-2])["usage"]["total_tokens"]


async def queue_behind(stack, outage):
    """One runs, one waits, and one finds the queue full: the refused one is given back."""
    wake = hold(stack.small)
    first = asyncio.create_task(ask(stack, chat()))
    await stack.until(lambda: station(stack).scheduler.inflight == 1)
    second = asyncio.create_task(ask(stack, chat()))
    await stack.until(lambda: queued(stack) == 1)
    outage.strike()
    refused = await ask(stack, chat())
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "queue_full")
    wake()
    answers = [await first, await second]
    assert [answer.status_code for answer in answers] == [200, 200]
    return sum(usage(answer)["total_tokens"] for answer in answers)


async def plain(stack, point, outage):
    if point == "before admission":
        outage.strike()
    elif point == "settle":
        outage.strike_with_the_next_word()
    wake = hold(stack.small)
    running = asyncio.create_task(ask(stack, chat()))
    await stack.until(lambda: bool(stack.small.app.engine.waiting or stack.small.app.engine.running))
    if point == "dispatched":
        outage.strike()
    wake()
    answer = await running
    assert answer.status_code == 200
    return usage(answer)["total_tokens"]


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("point", POINTS)
async def test_no_fault_at_any_point_costs_a_request_or_leaks(start, redis, fault, point):
    """Every client has its answer, nobody is charged more than was used, a refused request is given back, and when the server is
    there again nothing of any request is left on it or here.
    """
    async with proxy(str(redis.socket)) as network:
        limits = {"rpm": RPM, "tpm": TPM, "max_parallel": 10}
        stack = await start(
            {
                "redis": {"url": network.url},
                "limits": {"store": "redis", "timeout": "50ms"},
                "cache": {"secret": "s", "exact": {"enabled": False}},
                "models": {0: {"concurrency": {"max": 1}}},
                "queue": {"max_requests": 1},
                "tenants": [tenant("acme", KEY, **limits)],
            },
            fakes={"s1": Options(itl=0.005, tokens=12), "l1": Options()},
        )
        limiter = stack.gateway.parts.limiter
        line = limiter.line
        outage = Outage(fault, redis, network, line)
        if point == "queued":
            used = await queue_behind(stack, outage)
        elif point in ("first token", "mid-stream"):
            used = await streamed(stack, point, outage)
        else:
            used = await plain(stack, point, outage)
        await stack.until(stack.idle)
        await stack.until(lambda: outage.struck)
        outage.end()
        await stack.until(lambda: line.up and not line._under_way and not line._unsaid)
        await stack.until(lambda: redis.command(b"KEYS", b"*:open:*") == redis.command(b"KEYS", b"*:slots") == b"*0\r\n")
        await stack.at_rest()
        served = 2 if point == "queued" else 1
        found = await lines(stack, served + (point == "queued"))
        assert sorted(each["outcome"] for each in found) == ["ok"] * served + ["rejected"] * (point == "queued")
        probe = await ask(stack, chat(model="no-such-model"))
        assert RPM - served - 1 <= int(probe.headers["x-ratelimit-remaining-requests"])
        assert TPM - used <= int(probe.headers["x-ratelimit-remaining-tokens"])
        await stack.until(lambda: stack.idle() and limiter.held.items() == [])
