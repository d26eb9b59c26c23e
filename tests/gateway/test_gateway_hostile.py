"""What backends and clients may send to hurt, and what must not come of it."""

import asyncio
import gzip
import os
import resource

import msgspec
import pytest
from raw_client import Wire

from backends.sse import MAX_COUNT, MAX_EVENT, Tally
from gateway import wire
from gateway.errors import ApiError
from gateway.exchange import Work
from gateway.forward import _status_of
from gateway.keyfile import KeyFileError, read
from gateway.lab.fake import Options
from gateway.relay import read_usage


@pytest.mark.parametrize("tokens", [MAX_COUNT + 1, 2**52, 10**400, -5])
def test_absurd_usage_is_not_believed(tokens):
    """A backend that counts more tokens than a request can have counts nothing, streamed or not, and less than none is none."""
    usage = b'{"prompt_tokens":%d,"completion_tokens":1}' % tokens
    work = Work()
    assert read_usage(b'{"usage":%b}' % usage, work) in (None, 1)
    assert 0 <= work.prompt_tokens <= MAX_COUNT
    tally = Tally()
    tally.read(b'data: {"choices":[],"usage":%b}\n\n' % usage)
    assert tally.prompt_tokens is None


@pytest.mark.parametrize("number", ["1e308", "1.5E+300", "9e299", "1e-300"])
def test_a_body_full_of_slow_numbers_is_refused(number):
    """Tens of thousands of numbers with huge exponents would stall the loop for seconds: they are a 400 before they are read."""
    with pytest.raises(ApiError) as refused:
        wire.parse(b'{"model":"m","x":[' + b",".join([number.encode()] * 50_000) + b"]}")
    assert refused.value.status == 400


def test_a_long_body_with_few_of_them_is_read():
    """A large prompt, and a list of ordinary numbers, pass."""
    body = {"model": "m", "x": [0.25] * 20_000, "y": "1e308 " * 100, "z": [1e300] * 50}
    assert wire.parse(msgspec.json.encode(body)).model == "m"


@pytest.mark.parametrize(
    ("code", "status"), [("429", 429), (503, 503), ("²", 500), ("4" * 5000, 500), (10**30, 500), (True, 500), (None, 500)]
)
def test_the_code_of_an_error_event_is_a_status_or_nothing(code, status):
    """Only a number from 400 to 599 stands for a status; anything else is a 500."""
    assert (
        _status_of(msgspec.json.encode({"error": {"message": "x", "code": code}} if code != 10**30 else {"error": "x"})) == status
    )


async def test_a_first_error_event_in_small_pieces_is_an_error(stack):
    """An error event that arrives a few bytes at a time still moves the request to the fallback."""
    stack.small.faults.add(error_in_stream=0, split=3)
    answer = await stack.chat("hi", model="auto", stream=True, headers={"x-tiergate-tier": "small"})
    assert answer.status_code == 200
    assert answer.headers["x-tiergate-route"] == "fallback"


async def test_a_fallbacks_answer_is_not_kept_for_the_model_that_was_asked(start):
    """When a pinned model is back after an outage, it answers itself: the other model's answer was for the outage only."""
    stack = await start({"models": {0: {"fallback": ["large-model"]}}})
    stack.small.faults.add(status=500)
    during = await stack.chat("hi", temperature=0)
    assert during.headers["x-tiergate-model"] == "large-model"
    stack.small.faults.clear()
    after = await stack.chat("hi", temperature=0)
    assert (after.headers["x-tiergate-model"], after.headers["x-tiergate-cache"]) == ("small-model", "miss")


@pytest.mark.parametrize("stream", [False, True])
async def test_a_deadline_of_ones_own_is_no_way_around_the_price(start, stream):
    """A client whose own deadline ends a request that a replica had is charged as one that left it."""
    stack = await start(fakes={"s1": Options(), "l1": Options()})
    stack.small.faults.add(hang_before_headers=True)
    answer = await stack.chat("hi", stream=stream, max_tokens=50, headers={"x-tiergate-deadline-ms": "300"})
    assert answer.status_code == 504
    line = await stack.line()
    assert line["charged_tokens"] > 0
    assert stack.idle()


def test_a_pipe_is_no_key_file(tmp_path):
    """A key file that never ends is refused instead of waited for."""
    os.mkfifo(tmp_path / "keys.json")
    with pytest.raises(KeyFileError):
        read(tmp_path / "keys.json")


@pytest.mark.parametrize("temperature", [0, 1])
async def test_a_connection_that_breaks_after_done_has_given_its_answer(start, temperature):
    """Once [DONE] was passed on, how the connection ends is no failure: no second call, no error event."""
    stack = await start(fakes={"s1": Options(), "s2": Options(), "l1": Options()})
    for name in ("s1", "s2"):
        stack.fakes[name].faults.add(hang_at_end=True)
    task = asyncio.create_task(stack.chat("[[say: hi]]", stream=True, temperature=temperature))
    await stack.until(lambda: any(s.pool.replicas[0].inflight or s.pool.replicas[1].inflight for s in two(stack)))
    await stack.until(lambda: any(call.tokens for name in ("s1", "s2") for call in stack.fakes[name].calls))
    await asyncio.gather(stack.fakes["s1"].stop(), stack.fakes["s2"].stop())
    answer = await task
    assert answer.text.rstrip().endswith("data: [DONE]")
    assert sum(len(stack.fakes[name].calls) for name in ("s1", "s2")) == 1
    assert (await stack.line())["outcome"] == "ok"


def two(stack):
    """The stations with two replicas."""
    return [station for station in stack.gateway.parts.stations.values() if len(station.pool.replicas) == 2]


