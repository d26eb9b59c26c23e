"""An hour of mixed traffic in minutes, and then nothing is left of it: no memory, no descriptor, no slot, no request.

`TIERGATE_SOAK` is how many requests there are, a hundred thousand if it is not set: 28 a second for an hour. Of fewer than 50,000
the trend of memory says little: what is bounded, and the allocator's arenas, still fill when it begins.
"""

import asyncio
import contextlib
import os
import random
import signal
from collections import Counter
from dataclasses import replace

import psutil
import pytest
from broken import FAULTS
from gateway_talk import ADMIN_KEY, CHAT, KEY, OTHER_KEY, chat, dial, tenant, total, wire

from bench.figures import Trend
from gateway.lab.fake import Options

REQUESTS = int(os.environ.get("TIERGATE_SOAK", "100000"))
CONNECTIONS = 32
WARM = 0.4  # of the requests: by then what is bounded is as full as it gets
GROWTH = 60.0  # bytes of resident memory a request, of each process that requests pass, that the trend may surely be
MORE_FDS = 40  # idle connections to the replicas come and go, at most one for each of the clients'; a leak is thousands
POOR_KEY = "a-key-with-few-tokens"
MORE_KEYS = [f"key-of-{number}" for number in range(6)]
CLIENTS = [KEY, OTHER_KEY, *MORE_KEYS]
KINDS = {
    "hit": 22, "miss": 16, "auto": 14, "stream": 12, "talk": 8, "gone": 8, "wrong key": 5, "poor": 4, "long": 3, "no model": 3,
    "no JSON": 2, "embedding": 1, "completion": 1, "admin": 1,
}  # fmt: skip
ADMIN = ["/admin/status", "/admin/tenants", "/admin/keys", "/admin/cache"]
UNLOGGED = ["/metrics", "/health"]
ENGINE = Options(ttft=0.001, itl=0.0005, tokens=8, max_model_len=16_384, kv_blocks=1024)
FAKES = {name: replace(ENGINE, seed=at) for at, name in enumerate(("s1", "s2", "l1", "l2"))}
ASKS = ("What day is it in {}?", "Translate {} to French.", "Prove step by step that {} implies the theorem of Gauss.")
IDLE = ("tiergate_inflight_requests", "tiergate_queue_depth", "tiergate_replica_tokens", "tiergate_reserved_slots_used")


def config():
    """Everything bounded is small enough to be full soon: an exact cache of a megabyte takes 13,000 requests to fill."""
    rich = {"rpm": 10**9, "tpm": 10**9}
    others = [tenant(f"more{number}", key, **rich) for number, key in enumerate(MORE_KEYS)]
    return {
        "timeouts": {"connect": "1s", "first_token": "3s", "between_tokens": "3s", "total": "10s"},
        "models": {at: {"concurrency": {"max": 12}, "balance": {"cache_tokens": 16_384}} for at in (0, 1)},
        "cache": {"secret": "s", "exact": {"max_bytes": "256KiB", "max_entry": "64KiB"}},
        "tenants": [
            tenant("acme", KEY, **rich),
            tenant("globex", OTHER_KEY, max_parallel=9, **rich),
            tenant("initech", POOR_KEY, rpm=600, tpm=20_000),
            *others,
        ],
    }


