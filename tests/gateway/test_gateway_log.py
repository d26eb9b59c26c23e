"""The request log: one line for every request, with who, what, where, why and how much."""

import asyncio
import json

import pytest
from gateway_talk import ADMIN_KEY, GREEDY, KEY, ask, chat, hold, lines, posts, raw_request, wire

from gateway.lab.fake import Options

FIELDS = {
    "ts", "request_id", "tenant", "key", "method", "endpoint", "status", "outcome", "stream", "requested", "model", "tier",
    "route", "score", "cache", "replica", "attempts", "prompt_tokens", "completion_tokens", "cached_tokens", "charged_tokens",
    "queue_ms", "ttft_ms", "duration_ms", "overhead_ms",
}  # fmt: skip


async def test_a_line_says_it_all(stack):
    """A streamed answer's line: key, model, replica, tokens, times, and the id that went upstream."""
    answer = await ask(stack, chat("[[tokens: 9]]", stream=True, **GREEDY))
    line = (await lines(stack, 1))[0]
    call = posts(stack.small)[0]
    assert line.keys() >= FIELDS
    assert line.items() >= {
        "tenant": "acme", "key": "k1", "method": "POST", "endpoint": "chat", "status": 200, "outcome": "ok", "stream": True,
        "replica": "s1", "attempts": 1,
    }.items()  # fmt: skip
    assert (line["prompt_tokens"], line["completion_tokens"]) == (call.prompt_tokens, call.tokens)
    assert line["charged_tokens"] == call.prompt_tokens + call.tokens
    assert line["request_id"] == call.headers["x-request-id"] == answer.headers["x-request-id"]
    assert 0 <= line["ttft_ms"] <= line["duration_ms"]
    assert line["overhead_ms"] >= 0
    assert "error" not in line


@pytest.mark.parametrize(
    ("path", "method", "endpoint", "status"),
    [
        ("/v1/models", "GET", "models", 200),
        ("/v1/models/none", "GET", "models", 404),
        ("/v1/models", "POST", "models", 405),
        ("/v1/cache/ce-0", "DELETE", "cache", 404),
        ("/v1/chat/completions", "GET", "chat", 405),
        ("/admin/status", "GET", "admin", 401),
    ],
)
async def test_the_other_calls_have_a_line_too(stack, path, method, endpoint, status):
    """Model list, cache, admin and refused methods: one line each, with endpoint and status."""
    answer = await ask(stack, b"", path=path, method=method)
    line = (await lines(stack, 1))[0]
    assert answer.status_code == status
    assert (line["endpoint"], line["status"], line["method"]) == (endpoint, status, method)


async def test_a_refusal_names_its_code(stack):
    """Errors of ours are in the line by their code; who could not be told has no tenant."""
    await ask(stack, chat(), key="wrong")
    await ask(stack, b"not json")
    await ask(stack, chat(model="nope"))
    log = await lines(stack, 3)
    assert [line["error"] for line in log] == ["invalid_api_key", "invalid_json", "model_not_found"]
    assert [line["tenant"] for line in log] == [None, "acme", "acme"]
    assert [line["status"] for line in log] == [401, 400, 404]


async def test_what_never_became_a_request_has_a_line(stack):
    """Broken HTTP is answered, logged and counted as endpoint `wire`."""
    async with wire(stack.gateway.port) as one:
        one.writer.write(b"this is no HTTP\r\n\r\n")
        assert await one.head() == 400
    line = (await lines(stack, 1))[0]
    assert (line["endpoint"], line["status"], line["error"], line["outcome"]) == ("wire", 400, "bad_http", "client_error")


async def test_the_clients_own_id_is_echoed_and_kept(stack):
    """x-request-id of the client comes back and is in the line beside ours; ours goes upstream."""
    answer = await ask(stack, chat(), headers={"x-request-id": "mine-123"})
    line = (await lines(stack, 1))[0]
    assert answer.headers["x-request-id"] == "mine-123"
    assert line["client_request_id"] == "mine-123"
    assert posts(stack.small)[0].headers["x-request-id"] == line["request_id"] != "mine-123"


@pytest.mark.parametrize("hostile", ["x" * 129, "a\tb", "\u00e9", ""])
async def test_a_hostile_id_is_not_echoed(stack, hostile):
    """Too long, unprintable, not ASCII or empty: ours takes its place."""
    answer = await ask(stack, chat(), headers={"x-request-id": hostile})
    assert answer.headers["x-request-id"].startswith("req-")
    assert "client_request_id" not in (await lines(stack, 1))[0]


