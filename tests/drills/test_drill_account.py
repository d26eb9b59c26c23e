"""Mixed traffic while workers and the dispatcher are killed at random: then every account is added up, from the outside.

What clients got, what the log says was charged, what was under way at each kill: what is left of each tenant's limits must agree.
A balance refills all the time, and by how much is computed: each tenant spends from the start, so that none is ever full.
"""

import asyncio
import random
import time
from collections import Counter
from dataclasses import dataclass

import psutil
import pytest
from drill_node import gone
from gateway_talk import chat, dial, hold, posts, tenant, wire

from gateway.lab.fake import Options

TENANTS = {
    "acme": {"rpm": 1200, "tpm": 30_000},
    "globex": {"rpm": 240, "tpm": 6_000},
    "initech": {"max_parallel": 8},
    "umbrella": {"max_parallel": 20},
    "hooli": {"tpm": 20_000},
}
# Errors after which a request is not counted against its tenant.
REFUNDED = {
    "rate_limit_exceeded", "concurrency_limit_exceeded", "request_too_large", "queue_full", "queue_share_full", "queue_timeout",
    "wait_too_long",
    "no_replica_ready", "not_cached", "dispatcher_away", "draining",
}  # fmt: skip
CLIENTS = 40
FIRST = 400  # requests before the first kill, so that nobody's balance is full again while there is no dispatcher
AROUND = 1.0  # seconds after its end in which a kill can still cost a request its line: the log is written ten times a second


def key_of(name):
    return f"a-key-of-{name}"


@dataclass
class Sent:
    """One request as its client saw it."""

    tenant: str
    most: int  # tokens that it may be charged
    began: float
    ended: float = 0.0
    code: str = ""  # "ok", an error's code, "broken", "left"
    worker: str = ""


def config():
    small = {"concurrency": {"max": 6}, "fallback": ["large-model"]}
    return {
        "models": {0: small, 1: {"concurrency": {"max": 10}}},
        "queue": {"max_requests": 24, "max_wait": {"realtime": "2s", "standard": "2s", "batch": "2s"}},
        "tenants": [tenant(name, key_of(name), **limits) for name, limits in TENANTS.items()],
    }


def drawn(rng, number):
    """A body, and how long its client waits."""
    body = chat(f"prompt {rng.randrange(30) if rng.random() < 0.4 else number}", max_tokens=20)
    body["model"] = rng.choice(["small-model", "small-model", "large-model"])
    if rng.random() < 0.4:
        body["temperature"] = 0
    if rng.random() < 0.5:
        body["stream"] = True
    return body, rng.choice([None] * 12 + [0.0, 0.01, 0.05])


async def request(port, number, rng, sent):
    body, patience = drawn(rng, number)
    name = rng.choice(list(TENANTS))
    one = sent[f"c-{number}"] = Sent(name, 40, time.monotonic())
    try:
        connection = await dial(port)
    except ConnectionError:
        one.code, one.ended = "broken", time.monotonic()
        return
    try:
        async with asyncio.timeout(patience or 60):
            connection.send(body, key=key_of(name), headers={"x-request-id": f"c-{number}"})
            answer = await connection.answer()
            one.worker = answer.headers["x-request-id"].rpartition("-")[0]
            if answer.status_code != 200:
                one.code = answer.json()["error"]["code"]
            elif not answer.clean or (body.get("stream") and not answer.content.endswith(b"data: [DONE]\n\n")):
                one.code = "broken"
            else:
                one.code = "ok"
    except TimeoutError:
        assert patience is not None, f"request {number} hung"
        one.code = "left"
    except (asyncio.IncompleteReadError, ConnectionError):
        one.code = "broken"
    finally:
        connection.leave()
        one.ended = time.monotonic()


async def killing(node, rng, pause, kills, stop):
    """A process that lives, with a pause after each, until told."""
    while not stop.is_set():
        await asyncio.sleep(rng.uniform(*pause))
        alive = [name for name, pid in node.pids().items() if not gone(pid)]
        if alive and not stop.is_set():
            name = rng.choice(alive)
            kills.append((time.monotonic(), name))
            node.kill(name)


