import asyncio
import json

import pytest

from gateway.lab.fake import Options


def events(text):
    return [part for part in text.split("\n\n") if part]


def content(text):
    chunks = [json.loads(e[6:]) for e in events(text) if e.startswith("data: {")]
    return "".join(c["choices"][0]["delta"].get("content") or "" for c in chunks if c.get("choices"))


async def test_a_stream_passes_without_the_usage_chunk_that_only_we_asked_for(stack):
    """The client sees the backend's events, and no usage chunk when it did not ask for one; the tokens are counted anyway."""
    answer = await stack.chat("[[say: one two three]]", stream=True)
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert content(answer.text) == "one two three"
    assert events(answer.text)[-1] == "data: [DONE]"
    assert '"usage":{' not in answer.text.replace(" ", "")
    assert stack.small.calls[-1].body["stream_options"] == {"include_usage": True}
    line = await stack.line()
    assert line["completion_tokens"] == stack.small.calls[-1].tokens
    assert line["prompt_tokens"] > 0


async def test_a_client_that_asks_for_usage_gets_the_chunk(stack):
    """With include_usage the last chunk before [DONE] has no choices and the usage."""
    answer = await stack.chat("[[say: hi]]", stream=True, stream_options={"include_usage": True})
    last = json.loads(events(answer.text)[-2][6:])
    assert last["choices"] == []
    assert last["usage"]["completion_tokens"] > 0


async def test_completions_streams_are_counted_as_well(stack):
    """/v1/completions gets the same treatment as chat: usage is asked for, counted and hidden."""
    answer = await stack.client.post(
        "/v1/completions",
        json={"model": "small-model", "prompt": "[[say: a b]]", "stream": True},
        headers={"authorization": "Bearer tg-test-key-of-acme"},
    )
    assert answer.status_code == 200
    assert '"usage":{' not in answer.text.replace(" ", "")
    assert (await stack.line())["completion_tokens"] > 0


@pytest.mark.parametrize(
    "fault",
    [{"drop_done": True}, {"usage_missing": True}, {"usage_on_content_chunk": True}, {"malformed_chunk": 2}, {"split": 3}],
)
async def test_an_odd_stream_passes_as_it_is(stack, fault):
    """A missing [DONE], missing usage, usage on a content chunk, one bad line, pieces of three bytes: the text arrives whole."""
    stack.small.faults.add(**fault, times=1)
    answer = await stack.chat("[[say: one two three four]]", stream=True)
    assert answer.status_code == 200
    assert "error" not in answer.text
    assert ("data: [DONE]" in answer.text) is ("drop_done" not in fault)
    line = await stack.line()
    assert line["outcome"] == "ok"
    assert line["charged_tokens"] > 0
    await stack.at_rest()