async def test_a_stream_that_ends_in_order_without_an_end_is_broken(stack):
    """Tokens, then a proper end of the body, but neither a reason to finish nor [DONE]: an error event."""
    stack.small.faults.add(
        status=200,
        headers={"content-type": "text/event-stream"},
        body='data: {"choices":[{"index":0,"delta":{"content":"x"}}]}\n\n',
    )
    answer = await stack.chat("hi", stream=True)
    assert "stream_broken" in answer.text
    assert "[DONE]" not in answer.text


async def test_answers_are_asked_for_uncompressed(stack):
    """The backend is told that only plain bytes are understood."""
    await stack.chat("hi")
    assert stack.small.calls[-1].headers["accept-encoding"] == "identity"


async def test_a_kept_429_says_when_to_come_back(stack):
    """A backend's 429 that is kept has both forms of retry-after, a second where it named none."""
    stack.small.faults.add(status=429)
    answer = await stack.chat("hi")
    assert (answer.status_code, answer.headers["retry-after"], answer.headers["retry-after-ms"]) == (429, "1", "1000")


async def test_a_compressed_body_is_a_415(stack):
    """A gzip body is refused for its encoding, not for being no JSON."""
    headers = {"authorization": "Bearer tg-test-key-of-acme", "content-encoding": "gzip"}
    answer = await stack.client.post("/v1/chat/completions", content=gzip.compress(b'{"model":"small-model"}'), headers=headers)
    assert answer.status_code == 415


async def test_an_error_behind_a_heartbeat_is_a_first_error(stack):
    """A comment says nothing: an error event that comes with it still moves the request to the fallback."""
    body = ': ping\n\n: ping\n\ndata: {"error": {"message": "engine dead", "code": 500}}\n\n'
    stack.small.faults.add(status=200, headers={"content-type": "text/event-stream"}, body=body)
    answer = await stack.chat("hi", model="auto", stream=True, headers={"x-tiergate-tier": "small"})
    assert answer.status_code == 200
    assert answer.headers["x-tiergate-route"] == "fallback"


async def test_an_error_event_stands_alone_behind_a_huge_unfinished_event(stack):
    """An event too large to be kept, cut in its middle, is closed by an empty line before the gateway's own error event."""
    start = 'data: {"choices":[{"index":0,"delta":{"content":"x"}}]}\n\n'
    body = start + 'data: {"choices":[{"index":0,"delta":{"content":"' + "y" * (MAX_EVENT + 10)
    stack.small.faults.add(status=200, headers={"content-type": "text/event-stream"}, body=body)
    answer = await stack.chat("hi", stream=True)
    assert answer.text.startswith(body)
    last = answer.text.rstrip("\n").rpartition("\n\n")[2]
    assert msgspec.json.decode(last.removeprefix("data: "))["error"]["code"] == "stream_broken"


async def test_what_no_backend_counted_is_told_as_it_was_charged(stack):
    """A stream cut before its usage is logged and counted with the tokens that its tenant paid for."""
    stack.small.faults.add(cut_after_tokens=3)
    answer = await stack.chat("[[say: one two three four five six seven]]", stream=True)
    assert "stream_broken" in answer.text
    line = await stack.line()
    assert line["completion_tokens"] == 3
    assert line["prompt_tokens"] + line["completion_tokens"] == line["charged_tokens"]
    metrics = (await stack.client.get("/metrics")).text
    assert f'tiergate_tokens_total{{direction="completion"}} {line["completion_tokens"]}' in metrics.replace(".0", "")


@pytest.mark.parametrize(
    "alias", ["/v1/admin/status", "/openai/admin/status", "/openai/v1/admin/status", "/v1/health", "/v1/metrics"]
)
async def test_the_gateways_own_paths_have_one_form(stack, alias):
    """What is not of the model API answers under its plain path alone."""
    answer = await stack.client.get(alias, headers={"authorization": "Bearer tg-admin-key"})
    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "unknown_url"


async def test_one_connection_too_many_is_told_so(stack):
    """Past its bound the gateway answers 503 with a wait and closes; those who are connected go on, and a free place is taken."""
    assert (await stack.chat("hi")).status_code == 200
    stack.gateway._server.max_connections = len(stack.gateway._server.connections)
    async with Wire(stack.gateway.port) as late:
        answer = await late.answer()
        assert answer.status == 503
        assert answer.error["code"] == "too_many_connections"
        assert answer.headers["retry-after"] == "1"
        assert await late.reader.read() == b""
    assert (await stack.chat("hi again")).status_code == 200
    await stack.client.aclose()
    async with Wire(stack.gateway.port) as next_one:
        await stack.until(lambda: len(stack.gateway._server.connections) <= 1)
        next_one.send(b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n")
        assert (await next_one.answer()).status in (200, 503)


async def test_a_lack_of_descriptors_is_no_fault_of_the_replicas(stack):
    """When this process has no socket left, requests fail with a 5xx, and no breaker counts it: later all is well."""
    held = []
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for replica in (replica for s in stack.gateway.parts.stations.values() for replica in s.pool.replicas):
        replica.client._drop_idle()
    await stack.client.get("/health")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(int(name) for name in os.listdir("/proc/self/fd")) + 1, hard))
    try:
        for _ in range(10):
            try:
                held.append(os.open("/dev/null", os.O_RDONLY))
            except OSError:
                break
        for _ in range(8):
            assert (await stack.chat("hi")).status_code in (502, 503)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for descriptor in held:
            os.close(descriptor)
    pools = [station.pool for station in stack.gateway.parts.stations.values()]
    assert all(stats.breaker == "closed" for pool in pools for stats in pool.stats())
    await stack.until(lambda: all(pool.ready() for pool in pools))
    assert (await stack.chat("hi")).status_code == 200