async def test_every_id_is_its_own(stack):
    """No two requests have the same id."""
    answers = await asyncio.gather(*(ask(stack, chat()) for _ in range(30)))
    assert len({answer.headers["x-request-id"] for answer in answers}) == 30


async def test_a_departed_client_has_a_line(start):
    """A request whose client left is logged once, as client_gone, with what it cost."""
    stack = await start(fakes={"s1": Options(itl=0.01), "l1": Options()})
    async with wire(stack.gateway.port) as one:
        one.send(chat("[[tokens: 200]]", stream=True))
        await one.head()
        await one.piece()
    line = (await lines(stack, 1))[0]
    await stack.until(stack.idle)
    assert (line["outcome"], line["status"], line["replica"]) == ("client_gone", 200, "s1")
    assert line["charged_tokens"] > 0
    assert len(stack.log.lines) == 1


async def test_a_client_that_leaves_before_its_body_is_complete_has_a_line(stack):
    """Half a body and then nothing: one line, nothing sent upstream, nothing leased."""
    async with wire(stack.gateway.port) as one:
        one.writer.write(raw_request(chat())[:-1])
        await stack.until(lambda: stack.gateway.parts.edge.running == 1)
    line = (await lines(stack, 1))[0]
    assert line["outcome"] == "client_gone"
    assert posts(stack.small) == []
    await stack.at_rest()


async def test_retries_show_as_attempts(start):
    """Two attempts, one line; the replica named is the one that answered."""
    fakes = {"s1": Options(), "s2": Options(), "l1": Options()}
    stack = await start({"models": {0: {"balance": {"kind": "round_robin"}}}}, fakes=fakes)
    stack.fakes["s1"].faults.add(status=503, times=1)
    for _ in range(3):
        assert (await ask(stack, chat())).status_code == 200
    log = await lines(stack, 3)
    assert sorted(line["attempts"] for line in log) == [1, 1, 2]
    assert [line["replica"] for line in log if line["attempts"] == 2] == ["s2"]


async def test_queued_time_is_told_and_is_no_overhead(start):
    """A request that waited for a slot says how long, and its overhead leaves the wait out."""
    stack = await start({"models": {0: {"concurrency": {"max": 1}}}})
    wake = hold(stack.small)
    tasks = [asyncio.create_task(ask(stack, chat("a")))]
    await stack.until(lambda: posts(stack.small))
    tasks.append(asyncio.create_task(ask(stack, chat("b"))))
    await stack.until(lambda: stack.gateway.parts.lanes["small-model"].scheduler.queue.load.requests == 1)
    loop = asyncio.get_running_loop()
    before = loop.time()
    await stack.until(lambda: loop.time() > before + 0.1)
    wake()
    await asyncio.gather(*tasks)
    line = stack.log.lines[-1]
    assert line["queue_ms"] >= 90
    assert line["overhead_ms"] <= line["duration_ms"] - line["queue_ms"] + 1


async def test_no_content_is_logged(stack):
    """Prompts and answers are in no line."""
    await ask(stack, chat("the secret prompt [[say: the secret answer]]", **GREEDY))
    await ask(stack, chat("the secret prompt", model="the-model-that-is-none"))
    text = json.dumps(await lines(stack, 2))
    assert "secret" not in text
    assert ADMIN_KEY not in text


async def test_a_client_that_leaves_at_done_costs_no_overhead(start):
    """What the engine needed is no overhead, also when the client is gone before the engine has ended the stream."""
    stack = await start(fakes={"s1": Options(ttft=0.3), "l1": Options()})
    stack.small.faults.add(hang_at_end=True, times=1)
    body = {"model": "small-model", "messages": [{"role": "user", "content": "hello"}], "temperature": 0, "stream": True}

    def asking():
        return stack.client.stream("POST", "/v1/chat/completions", json=body, headers={"authorization": f"Bearer {KEY}"})

    async with asking() as first, asking() as second:  # the second one keeps the work going when the first one leaves
        assert second.headers["x-tiergate-cache"] == "shared"
        async for line in first.aiter_lines():
            if line == "data: [DONE]":
                break
        await first.aclose()
        await stack.until(lambda: bool(stack.log.lines))
    line = stack.log.lines[0]
    assert (line["outcome"], line["cache"]) == ("ok", "miss")
    assert line["overhead_ms"] <= line["duration_ms"] - 300 + 1
