"""Several workers, one dispatcher: what the operator changes through one is so for all, and outlives the dispatcher."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace

import httpx
import pytest
from gateway_talk import ADMIN_KEY, KEY, hold, queued
from held import held

from gateway.fleet import spec_of
from gateway.lab.fake import FakeVLLM, Options

MODEL = "small-model"
ADMIN = {"authorization": f"Bearer {ADMIN_KEY}"}


async def each(stack, ask):
    """What `ask(client)` gives over eight connections that are open at once: then every worker has some of them."""
    async with AsyncExitStack() as scope:
        clients = [httpx.AsyncClient(base_url=stack.url, timeout=30, trust_env=False) for _ in range(8)]
        answers = [await ask(await scope.enter_async_context(client)) for client in clients]
        counts = [len(worker.serving.server.connections) for worker in stack.gateway.workers]
        assert min(counts) >= 1, counts
    return answers


async def chat(client, **body):
    message = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}], **body}
    return await client.post("/v1/chat/completions", json=message, headers={"authorization": f"Bearer {KEY}"})


async def restart(stack):
    """Another dispatcher in the place of the one that goes without a word."""
    gateway = stack.gateway
    await gateway.replace_dispatcher()
    await stack.until(lambda: len(gateway.dispatcher.parts.node.sessions) == len(gateway.workers))


async def test_a_replica_that_has_just_joined_is_asked_through_every_worker(start):
    """No round of the roster has to pass first."""
    stack = await start({"models": {0: {"balance": {"kind": "round_robin"}}}}, workers=2)
    async with FakeVLLM(Options()) as extra:
        stack.gateway.parts.fleet.add(MODEL, spec_of("s2", extra.url), at_start=True).replica.up = True
        async with httpx.AsyncClient(base_url=stack.url, timeout=30, trust_env=False) as client:
            asked = [(await chat(client)).headers["x-tiergate-replica"] for _ in range(4)]
        assert set(asked) == {"s1", "s2"}
        answers = await each(stack, chat)
        assert {answer.status_code for answer in answers} == {200}


async def test_what_the_operator_changed_outlives_the_dispatcher(start):
    """A replica added by hand is there, one that was drained is drained, one that was taken out stays away."""
    fakes = {"s1": Options(), "s2": Options(), "s3": Options(), "l1": Options()}
    stack = await start(fakes=fakes, workers=2)
    async with FakeVLLM(Options()) as extra:
        fleet = stack.gateway.parts.fleet
        fleet.add(MODEL, spec_of("by-hand", extra.url, "its-key"))
        fleet.drain(MODEL, "s2")
        fleet.remove(MODEL, "s3")
        await fleet.idle()
        await stack.until(lambda: stack.gateway.parts.fleet.members(MODEL)["by-hand"].replica.up)
        stack.gateway.dispatcher.parts.node.tell_roster()
        await stack.chat()  # what was told has been heard
        await restart(stack)
        fleet = stack.gateway.parts.fleet
        await fleet.idle()
        states = {status.name: (status.state, status.source) for status in fleet.status(MODEL)}
        assert states == {"s1": ("up", "config"), "s2": ("draining", "config"), "by-hand": ("up", "admin")}
        assert fleet.members(MODEL)["by-hand"].spec.api_key.reveal() == "its-key"
        assert {answer.status_code for answer in await each(stack, chat)} == {200}


async def test_a_stream_outlives_the_dispatcher_and_is_settled_with_the_next(start):
    """It is in flight there as it was here, and at its end the tenant has paid what it used, once."""
    stack = await start({"plans": {"pro": {"priority": "realtime", "tpm": 1_000_000, "max_parallel": 3}}}, workers=2)
    wake = hold(stack.small)
    task = asyncio.create_task(stack.chat(stream=True, max_tokens=20, stream_options={"include_usage": True}))
    await stack.until(lambda: stack.small.calls)
    await restart(stack)
    (replica,) = stack.gateway.parts.lanes[MODEL].pool.replicas
    assert replica.inflight == 1
    wake()
    answer = await task
    assert answer.text.rstrip().endswith("data: [DONE]")
    await stack.until(lambda: not replica.inflight)
    charged = (await stack.line())["charged_tokens"]
    limiter = stack.gateway.parts.limiter
    (account,) = [account for account in limiter.ledger._accounts.values() if account.scope.tpm]
    spent = account.tokens / account.token_unit
    assert charged - 1_000_000 / 60 * 30 <= spent <= charged  # what refilled since is at most that of half a minute
    assert account.parallel == 0


@pytest.mark.parametrize("method", ["key", "flush"])
async def test_what_one_worker_is_told_all_know(start, method):
    """A new key works, and a flushed answer is gone, through whichever worker the next request comes."""
    stack = await start(workers=2)
    if method == "key":
        made = await stack.client.post("/admin/keys", json={"tenant": "acme"}, headers=ADMIN)
        secret = made.json()["secret"]

        async def ask(client):
            return await client.get("/v1/models", headers={"authorization": f"Bearer {secret}"})

        assert {answer.status_code for answer in await each(stack, ask)} == {200}
        gone = await stack.client.delete(f"/admin/keys/{made.json()['id']}", headers=ADMIN)
        assert gone.status_code == 200
        assert {answer.status_code for answer in await each(stack, ask)} == {401}
        return
    first = await each(stack, lambda client: chat(client, temperature=0))
    again = await each(stack, lambda client: chat(client, temperature=0))
    assert [answer.headers["x-tiergate-cache"] for answer in (*first, *again)] == ["miss", *["exact"] * 15]
    await stack.client.post("/admin/cache/flush", json={"all": True}, headers=ADMIN)
    after = await each(stack, lambda client: chat(client, temperature=0))
    assert [answer.headers["x-tiergate-cache"] for answer in after] == ["miss", *["exact"] * 7]


async def test_large_cached_answers_are_sent_as_fast_as_they_are_read(start):
    """Many at once for one worker: each client has its answer, and the worker keeps its connection."""
    stack = await start({"cache": {"exact": {"max_entry": "4MiB"}}}, workers=2)
    body = {"temperature": 0}
    async with httpx.AsyncClient(base_url=stack.url, timeout=60, trust_env=False) as client:
        await chat(client, **body)
        exact = stack.gateway.parts.exact
        await stack.until(lambda: len(exact._shelf) > 0)
        (entry,) = exact._shelf.of(None)
        answer = entry.body.replace(b'"content":"', b'"content":"' + b"x" * 1_000_000)
        await exact.put(replace(entry, body=answer))
        for worker in stack.gateway.workers:
            worker.parts.link.front.clear()
            worker.parts.link.front._max_bytes = 0
        channels = [session.channel for session in stack.gateway.dispatcher.parts.node.sessions]
        for channel in channels:
            channel._max_buffer = 3_000_000
        answers = await asyncio.gather(*(chat(client, **body) for _ in range(100)))
    assert {(found.status_code, len(found.content)) for found in answers} == {(200, len(answer))}
    assert not any(channel.closed for channel in channels)


async def test_counts_beyond_every_reason_reach_the_clients_of_other_workers(start):
    """What an engine says of its cache fits no message between processes: it is cut, and nobody waits for ever."""
    stack = await start(workers=2)
    usage = {"prompt_tokens": 5, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 10**23}}
    said = {"id": "c", "object": "chat.completion", "choices": [{"index": 0, "message": {"content": "x"}}], "usage": usage}
    stack.small.faults.add(status=200, body=said, hang_before_headers=0.3, times=1)
    answers = await asyncio.wait_for(each_at_once(stack, 8), 20)
    assert {answer.status_code for answer in answers} == {200}
    huge = await stack.chat(max_tokens=2**62, n=2)
    assert huge.status_code in {200, 400}


async def each_at_once(stack, count):
    async with AsyncExitStack() as scope:
        clients = [httpx.AsyncClient(base_url=stack.url, timeout=30, trust_env=False) for _ in range(count)]
        opened = [await scope.enter_async_context(client) for client in clients]
        return await asyncio.gather(*(chat(client, temperature=0) for client in opened))


async def test_patience_ends_under_another_dispatcher(start):
    """The dispatcher is replaced while a rider waits: it is told queue_timeout by the next one, in time, and nothing is left."""
    line = await held(start, workers=1)
    late = await line.add("late", greedy=True, headers={"x-stainless-read-timeout": "4"})
    await line.stack.gateway.replace_dispatcher()
    await line.stack.until(lambda: queued(line.stack) == 1)
    answer = await late
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "queue_timeout")
    await line.stack.until(lambda: not queued(line.stack))
    assert sorted(await line.over()) == [200, 503]
    await line.stack.at_rest()
