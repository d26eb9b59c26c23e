"""What backends and clients may send to hurt, and what must not come of it."""

import asyncio
import contextlib
import gzip
import os
import resource
import time

import msgspec
import pytest
from raw_client import Wire

from backends.sse import MAX_COUNT, MAX_EVENT, Tally
from gateway import wire
from gateway.endpoints import Dialect
from gateway.errors import ApiError
from gateway.exchange import Work
from gateway.faults import status_of
from gateway.http1 import connection_bounds
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


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("cached", [50, 101, 10**9, -1])
async def test_no_more_is_cached_than_was_asked(stack, cached, stream):
    """A backend that counts more cached tokens than the prompt has is believed as far as that: log and metrics never say more."""
    usage = {"prompt_tokens": 100, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": cached}}
    answer_once(stack, usage, stream=stream)
    assert (await stack.chat("hi", stream=stream)).status_code == 200
    line = await stack.line()
    assert (line["prompt_tokens"], line["charged_tokens"]) == (100, 105)
    assert line["cached_tokens"] == (min(100, cached) if 0 <= cached <= MAX_COUNT else None)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("prompt", ["1e308", str(10**18), "-1", '"7"'])
async def test_an_absurd_prompt_is_charged_as_estimated(stack, prompt, stream):
    """Usage whose prompt cannot be true is as good as none: what is charged is no less than the prompt's own estimate."""
    answer_once(stack, {"prompt_tokens": msgspec.Raw(prompt.encode()), "completion_tokens": 1}, stream=stream)
    await stack.chat("word " * 400, stream=stream, max_tokens=8)
    assert 400 <= (await stack.line())["charged_tokens"] < 2000


def answer_once(stack, usage, *, stream):
    """The small model's next answer is a word, and counts that."""
    choice = {"index": 0, "delta" if stream else "message": {"role": "assistant", "content": "a"}, "finish_reason": "stop"}
    body = msgspec.json.encode({"choices": [choice], "usage": usage}).decode()
    head = {"content-type": "text/event-stream" if stream else "application/json"}
    stack.small.faults.add(status=200, headers=head, body=f"data: {body}\n\ndata: [DONE]\n\n" if stream else body)


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
    assert status_of({"message": "x", "code": code}) == status


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
    answer = await stack.chat("hi", stream=stream, max_tokens=50, headers={"x-tiergate-deadline-ms": "2000"})
    assert answer.status_code == 504
    line = await stack.line()
    assert line["charged_tokens"] > 0
    await stack.at_rest()


@pytest.mark.parametrize("stream", [False, True])
async def test_a_deadline_that_is_told_a_moment_early_is_over(start, stream):
    """Event loops round their timers: who is told of the end before the clock says so is charged, and asks no other replica."""
    stack = await start(fakes={"s1": Options(), "s2": Options(), "l1": Options()})
    for name in ("s1", "s2"):
        stack.fakes[name].faults.add(hang_before_headers=True)
    stack.gateway.parts.pipeline._forwarder._clock = lambda: time.monotonic() - 0.1
    answer = await stack.chat("hi", stream=stream, max_tokens=50, headers={"x-tiergate-deadline-ms": "1000"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (504, "upstream_timeout")
    line = await stack.line()
    assert (line["attempts"], line["charged_tokens"] > 0) == (1, True)
    await stack.at_rest()


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
    return [station for station in stack.gateway.parts.lanes.values() if len(station.pool.replicas) == 2]


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


LONG_WAITS = ("61", "3600", "9" * 400, "Fri, 31 Dec 9999 23:59:59 GMT", "Fri, 31 Dec 9999 23:59:59 -2300")
SHORT_WAITS = ("60", "7", "0", "soon", "\xb2", "Thu, 01 Jan 1970 00:00:00 GMT", "1 Jan 99999", "Mon, 01 Jan 0001 00:00:00 +2300")


@pytest.mark.parametrize("status", [429, 503])
async def test_a_backends_wait_is_bounded_and_in_both_forms(start, status):
    """Whatever it names: whole seconds and their milliseconds, and above a minute no advice to come back."""
    stack = await start({"breaker": {"failures": 1000}})
    for after in LONG_WAITS + SHORT_WAITS:
        stack.small.faults.rules = []
        stack.small.faults.add(status=status, headers={"retry-after": after})
        answer = await stack.chat("hi")
        assert answer.status_code == (429 if status == 429 else 502)
        seconds = int(answer.headers["retry-after"])
        assert 1 <= seconds <= 31 * 86_400
        assert -(-int(answer.headers["retry-after-ms"]) // 1000) == seconds
        assert (seconds > 60) == (after in LONG_WAITS) == (answer.headers.get("x-should-retry") == "false")


async def test_an_unknown_encoding_is_a_415(stack):
    """A body in an encoding that is not read here is refused for it, not for being no JSON, and told what is read."""
    headers = {"authorization": "Bearer tg-test-key-of-acme", "content-encoding": "br"}
    answer = await stack.client.post("/v1/chat/completions", content=gzip.compress(b'{"model":"small-model"}'), headers=headers)
    assert answer.status_code == 415
    assert answer.headers["accept-encoding"] == "gzip, deflate"


ERROR = 'data: {"error": {"message": "engine dead", "code": 500}}'
BEHIND = {
    "heartbeats": f": ping\n\n: ping\n\n{ERROR}\n\n",
    "crlf": f": ping\r\n\r\n{ERROR}\r\n\r\ndata: [DONE]\r\n\r\n",
    "an id": f"id: 1\nretry: 10\n\nid: 2\n{ERROR}\n\n",
    "a mark": f"\ufeff{ERROR}\n\n",
    "a role": 'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n' + f"{ERROR}\n\n",
    "event": f"event: error\n{ERROR}\n\n",
    "a name": 'event: error\ndata: {"message": "engine dead", "code": 500}\n\n',
}


@pytest.mark.parametrize("case", BEHIND)
async def test_an_error_before_anything_was_said_is_a_first_error(stack, case):
    """What says nothing (heartbeats, a role) hides no error that comes with it: the request moves to the fallback."""
    stack.small.faults.add(status=200, headers={"content-type": "Text/Event-Stream"}, body=BEHIND[case])
    answer = await stack.chat("hi", model="auto", stream=True, headers={"x-tiergate-tier": "small"})
    assert answer.status_code == 200
    assert answer.headers["x-tiergate-route"] == "fallback"


@pytest.mark.parametrize("end", ["\n\n", "\r\n\r\n"])
async def test_a_first_error_that_is_the_clients_keeps_its_status(stack, end):
    """A 400 inside a stream that began with 200 is a 400, whatever its line ends: no retry, and no breaker counts it."""
    body = 'data: {"error": {"message": "bad", "code": 400}}' + end + "data: [DONE]" + end
    stack.small.faults.add(status=200, headers={"content-type": "text/event-stream"}, body=body)
    answer = await stack.chat("hi", stream=True)
    assert answer.status_code == 400
    assert answer.json()["error"]["message"] == "bad"
    assert len(stack.small.calls) - sum(call.method == "GET" for call in stack.small.calls) == 1


@pytest.mark.parametrize("body", [": ping\n\n", "data: null\n\n", "<html></html>\n\n"])
async def test_a_stream_that_says_nothing_is_broken(stack, body):
    """A stream that ends in order, but without an answer, ends with an error event."""
    stack.small.faults.add(status=200, headers={"content-type": "text/event-stream"}, body=body)
    answer = await stack.chat("hi", stream=True)
    assert "stream_broken" in answer.text
    assert (await stack.line())["outcome"] == "broken_stream"


async def test_an_error_event_stands_alone_behind_a_huge_unfinished_event(stack):
    """An event too large to be kept, cut in its middle, is closed by an empty line before the gateway's own error event."""
    start = 'data: {"choices":[{"index":0,"delta":{"content":"x"}}]}\n\n'
    body = start + 'data: {"choices":[{"index":0,"delta":{"content":"' + "y" * (MAX_EVENT + 10)
    stack.small.faults.add(status=200, headers={"content-type": "text/event-stream"}, body=body)
    answer = await stack.chat("hi", stream=True)
    assert answer.text.startswith(body[:-3])
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


async def test_a_lack_of_descriptors_is_no_fault_of_the_replicas(start):
    """When this process has no socket left, requests fail with a 5xx, and no breaker counts it: later all is well."""
    stack = await start({"health": {"interval": "10m"}})
    held = []
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for replica in (replica for s in stack.gateway.parts.lanes.values() for replica in s.pool.replicas):
        await replica.client.close()
        replica.client._closed = False
    await stack.client.get("/health")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(int(name) for name in os.listdir("/dev/fd")) + 1, hard))
    try:
        with contextlib.suppress(OSError):
            while True:
                held.append(os.open("/dev/null", os.O_RDONLY))
        for _ in range(8):
            assert (await stack.chat("hi")).status_code in (502, 503)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for descriptor in held:
            os.close(descriptor)
    pools = [station.pool for station in stack.gateway.parts.lanes.values()]
    assert all(stats.breaker == "closed" for pool in pools for stats in pool.stats())
    await stack.until(lambda: all(pool.ready() for pool in pools))
    assert (await stack.chat("hi")).status_code == 200


async def test_an_error_under_a_200_is_an_error(stack):
    """A body with an error and nothing else moves to the fallback and costs nothing; with an answer beside it it is an answer."""
    stack.small.faults.add(status=200, body={"error": {"message": "CUDA error", "code": 500}})
    answer = await stack.chat("hi", model="auto", headers={"x-tiergate-tier": "small"})
    assert (answer.status_code, answer.headers["x-tiergate-route"]) == (200, "fallback")
    stack.small.faults.clear()
    stack.small.faults.add(status=200, body={"error": {"message": "too long", "code": 400}})
    assert (await stack.chat("hi")).status_code == 400
    assert (await stack.line())["charged_tokens"] == 0


LENIENT = ['\ufeff{"choices":[]}', '{"x":NaN,"choices":[]}', '{"x":"\\ud83d","choices":[]}', '{"usage":{"prompt_tokens":1e999}}']


@pytest.mark.parametrize("body", LENIENT)
async def test_what_only_a_strict_reader_refuses_is_an_answer(stack, body):
    """A byte order mark, a NaN, half a surrogate: the client may read it, so it passes as it is and no breaker counts it."""
    stack.small.faults.add(status=200, body=body)
    answer = await stack.chat("hi")
    assert (answer.status_code, answer.content) == (200, body.encode())


async def test_bytes_that_were_asked_for_are_an_answer(stack):
    """An answer that does not claim to be JSON (embeddings as bytes) passes as it is."""
    stack.small.faults.add(status=200, headers={"content-type": "application/octet-stream"}, body="\x00\x01")
    answer = await stack.client.post(
        "/v1/embeddings", json={"model": "small-model", "input": "x"}, headers={"authorization": "Bearer tg-test-key-of-acme"}
    )
    assert (answer.status_code, answer.content) == (200, b"\x00\x01")


async def test_a_replica_that_refuses_everything_is_left(start):
    """A replica with a wrong key or path is fast, and would draw all requests: after a few its breaker opens."""
    stack = await start(fakes={"s1": Options(), "s2": Options(), "l1": Options()})
    stack.fakes["s1"].faults.add(status=404)
    found = [(await stack.chat(f"hi {n}")).status_code for n in range(40)]
    assert found.count(502) <= 6
    assert found[-10:] == [200] * 10


def test_connections_leave_descriptors_for_the_way_to_the_replicas():
    """However few descriptors there are, the bound with those it turns away keeps a quarter of the free ones."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = len(os.listdir("/dev/fd"))
    try:
        for free in (30, 64, 256, 1024, 4096):
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(used + free, hard), hard))
            most, turned = connection_bounds(0.7)
            assert 0 < most + turned <= 0.78 * free
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_a_backend_that_repeats_its_key_does_not_tell_it(start):
    """What a backend says of its failure reaches the client without the key that it was asked with."""
    stack = await start({"models": {0: {"replicas": {0: {"api_key": "REPLICA-SECRET"}}}}})
    stack.small.faults.add(status=500, body={"error": {"message": "bad key REPLICA-SECRET"}})
    answer = await stack.chat("hi")
    assert answer.status_code == 502
    assert "bad key ***" in answer.text
    assert "REPLICA-SECRET" not in answer.text


@pytest.mark.parametrize("details", ["null", "[]", "7", '{"cached_tokens":"3"}', '{"cached_tokens":0.5}', '{"cached_tokens":[]}'])
def test_details_that_are_wrong_do_not_cost_the_counts(details):
    """A backend that counts, and tells something else of the cache than a number, has counted: the same in a stream and whole."""
    for name, given, made, dialect in (
        ("prompt_tokens_details", "prompt_tokens", "completion_tokens", Dialect.OPENAI),
        ("input_tokens_details", "input_tokens", "output_tokens", Dialect.RESPONSES),
    ):
        usage = f'{{"{given}":5,"{made}":2,"{name}":{details}}}'.encode()
        for storable in (False, True):
            work = Work(storable=storable)
            assert read_usage(b'{"choices":[],"usage":%b}' % usage, work, dialect) == 7
            assert (work.prompt_tokens, work.completion_tokens, work.cached_tokens) == (5, 2, None)
        tally = Tally()
        tally.read(b'data: {"choices":[],"usage":%b}\n\n' % usage)
        assert (tally.prompt_tokens, tally.completion_tokens, tally.cached_tokens) == (5, 2, None)


def test_usage_below_nothing_is_no_usage():
    """A backend that counts less than no tokens has not counted."""
    assert read_usage(b'{"usage":{}}', Work()) is None
    assert read_usage(b'{"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}}', Work()) is None
    assert read_usage(b'{"usage":{"prompt_tokens":-10,"completion_tokens":5}}', Work()) is None
    assert read_usage(b'{"usage":{"prompt_tokens":10,"completion_tokens":-5}}', Work()) is None
    for dialect in (Dialect.MESSAGES, Dialect.RESPONSES):
        assert read_usage(b'{"usage":{"input_tokens":-10,"output_tokens":5}}', Work(), dialect) is None
        assert read_usage(b'{"usage":{"input_tokens":10,"output_tokens":-5}}', Work(), dialect) is None
