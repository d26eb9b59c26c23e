"""A client that leaves, in each window: the engine stops making tokens, and the gateway holds nothing for it any more."""

import asyncio
import contextlib
import uuid

import httpx
import pytest
from e2e_fleet import headers_of
from e2e_programs import until

WANTED = 800  # tokens of an answer that nobody waits for


def body_of(model, **more):
    asked = {"model": model, "messages": [{"role": "user", "content": "Count."}], "ignore_eos": True, "max_tokens": WANTED}
    return {**asked, "stream": True, **more}


@pytest.fixture
async def client(fleet):
    fleet.settle()
    async with httpx.AsyncClient(base_url=fleet.gateway.root, timeout=600, trust_env=False) as client:
        yield client


def sending(client, body):
    return client.stream("POST", "/v1/chat/completions", json=body, headers=headers_of("acme"))


async def met(condition, what):
    return await asyncio.to_thread(until, condition, what)


async def stopped(fleet, before, figures, window):
    """Nothing runs any more, the token count stands still, and far fewer tokens were made than asked for."""
    latency = await met(lambda: fleet.small.running == 0 and fleet.small.waiting == 0, "the engine is idle")
    figures[f"abort {window}: until the engine's gauges are 0, s"] = round(latency, 2)
    await met(fleet.idle, "the gateway is idle")
    made = fleet.small.made
    await asyncio.sleep(2)  # long enough for dozens of tokens, were there anybody to make them
    assert fleet.small.made == made
    assert made - before < WANTED / 2
    assert (await client_works(fleet)).status_code == 200


async def client_works(fleet):
    body = body_of("narrow", stream=False, max_tokens=2)
    return await asyncio.to_thread(fleet.post, body)


async def leave(task):
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def drain(client, body):
    async with sending(client, body) as answer:
        await answer.aread()


async def test_window_1_queued_in_the_gateway(fleet, client, figures):
    """Who leaves while queued for a slot is never sent: the engine counts no prompt of it."""
    before = fleet.small.made
    async with sending(client, body_of("narrow")) as holder:
        held = holder.aiter_lines()  # kept: a dropped iterator closes its stream
        await anext(held)
        prompts = fleet.small.sample("vllm:prompt_tokens_total")
        waiting = asyncio.create_task(drain(client, body_of("narrow")))
        await met(lambda: fleet.gauge("tiergate_queue_depth", model="narrow") == 1, "one is queued")
        await leave(waiting)
        await met(lambda: fleet.gauge("tiergate_queue_depth", model="narrow") == 0, "none is queued")
        assert fleet.gauge("tiergate_inflight_requests", replica="n1") == 1
    await stopped(fleet, before, figures, "1, queued in the gateway")
    alone = fleet.small.sample("vllm:prompt_tokens_total") - prompts
    assert 0 < alone < 50, "only the request that `stopped` sends at its end was read"


async def test_window_2_before_the_first_token(fleet, client, figures):
    """Who leaves while the engine reads its prompt costs no more than a step of it."""
    before = fleet.small.made
    long = body_of("small", messages=[{"role": "user", "content": f"{uuid.uuid4()} " + "word " * 900}], max_tokens=50)
    waiting = asyncio.create_task(drain(client, long))
    await met(lambda: fleet.gauge("tiergate_inflight_requests", replica="s1") == 1 or waiting.done(), "it is sent")
    assert not waiting.done()
    await leave(waiting)
    await stopped(fleet, before, figures, "2, before the first token")
    assert fleet.small.made - before <= 4, "nothing but a step, and the two tokens of the request that came after"


async def test_window_2_queued_in_the_engine(fleet, client, figures):
    """Who leaves while it waits inside the engine never runs there."""
    before = fleet.small.made
    async with contextlib.AsyncExitStack() as holders:
        held = []
        for _ in range(8):  # --max-num-seqs
            holder = await holders.enter_async_context(sending(client, body_of("small")))
            held.append(holder.aiter_lines())
            await anext(held[-1])
        waiting = asyncio.create_task(drain(client, body_of("small")))
        await met(lambda: fleet.small.waiting == 1, "it waits in the engine")
        await leave(waiting)
        await met(lambda: fleet.small.waiting == 0, "nothing waits in the engine")
        assert fleet.small.running == 8
    made = fleet.small.made - before
    assert made < 8 * WANTED, "the streams were still running"
    await stopped(fleet, fleet.small.made, figures, "2, queued in the engine, and eight streams with it")


async def test_window_3_in_the_middle_of_a_stream(fleet, client, figures):
    """Who leaves a running stream stops the engine."""
    before, finished = fleet.small.made, fleet.small.sample("vllm:request_success_total")
    async with sending(client, body_of("small")) as answer:
        lines = answer.aiter_lines()
        for _ in range(10):
            assert await anext(lines) != "data: [DONE]"
        assert fleet.gauge("tiergate_inflight_requests", replica="s1") == 1
        request_id = answer.headers["x-request-id"]
    await stopped(fleet, before, figures, "3, mid-stream")
    assert fleet.small.sample("vllm:request_success_total") == finished + 1, "vLLM counts only the request that came after"
    line = await asyncio.to_thread(fleet.line, request_id)
    assert line["outcome"] == "client_gone"


async def test_window_3_without_a_stream(fleet, client, figures):
    """Who leaves while the whole answer is being made stops the engine as well."""
    before = fleet.small.made
    waiting = asyncio.create_task(
        client.post("/v1/chat/completions", json=body_of("small", stream=False), headers=headers_of("acme"))
    )
    await met(lambda: fleet.small.running == 1, "it runs")
    await leave(waiting)
    await stopped(fleet, before, figures, "3, unstreamed")


async def test_window_4_between_the_last_token_and_done(fleet, client, figures):
    """Who leaves once the last token is there, without reading the end, leaves nothing behind."""
    before = fleet.small.made
    async with sending(client, body_of("small", max_tokens=5)) as answer:
        async for line in answer.aiter_lines():
            if '"finish_reason":"length"' in line:
                break
            assert line != "data: [DONE]"
        request_id = answer.headers["x-request-id"]
    await stopped(fleet, before, figures, "4, after the last token")
    line = await asyncio.to_thread(fleet.line, request_id)
    assert line["outcome"] in ("ok", "client_gone")
    assert line["completion_tokens"] == 5 or line["outcome"] == "client_gone"


async def test_the_clients_deadline(fleet, client, figures):
    """`x-tiergate-deadline-ms` ends the work in the engine, too, and the client is told."""
    before = fleet.small.made
    headers = headers_of("acme", {"x-tiergate-deadline-ms": "1000"})
    answer = await client.post("/v1/chat/completions", json=body_of("small", stream=False), headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (504, "upstream_timeout")
    await stopped(fleet, before, figures, "by the client's deadline")