async def test_a_stream_cut_after_its_first_byte_ends_with_an_error_event(stack):
    """A connection that breaks mid-stream becomes an error event and a proper end without [DONE]; what came is charged."""
    stack.small.faults.add(cut_after_tokens=3, times=1)
    answer = await stack.chat("[[tokens: 20]]", stream=True)
    assert answer.status_code == 200
    last = events(answer.text)[-1]
    error = json.loads(last[6:])["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["code"] == "stream_broken"
    assert "[DONE]" not in answer.text
    line = await stack.line()
    assert line["outcome"] == "broken_stream"
    assert line["charged_tokens"] > 3
    await stack.at_rest()


async def test_an_error_event_of_the_backend_passes_on_and_is_counted(stack):
    """An error event after some tokens is the backend's own: it passes as it is, and the outcome says so."""
    stack.small.faults.add(error_in_stream=2, times=1)
    answer = await stack.chat("[[tokens: 20]]", stream=True)
    assert '"error"' in answer.text
    assert (await stack.line())["outcome"] == "broken_stream"


async def test_a_stream_that_begins_with_an_error_is_an_error(stack):
    """HTTP 200 and then an error event before any token: the client gets a status, from another tier here."""
    stack.small.faults.add(error_in_stream=0, times=1)
    answer = await stack.chat("hi", model="auto", stream=True, headers={"x-tiergate-tier": "small"})
    assert answer.status_code == 200
    assert answer.headers["x-tiergate-route"] == "fallback"


async def test_the_first_token_passes_before_the_second_is_made(start):
    """Tokens are forwarded as they come: the first event reaches the client while the backend still holds the second."""
    stack = await start(fakes={"s1": Options(itl=0.2), "l1": Options()})
    async with stack.client.stream(
        "POST",
        "/v1/chat/completions",
        json={"model": "small-model", "stream": True, "messages": [{"role": "user", "content": "[[tokens: 5]]"}]},
        headers={"authorization": "Bearer tg-test-key-of-acme"},
    ) as answer:
        pieces = answer.aiter_bytes()
        first = await anext(pieces)
        assert first.count(b"data:") <= 2
        assert stack.small.calls[-1].ended_at is None
        async for _ in pieces:
            pass
    await stack.at_rest()


@pytest.mark.parametrize("window", ["queued", "headers", "first_token", "midstream", "unstreamed"])
async def test_a_client_that_leaves_frees_everything(start, window):
    """In each of the four windows, and unstreamed: the upstream ends, nothing stays leased, and what was generated is charged."""
    stack = await start(
        {"models": {0: {"concurrency": {"max": 1}}}}, fakes={"s1": Options(itl=0.02, tokens=500), "l1": Options()}
    )
    if window == "headers":
        stack.small.faults.add(hang_before_headers=True)
    if window == "first_token":
        stack.small.faults.add(hang_before_first_token=True)
    blocker = None
    if window == "queued":
        blocker = asyncio.create_task(stack.chat("[[tokens: 400]]"))
        await stack.until(lambda: stack.small.calls)
    body = {
        "model": "small-model",
        "stream": window != "unstreamed",
        "messages": [{"role": "user", "content": "[[tokens: 400]]"}],
    }
    reader, writer = await asyncio.open_connection("127.0.0.1", stack.gateway.port)
    raw = json.dumps(body).encode()
    writer.write(
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer tg-test-key-of-acme\r\n"
        b"content-length: %d\r\n\r\n" % len(raw) + raw
    )
    if window == "queued":
        await stack.until(lambda: stack.gateway.parts.lanes["small-model"].scheduler.queue.load.requests == 1)
    elif window == "midstream":
        await reader.readuntil(b"data:")
    else:
        await stack.until(lambda: len(stack.small.calls) == 1)
    writer.close()
    await stack.until(lambda: any(line["outcome"] == "client_gone" for line in stack.log.lines))
    line = next(line for line in stack.log.lines if line["outcome"] == "client_gone")
    if window == "queued":
        assert line["charged_tokens"] == 0
        assert len(stack.small.calls) == 1
        blocker.cancel()
    else:
        await stack.until(lambda: stack.small.calls[0].aborted)
        assert line["charged_tokens"] > 0
        assert stack.small.calls[0].tokens < 400
    await stack.until(stack.idle)


@pytest.mark.parametrize("temperature", [0, 1])
async def test_a_client_that_leaves_at_done_has_had_its_answer(stack, temperature):
    """Clients close at [DONE]; that the backend's connection ends a moment later does not make them gone, nor the answer lost."""
    stack.small.faults.add(hang_at_end=0.3)
    body = {
        "model": "small-model",
        "stream": True,
        "temperature": temperature,
        "messages": [{"role": "user", "content": "[[say: hi]]"}],
    }
    raw = json.dumps(body).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", stack.gateway.port)
    writer.write(
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer tg-test-key-of-acme\r\n"
        b"content-length: %d\r\n\r\n" % len(raw) + raw
    )
    await reader.readuntil(b"[DONE]")
    writer.close()
    await stack.until(lambda: bool(stack.log.lines))
    line = await stack.line()
    assert line["outcome"] == "ok"
    assert line["completion_tokens"] > 0
    assert line["charged_tokens"] == line["prompt_tokens"] + line["completion_tokens"]
    await stack.until(stack.idle)
    if not temperature:
        assert (await stack.chat("[[say: hi]]", temperature=0)).headers["x-tiergate-cache"] == "exact"