class Traffic:
    """What the clients send, and what came of it."""

    def __init__(self, node):
        self.node = node
        self.kinds = Counter()
        self.statuses = Counter()
        self.unlogged = 0
        self.again = 0  # requests whose kept connection ended as they were sent: they went over another one
        self.points = []  # (requests, bytes) of the whole node
        self.done = 0

    async def send(self, numbers):
        """All of them, over so many connections at once; the memory is looked at every now and then."""
        pending = iter(numbers)
        async with asyncio.TaskGroup() as group:
            for at in range(CONNECTIONS):
                group.create_task(self._client(pending, random.Random(numbers.start * CONNECTIONS + at)))

    async def _client(self, pending, rng):
        port, talk = self.node.port, []
        one = await dial(port)
        for number in pending:
            self.done += 1
            if self.done % max(1, REQUESTS // 300) == 0:
                self.points.append((self.done, rss(self.node)))
            kind = rng.choices(list(KINDS), list(KINDS.values()))[0]
            self.kinds[kind] += 1
            how = {"key": rng.choice(CLIENTS), "path": CHAT, "headers": {"x-request-id": f"soak-{number}"}}
            body = self._body(kind, number, rng, talk, how)
            if kind == "gone":
                await self._leave(body, rng, how)
                continue
            one, answer = await self._answered(one, body, how)
            assert answer.clean, (kind, number)
            self.statuses[kind, answer.status_code] += 1
            if answer.headers.get("connection") == "close":
                one.leave()
                one = await dial(port)
        one.leave()

    async def _answered(self, one, body, how):
        """On this connection, or on a new one when a worker that is replaced had just ended it; the one that was answered on."""
        while True:
            try:
                one.send(body, **how)
                async with asyncio.timeout(60):
                    return one, await one.answer()
            except (asyncio.IncompleteReadError, ConnectionError):
                self.again += 1
                one.leave()
                one = await dial(self.node.port)

    def _body(self, kind, number, rng, talk, how):
        greedy = {"temperature": 0, "max_tokens": 20}
        unique = f"prompt {number}"
        if kind == "hit":
            return chat(f"prompt {rng.randrange(50)}", stream=rng.random() < 0.3 or None, **greedy)
        if kind == "auto":
            ask = rng.choice(ASKS).format(unique)
            return {**chat(ask, stream=rng.random() < 0.5 or None, **greedy), "model": "auto"}
        if kind == "stream":
            return chat(unique, stream=True, stream_options={"include_usage": True}, **greedy)
        if kind == "talk":
            return self._turn(talk, unique)
        if kind == "gone":
            return chat(unique, stream=rng.random() < 0.7, **greedy)
        if kind == "wrong key":
            how["key"] = f"wrong-{number}"
        elif kind == "poor":
            how["key"] = POOR_KEY
        elif kind == "long":
            return chat("x" * 20_000 + unique)
        elif kind == "no model":
            return {**chat(unique), "model": f"made-up-{number}"}
        elif kind == "no JSON":
            return b'{"model": '
        elif kind == "embedding":
            how["path"] = "/v1/embeddings"
            return {"model": "small-model", "input": unique}
        elif kind == "completion":
            how["path"] = "/v1/completions"
            return {"model": "small-model", "prompt": unique, **greedy}
        elif kind == "admin":
            how |= {"path": rng.choice([*ADMIN, *UNLOGGED]), "method": "GET", "key": ADMIN_KEY}
            self.unlogged += how["path"] in UNLOGGED
            return b""
        return chat(unique, **greedy)

    def _turn(self, talk, unique):
        """The next turn of the client's own conversation, which ends now and then."""
        if len(talk) >= 12:
            talk.clear()
        talk += [{"role": "user", "content": unique}]
        body = {"model": "auto", "messages": list(talk), "max_tokens": 20}
        talk += [{"role": "assistant", "content": f"About {unique} I know this."}]
        return body

    async def _leave(self, body, rng, how):
        """At once, or with the head of the answer."""
        async with wire(self.node.port) as two:
            two.send(body, **how)
            await two.writer.drain()
            if rng.random() < 0.5:
                with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
                    await two.head()


def processes(node):
    with contextlib.suppress(psutil.NoSuchProcess):
        root = psutil.Process(node.process.pid)
        return [root, *root.children(recursive=True)]
    return []


def rss(node):
    """Bytes, of all processes of the node."""
    total_ = 0
    for process in processes(node):
        with contextlib.suppress(psutil.NoSuchProcess):
            total_ += process.memory_info().rss
    return total_


def descriptors(node):
    return sum(process.num_fds() for process in processes(node))


async def at_rest(node):
    """The metrics, once nobody holds or waits for anything."""
    await node.idle()
    async with asyncio.timeout(30):
        while True:
            found = await node.metrics()
            if not any(total(found, name) for name in IDLE):
                return found
            await asyncio.sleep(0.05)


async def written(node, count):
    """The log, once it has that many lines: a thread writes it."""
    async with asyncio.timeout(30):
        while len(lines := node.lines()) < count:
            await asyncio.sleep(0.5)
    return lines


async def reloads(node):
    """One after the other, for as long as it is let."""
    while True:
        await asyncio.sleep(1.0)
        before = node.pids()
        node.signal(signal.SIGHUP)
        await node.until(lambda: all(node.pid(name) != before[name] for name in ("worker 1", "worker 2")), 60.0)  # noqa: B023


@pytest.mark.drill
@pytest.mark.timeout(2400)
@pytest.mark.parametrize("workers", [1, 2], ids=["one process", "two workers"])
async def test_an_hour_of_traffic_leaves_nothing_behind(node, figures, workers):
    """Hits, misses, `auto`, talks, aborts, wrong keys, faults, admin reads, reloads: memory does not grow, all is given back."""
    one = await node(config(), fakes=FAKES, workers=workers)
    for fake in one.fakes.values():
        fake.faults.extend(FAULTS)
    traffic, warm = Traffic(one), int(REQUESTS * WARM)
    if workers > 1:  # the workers are other ones after that, so it is over before memory is compared
        work = asyncio.create_task(reloads(one))
        await traffic.send(range(warm // 4))
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        await traffic.send(range(warm // 4, warm))
    else:
        await traffic.send(range(warm))
    await at_rest(one)
    early, began = descriptors(one), traffic.done
    await traffic.send(range(warm, REQUESTS))
    found = await at_rest(one)
    logged = await written(one, total(found, "tiergate_requests_total"))
    points = [(count, held) for count, held in traffic.points if count > began]
    trend, late = Trend.of(points), descriptors(one)
    figures[f"soak, workers {workers}: MiB at the first, after the warming, at the end"] = ", ".join(
        f"{held / 2**20:.1f}" for held in (traffic.points[0][1], points[0][1], points[-1][1])
    )
    figures[f"soak, workers {workers}: bytes a request after that"] = f"{trend.slope:.1f}, standard error {trend.error:.1f}"
    figures[f"soak, workers {workers}: descriptors after the warming, at the end"] = f"{early}, {late}"
    figures[f"soak, workers {workers}: sent again, as their connection had ended"] = str(traffic.again)
    figures[f"soak, workers {workers}: outcomes"] = ", ".join(
        f"{count} {kind} {status}" for (kind, status), count in sorted(traffic.statuses.items())
    )
    assert set(traffic.kinds) == set(KINDS)
    assert workers > 1 or not traffic.again
    assert all(not account["parallel"] for account in (await one.tenants()).values() if "parallel" in account)
    lines = Counter(line.get("client_request_id") for line in logged)
    assert Counter(lines[f"soak-{number}"] for number in range(REQUESTS)) == {1: REQUESTS - traffic.unlogged, 0: traffic.unlogged}
    assert total(found, "tiergate_requests_total") == len(logged)
    assert late <= early + MORE_FDS
    assert trend.slope - 3 * trend.error < GROWTH * (1 if workers == 1 else workers + 1)
    one.signal(signal.SIGTERM)
    assert await one.ended() == 0
    assert "Traceback" not in one.said
