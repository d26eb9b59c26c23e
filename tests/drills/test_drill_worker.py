"""A worker is killed, or stands still: what it held is free, and nobody else notices."""

import asyncio
import json
import signal
import time

import httpx
import psutil
from drill_node import ask, bare
from gateway_talk import CHAT, KEY, chat, hold, posts, tenant, total, wire

from gateway.lab.fake import Options

STREAM = {"stream": True, "stream_options": {"include_usage": True}, "max_tokens": 40, "seed": 7}
CLIENTS = 130
SIZE = 600_000


async def direct(fake, body):
    """What the fake itself answers."""
    async with httpx.AsyncClient(trust_env=False, timeout=30) as client:
        return (await client.post(f"{fake.url}/chat/completions", json={**body, "model": "fake"})).content


async def test_a_killed_worker_leaves_nothing_and_harms_nobody(node, figures):
    """Its streams break, those of the other complete to the byte; slots, replica and parallel slots are free; another serves."""
    one = await node(
        {"tenants": [tenant("acme", KEY, max_parallel=6)]}, fakes={"s1": Options(tokens=40, itl=0.01), "l1": Options()}
    )
    fake = one.fakes["s1"]
    lost, kept = await one.dial_both(4)
    watcher = kept.pop()
    lost.pop().leave()
    bodies = [chat(f"stream {number}", **STREAM) for number in range(6)]
    wake = hold(fake)
    for connection, body in zip([*lost, *kept], bodies, strict=True):
        connection.send(body)
    await one.until(lambda: len(posts(fake)) == 6)
    assert (await ask(watcher, CHAT, chat(), key=KEY, method="POST")).status_code == 429
    status = (await one.status(watcher))["small-model"]
    assert status["slots"]["inflight"] == status["replicas"][0]["inflight"] == 6
    before = one.pids()
    killed = time.monotonic()
    one.kill("worker 1")
    while (status := (await one.status(watcher))["small-model"])["slots"]["inflight"] > 3:
        assert time.monotonic() < killed + 10
    after = asyncio.create_task(one.replaced("worker 1", before["worker 1"]))
    after.add_done_callback(lambda _: figures.update({"worker killed: until the next one is ready, ms": since(killed)}))
    figures["worker killed: until its leases are free, ms"] = since(killed)
    assert status["slots"]["inflight"] == status["replicas"][0]["inflight"] == 3
    assert total(await one.metrics(), "tiergate_inflight_requests") == 3
    broken = await asyncio.gather(*(connection.reader.read() for connection in lost), return_exceptions=True)
    assert all(isinstance(end, ConnectionError) or not end.endswith(b"0\r\n\r\n") for end in broken)
    wake()
    whole = await asyncio.gather(*(connection.answer() for connection in kept))
    for answer, body in zip(whole, bodies[3:], strict=True):
        assert (answer.status_code, answer.clean) == (200, True)
        assert bare(answer.content) == bare(await direct(fake, body))
    assert sum(call.aborted for call in posts(fake)[:6]) == 3
    await after
    assert one.pids() | {"worker 1": 0} == before | {"worker 1": 0}
    fresh, _ = await one.dial_both()
    assert (await ask(fresh[0], CHAT, chat(), key=KEY, method="POST")).status_code == 200
    wake = hold(fake)
    async with asyncio.TaskGroup() as group:
        asked = [group.create_task(answer_of(one.port, chat(f"again {number}"))) for number in range(6)]
        await one.until(lambda: len([call for call in posts(fake) if "again" in call.text]) == 6)
        assert await answer_of(one.port, chat("one more")) == 429
        wake()
    assert [task.result() for task in asked] == [200] * 6
    await one.idle()


def since(moment):
    return f"{(time.monotonic() - moment) * 1000:.0f}"


async def answer_of(port, body, **how):
    async with wire(port) as one:
        one.send(body, **how)
        return (await one.answer()).status_code


async def test_a_worker_that_stands_still_is_cut_off_and_comes_back(node, figures, tmp_path):
    """What it leaves unread is bounded, others are served; when it goes on it asks again, and holds again what it held."""
    (tmp_path / "script").write_text(json.dumps([{"match": "long", "deltas": ["x" * SIZE]}]))
    one = await node(
        {"cache": {"exact": {"max_entry": "1MiB"}}, "server": {"port": 0, "drain_timeout": "5s"}},
        fakes={"s1": Options(script=str(tmp_path / "script")), "l1": Options(tokens=20)},
    )
    [other, *_], still = await one.dial_both(CLIENTS + 2)
    body = chat("long", temperature=0)
    while (await ask(other, CHAT, body, key=KEY, method="POST")).headers["x-tiergate-cache"] != "exact":
        await asyncio.sleep(0.01)
    wake = hold(one.fakes["l1"])
    for connection in still[:2]:
        connection.send(chat("held", model="large-model", stream=True))
    await one.until(lambda: len(posts(one.fakes["l1"])) == 2)
    dispatcher = psutil.Process(one.pid("dispatcher"))
    before = peak = dispatcher.memory_info().rss
    one.kill("dispatcher", signal.SIGSTOP)
    for connection in still[2:]:  # the worker has no copy yet: each of them is to be sent the whole answer
        connection.send(body)
    await asyncio.sleep(0.5)  # they are asked for: nothing tells when
    one.kill("worker 2", signal.SIGSTOP)
    one.kill("dispatcher", signal.SIGCONT)
    while "worker 2 has said nothing" not in one.said:
        assert (await ask(other, CHAT, body, key=KEY, method="POST")).status_code == 200
        peak = max(peak, dispatcher.memory_info().rss)
    status = await one.status(other)
    assert not any(model["slots"]["inflight"] for model in status.values())
    one.kill("worker 2", signal.SIGCONT)
    answers = await asyncio.gather(*(connection.answer() for connection in still[2:]))
    assert {(answer.status_code, answer.headers["x-tiergate-cache"]) for answer in answers} == {(200, "exact")}
    await one.reached(lambda found: found["large-model"]["slots"]["inflight"] == 2)
    wake()
    for connection in still[:2]:
        assert (await connection.answer()).content.endswith(b"data: [DONE]\n\n")
    await one.idle()
    figures["worker stopped: resident memory of the dispatcher before, at most, MiB"] = f"{before >> 20}, {peak >> 20}"
    assert peak < before + 32 * 2**20