async def drill(node, figures, count, pause, seed, label):
    one = await node(
        config(), fakes={"s1": Options(tokens=16, itl=0.002), "s2": Options(tokens=16, itl=0.002), "l1": Options(itl=0.001)}
    )
    rng, sent, kills, stop = random.Random(seed), {}, [], asyncio.Event()
    start, numbers = time.monotonic(), iter(range(count))

    async def client(at):
        mine = random.Random(f"{seed}-{at}")
        for number in numbers:
            await request(one.port, number, mine, sent)

    async with asyncio.TaskGroup() as group:
        clients = [group.create_task(client(at)) for at in range(CLIENTS)]
        await one.until(lambda: len(sent) > FIRST)
        killer = group.create_task(killing(one, rng, pause, kills, stop))
        await asyncio.wait(clients)
        stop.set()
        await killer
    took = time.monotonic() - start
    for name, pid in one.pids().items():
        if gone(pid):
            await one.replaced(name, pid)
    await one.idle()
    await one.until(lambda: all(call.ended_at is not None for fake in one.fakes.values() for call in posts(fake)))
    left, moment = await one.tenants(), time.monotonic()
    await asyncio.sleep(0.3)
    lines = {line["client_request_id"]: line for line in one.lines() if "client_request_id" in line}
    figures[f"{label}: requests, seconds"] = f"{count}, {took:.0f}"
    figures[f"{label}: kills"] = ", ".join(f"{value} {key}" for key, value in sorted(Counter(name for _, name in kills).items()))
    figures[f"{label}: what clients got"] = ", ".join(
        f"{value} {key}" for key, value in Counter(one.code for one in sent.values()).most_common()
    )
    figures[f"{label}: requests without a line in the log"] = str(len(sent) - len(lines))
    figures[f"{label}: resident memory, MiB"] = ", ".join(
        f"{name} {psutil.Process(pid).memory_info().rss / 2**20:.0f}" for name, pid in one.pids().items()
    )
    broken(sent, kills)
    for name in TENANTS:
        account(name, sent, lines, kills, left.get(name), moment - start, figures, label)
    await none_is_held(one)
    assert "Traceback" not in one.said, one.said[-6000:]
    assert not [line for line in one.said.splitlines() if "ERROR" in line and "has said nothing" not in line]


def around(moment, request, more=0.0):
    """Whether it was under way then. Where a client left, the gateway may have been at it a little longer."""
    return request.began <= moment <= request.ended + (AROUND if request.code == "left" else more)


def broken(sent, kills):
    """Nobody's answer breaks but by a kill of a worker, and no more than one worker's at each."""
    for request in sent.values():
        if request.code == "broken":
            assert any(around(moment, request, 0.02) for moment, name in kills if name != "dispatcher"), request
    codes = {request.code for request in sent.values()} - {"ok", "broken", "left"}
    assert codes <= REFUNDED | {"upstream_error", "stream_broken"}, codes


def account(name, sent, lines, kills, left, seconds, figures, label):
    """What is left of a tenant's limits against what its lines say, and what was under way at a kill."""
    mine = {number: request for number, request in sent.items() if request.tenant == name}
    unheard = {number for number in mine if number not in lines}
    for request in (mine[number] for number in unheard if mine[number].code != "left"):  # who left at once may never be read
        assert any(around(moment, request, AROUND) for moment, name in kills if name != "dispatcher"), (request, kills)
    risky = unheard | {number for number, request in mine.items() if any(around(moment, request, 0.02) for moment, _ in kills)}
    told = [line for number, line in lines.items() if number in mine]
    unsure = [line for line in told if line["outcome"] == "client_gone" and not line["attempts"]]  # left before it was admitted?
    for what, limit, spent, slack in (
        ("tokens", "tpm", sum(line["charged_tokens"] for line in told), sum(mine[number].most for number in risky)),
        (
            "requests",
            "rpm",
            sum(line.get("error") not in REFUNDED for line in told if line not in unsure),
            len(risky) + len(unsure),
        ),
    ):
        most = TENANTS[name].get(limit)
        if most is None:
            continue
        expected = min(most, max(0.0, spent - most / 60 * seconds))
        found = most - left[f"{what}_remaining"]
        figures[f"{label}: {name}, {what}: charged, so lacking, lacking"] = (
            f"{spent}, {expected:.0f}, {found} (off by {found - expected:+.0f}; under way at a kill {len(risky)}, bound {slack})"
        )
        assert expected - slack - most / 60 <= found <= expected + slack + most / 60


async def none_is_held(one):
    """As many requests at once as a tenant may have, and one more: not one slot is lost, none is there twice."""
    fakes = one.fakes.values()
    for name, most in (("initech", 8), ("umbrella", 20)):
        wakes = [hold(fake) for fake in fakes]
        before = sum(len(posts(fake)) for fake in fakes)
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(code_of(one.port, name, number)) for number in range(most)]
            await one.reached(lambda found, most=most: working(found) == most)
            assert await code_of(one.port, name, most) == 429
            assert sum(len(posts(fake)) for fake in fakes) <= before + most
            for wake in wakes:
                wake()
        assert [task.result() for task in asked] == [200] * most
    await one.idle()


def working(status):
    return sum(model["slots"]["inflight"] + sum(model["queue"]["depth"].values()) for model in status.values())


async def code_of(port, name, number):
    async with wire(port) as connection:
        connection.send(
            chat(f"held {number}", max_tokens=1, model="large-model" if number % 2 else "small-model"), key=key_of(name)
        )
        return (await connection.answer()).status_code


async def test_kills_at_random_lose_no_lease_and_no_balance(node, figures):
    """1,500 requests, a few kills: no lease is left, and each balance is what the log says, but for what was under way."""
    await drill(node, figures, 1_500, (0.2, 0.6), 1, "small drill")


@pytest.mark.drill
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [2, 3])
async def test_ten_thousand_requests_and_a_kill_a_second(node, figures, seed):
    """The same, for longer."""
    await drill(node, figures, 10_000, (0.6, 1.4), seed, f"big drill {seed}")
