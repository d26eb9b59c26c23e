"""The model kind litellm, with the library itself: its provider is a fake of an OpenAI-speaking server on a port of its own."""

import asyncio
import importlib.util
import json
import logging
import warnings
from contextlib import AsyncExitStack

import pytest
import yaml
from gateway_talk import KEY, chat, config_of, payloads, remaining, said, scrape, station, total, usage, wire

from backends.litellm.library import load_litellm
from gateway.app import Gateway
from gateway.config import parse
from gateway.lab.fake import FakeVLLM, Options
from gateway.logs import NullLog

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("litellm") is None, reason="litellm is not installed"),
    pytest.mark.filterwarnings("ignore"),  # the library's own are not ours to mend
]
SECRET = "sk-provider-0123456789abcdef"
AUTH = {"authorization": f"Bearer {KEY}"}
OVERFLOW = {"model": "provider-model"}
PROVIDER = Options(models=("gpt-x",))


@pytest.fixture(scope="module", autouse=True)
def _imported():
    """Once, here: some of its warnings come while it is imported."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        load_litellm()


@pytest.fixture
async def overflow(start):
    """`await overflow()`: a gateway whose `small-model` is a fake vLLM with the provider's `provider-model` to fall back on."""
    async with AsyncExitStack() as scope:

        async def make(*, own=None, model=None, vllm_tier="small", options=PROVIDER, **changes):
            provider = await scope.enter_async_context(FakeVLLM(options))
            vllm = await scope.enter_async_context(FakeVLLM(Options()))
            litellm = {"model": "openai/gpt-x", "api_key": SECRET, "api_base": provider.url, **(own or {})}
            fleet = {"name": "small-model", "tier": vllm_tier, "served_name": "fake", "context": 4096,
                     "fallback": ["provider-model"], "replicas": [{"name": "s1", "url": vllm.url}]}  # fmt: skip
            outside = {"name": "provider-model", "tier": "large", "kind": "litellm", "litellm": litellm,
                       "endpoints": ["chat", "completions", "embeddings"], **(model or {})}  # fmt: skip
            stack = await start({"models": [fleet, outside], **changes}, fakes={"unused": Options()})
            stack.fakes = {"s1": vllm, "provider": provider}
            return stack

        yield make


def asked(stack):
    """What the provider was sent."""
    return [json.loads(entry.raw) for entry in stack.fakes["provider"].calls if entry.method == "POST"]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_chat(overflow, stream):
    """The provider's answer comes back in OpenAI's form, whole or streamed, with its usage, under the provider's own key."""
    stack = await overflow()
    options = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
    answer = await stack.chat("[[say: hello there]]", **OVERFLOW, **options)
    assert answer.status_code == 200, answer.text
    (one,) = said(answer)
    assert (one["content"], one["finish"]) == ("hello there", "stop")
    assert usage(answer) == {"prompt_tokens": 18, "completion_tokens": 4, "total_tokens": 22}
    assert (answer.headers["x-tiergate-model"], answer.headers["x-tiergate-replica"]) == ("provider-model", "litellm")
    if stream:
        assert payloads(answer.text)[-1] == "[DONE]"
    assert [body["model"] for body in asked(stack)] == ["gpt-x"]
    assert (b"authorization", f"Bearer {SECRET}".encode()) in stack.fakes["provider"].calls[-1].raw_headers
    await stack.at_rest()


async def test_a_usage_chunk_that_nobody_asked_for_is_left_out(overflow):
    """The gateway counts with the provider's usage, and shows it only to a client that asked."""
    stack = await overflow()
    answer = await stack.chat("[[say: hello there]]", **OVERFLOW, stream=True)
    assert usage(answer) is None
    assert (await stack.line())["completion_tokens"] == 4


@pytest.mark.parametrize("stream", [False, True])
async def test_a_tool_call(overflow, stream):
    """A function call comes through, name, arguments and id, whole or in pieces."""
    stack = await overflow()
    function = {"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}
    answer = await stack.chat(
        '[[tool: get_weather {"city": "Paris"}]]', **OVERFLOW, stream=stream, tools=[{"type": "function", "function": function}]
    )
    (one,) = said(answer)
    ((call_id, name, arguments),) = one["tools"]
    assert call_id
    assert (name, json.loads(arguments), one["finish"]) == ("get_weather", {"city": "Paris"}, "tool_calls")


@pytest.mark.parametrize("stream", [False, True])
async def test_a_completion(overflow, stream):
    """The older endpoint works as well."""
    stack = await overflow()
    body = {"model": "provider-model", "prompt": "[[say: once more]]", "stream": stream}
    answer = await stack.client.post("/v1/completions", json=body, headers=AUTH)
    assert [one["content"] for one in said(answer)] == ["once more"]
    assert (await stack.line())["completion_tokens"] == 4


@pytest.mark.parametrize("encoding", ["float", "base64"])
async def test_embeddings(overflow, encoding):
    """Vectors come back in the encoding that was asked for."""
    stack = await overflow()
    body = {"model": "provider-model", "input": ["a", "b"], "encoding_format": encoding}
    answer = await stack.client.post("/v1/embeddings", json=body, headers=AUTH)
    vectors = [item["embedding"] for item in answer.json()["data"]]
    assert [type(vector) for vector in vectors] == [str if encoding == "base64" else list] * 2


async def test_a_tenant_does_not_steer_the_library(overflow):
    """Arguments of litellm in a body, an address, a key, a mock, a callback, are not seen by it."""
    stack = await overflow()
    hostile = {
        "api_base": "http://127.0.0.1:1/v1", "base_url": "http://127.0.0.1:1/v1", "api_key": "sk-mine", "mock_response": "mine",
        "custom_llm_provider": "anthropic", "fallbacks": ["openai/other"], "num_retries": 5, "extra_headers": {"x-evil": "1"},
        "extra_body": {"evil": 1}, "metadata": {"evil": 1}, "success_callback": ["langfuse"], "timeout": 0.001, "top_k": 3,
        "service_tier": "priority", "cache_salt": "s", "model_list": [{"model_name": "x"}], "drop_params": False,
    }  # fmt: skip
    answer = await stack.chat("[[say: theirs]]", **OVERFLOW, **hostile, temperature=0.5)
    assert [one["content"] for one in said(answer)] == ["theirs"]
    (body,) = asked(stack)
    assert set(body) == {"model", "messages", "temperature"}
    assert all(name != b"x-evil" for name, _ in stack.fakes["provider"].calls[-1].raw_headers)


async def test_linked_images_are_not_fetched_from_here(overflow):
    """For a provider that takes images as bytes the library would fetch them itself, from inside the operator's network."""
    stack = await overflow(own={"model": "gemini/gemini-2.0-flash"})
    inside = f"{stack.fakes['s1'].url}/secret.png"
    content = [{"type": "text", "text": "what is this?"}, {"type": "image_url", "image_url": {"url": inside}}]
    answer = await stack.chat(**OVERFLOW, messages=[{"role": "user", "content": content}])
    assert answer.status_code >= 400
    assert not [entry.path for entry in stack.fakes["s1"].log if entry.path.endswith(".png")]
    assert inside not in answer.text


@pytest.mark.parametrize("stream", [False, True])
async def test_a_dead_fleet_falls_back_to_the_provider(overflow, stream):
    """When no replica of the fleet can be reached, the provider answers, and the headers say so."""
    stack = await overflow()
    await stack.fakes["s1"].stop()
    for _ in range(2):  # refused at first, known to be down later
        answer = await stack.chat("[[say: from outside]]", stream=stream)
        assert answer.status_code == 200
        assert [one["content"] for one in said(answer)] == ["from outside"]
        assert (answer.headers["x-tiergate-route"], answer.headers["x-tiergate-model"]) == ("fallback", "provider-model")
        await stack.until(lambda: not station(stack).pool.replicas[0].up)
    await stack.at_rest()


@pytest.mark.parametrize("stream", [False, True])
async def test_limits_settle_to_the_providers_usage(overflow, stream):
    """A tenant is charged what the provider counted, not what was reserved."""
    stack = await overflow(plans={"pro": {"tpm": 100_000, "priority": "realtime"}})
    await stack.chat("[[say: hello there]]", **OVERFLOW, stream=stream)
    line = await stack.line()
    assert line["charged_tokens"] == 22
    assert 100_000 - await remaining(stack) <= 22


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("status", "seen", "code"),
    [
        (400, 400, None), (422, 422, None), (413, 413, None), (401, 502, "backend_misconfigured"),
        (402, 502, "backend_misconfigured"), (403, 502, "backend_misconfigured"), (404, 502, "backend_misconfigured"),
        (500, 502, "upstream_error"), (502, 502, "upstream_error"), (503, 502, "upstream_error"), (504, 502, "upstream_error"),
    ],
)  # fmt: skip
async def test_an_error_of_the_provider(overflow, status, seen, code, stream):
    """It becomes what the same status of a vLLM would have become; and never does it show the key."""
    stack = await overflow()
    message = f"no good, with key {SECRET} at http://10.0.0.1/v1?key={SECRET}"
    stack.fakes["provider"].faults.add(
        status=status, body={"error": {"message": message, "type": "x", "param": "p", "code": None}}
    )
    answer = await stack.chat("hi", **OVERFLOW, stream=stream)
    assert answer.status_code == seen
    assert answer.json()["error"]["code"] == code
    assert SECRET not in answer.text
    assert "10.0.0.1" not in answer.text
    if code is None:
        assert answer.json()["error"]["message"].startswith("no good, with key ***")
    assert len(asked(stack)) == 1, "litellm retries nothing itself"
    await stack.at_rest()


async def test_the_providers_429_is_kept(overflow):
    """It reaches the client with its time to come back, and does not count against the provider."""
    stack = await overflow()
    stack.fakes["provider"].faults.add(status=429, headers={"retry-after": "7"})
    for _ in range(6):
        answer = await stack.chat("hi", **OVERFLOW)
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "7")
    assert station(stack, "provider-model").pool.stats()[0].breaker == "closed"


async def test_failures_open_the_breaker(overflow):
    """A provider that keeps failing is left alone, as a replica would be."""
    stack = await overflow()
    stack.fakes["provider"].faults.add(status=500)
    for _ in range(5):
        assert (await stack.chat("hi", **OVERFLOW)).status_code == 502
    assert station(stack, "provider-model").pool.stats()[0].breaker == "open"


async def test_a_prompt_that_is_too_long_moves_up(overflow):
    """The provider's context error is known as one: a pinned model's client is told, and under `auto` a dearer model answers."""
    stack = await overflow(model={"tier": "small"}, vllm_tier="large", options=Options(models=("gpt-x",), max_model_len=64))
    pinned = await stack.chat("word " * 200, **OVERFLOW)
    assert (pinned.status_code, pinned.json()["error"]["code"]) == (400, "context_length_exceeded")
    moved = await stack.chat("word " * 200, model="auto", headers={"x-tiergate-tier": "small"})
    assert (moved.status_code, moved.headers["x-tiergate-route"]) == (200, "context")
    assert moved.headers["x-tiergate-model"] == "small-model"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_provider_that_cannot_be_reached(overflow, stream):
    """A refused connection is a failed attempt, and the client is told so in our words."""
    stack = await overflow(own={"api_base": "http://127.0.0.1:1/v1"})
    answer = await stack.chat("hi", **OVERFLOW, stream=stream)
    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "upstream_error")
    assert "no connection to the provider" in answer.json()["error"]["message"]


@pytest.mark.parametrize("fault", [{"close_before_headers": True}, {"cut_after_tokens": 0}, {"error_in_stream": 0}])
async def test_a_stream_that_fails_before_its_first_token(overflow, fault):
    """Nothing was shown, so the fallback may still answer: here there is none, and the client has a plain error."""
    stack = await overflow()
    stack.fakes["provider"].faults.add(**fault)
    answer = await stack.chat("hi", **OVERFLOW, stream=True)
    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "upstream_error")


@pytest.mark.parametrize("fault", [{"cut_after_tokens": 2}, {"error_in_stream": 2}, {"malformed_chunk": 2}])
async def test_a_stream_that_breaks(overflow, fault):
    """After its first token a broken stream ends with an error event, and without `[DONE]`."""
    stack = await overflow()
    stack.fakes["provider"].faults.add(**fault)
    answer = await stack.chat("hi", **OVERFLOW, stream=True)
    assert answer.status_code == 200
    events = payloads(answer.text)
    assert events[-1]["error"]["code"] == "stream_broken"
    assert "[DONE]" not in events
    assert (await stack.line())["outcome"] == "broken_stream"
    await stack.at_rest()


@pytest.mark.parametrize(
    ("stream", "fault", "code"),
    [
        (False, {"hang_before_headers": True}, "upstream_timeout"),
        (True, {"hang_before_headers": True}, "upstream_timeout"),
        (True, {"hang_before_first_token": True}, "upstream_timeout"),
    ],
)
async def test_a_provider_that_is_silent(overflow, stream, fault, code):
    """The deadlines of the model hold, whatever the library thinks of time; what was under way is ended."""
    stack = await overflow(model={"timeouts": {"first_token": "100ms", "total": "2s" if stream else "200ms"}})
    stack.fakes["provider"].faults.add(**fault)
    answer = await stack.chat("hi", **OVERFLOW, stream=stream)
    assert (answer.status_code, answer.json()["error"]["code"]) == (504, code)
    await stack.until(lambda: stack.fakes["provider"].calls[-1].aborted)
    await stack.at_rest()


async def test_a_stream_that_falls_silent(overflow):
    """The deadline between tokens ends it with an error event."""
    stack = await overflow(model={"timeouts": {"between_tokens": "100ms"}})
    stack.fakes["provider"].faults.add(slow=0.4)
    answer = await stack.chat("[[tokens: 9]]", **OVERFLOW, stream=True)
    assert payloads(answer.text)[-1]["error"]["code"] == "stream_timeout"
    await stack.until(lambda: stack.fakes["provider"].calls[-1].aborted)


@pytest.mark.parametrize("window", ["unstreamed", "before the first token", "in the stream", "in a text stream"])
async def test_a_client_that_leaves(overflow, window):
    """Its request at the provider is ended at once, whenever it leaves, and everything is given back."""
    stack = await overflow()
    fault = {"slow": 0.02} if "in " in window else {"hang_before_headers": True}
    stack.fakes["provider"].faults.add(**fault)
    body = chat("[[tokens: 4000]]", **OVERFLOW, stream=window != "unstreamed")
    path = "/v1/chat/completions"
    if window == "in a text stream":
        body, path = {"model": "provider-model", "prompt": "[[tokens: 4000]]", "stream": True}, "/v1/completions"
    async with wire(stack.gateway.port) as client:
        client.send(body, path=path)
        if "in " in window:
            assert await client.head() == 200
            await client.piece()
        else:
            await stack.until(lambda: bool(asked(stack)))
    await stack.until(lambda: stack.fakes["provider"].calls[-1].aborted)
    await stack.until(stack.idle)
    assert (await stack.line())["outcome"] == "client_gone"


@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer_is_cached(overflow, stream):
    """What the provider said is kept as any other answer: the second asker, whole or streamed, costs nothing."""
    stack = await overflow()
    for wanted, form in (("miss", stream), ("exact", stream), ("exact", not stream)):
        answer = await stack.chat("[[say: hello there]]", **OVERFLOW, temperature=0, stream=form)
        assert answer.headers["x-tiergate-cache"] == wanted
        assert [one["content"] for one in said(answer)] == ["hello there"]
    assert len(asked(stack)) == 1


async def test_the_key_is_nowhere(overflow, caplog, capfd):
    """Neither in a log at any level, nor on a page, nor in a metric, whether the provider serves or refuses."""
    caplog.set_level(logging.DEBUG)
    stack = await overflow(own={"params": {"organization": "org-very-secret"}})
    for fault in (None, {"status": 401, "body": {"error": {"message": f"Incorrect API key: {SECRET}"}}}, {"status": 500}):
        if fault:
            stack.fakes["provider"].faults.add(**fault, times=1)
        await stack.chat("hi", **OVERFLOW)
    pages = [(await stack.client.get(path, headers={"authorization": "Bearer tg-admin-key"})).text
             for path in ("/metrics", "/ready", "/admin/status")]  # fmt: skip
    told = [record.getMessage() for record in caplog.records]
    for text in (*pages, json.dumps(stack.log.lines), *told, *capfd.readouterr()):
        assert SECRET not in text
        assert "org-very-secret" not in text
    assert total(await scrape(stack), "tiergate_requests_total", model="provider-model") == 3


async def test_a_model_that_litellm_does_not_know(start, tmp_path):
    """A name without a known provider keeps the replica down, rather than failing every request."""
    bad = {"name": "bad", "tier": "large", "kind": "litellm", "litellm": {"model": "nobody-knows-this"}}
    good = {"name": "good", "tier": "small", "kind": "litellm", "litellm": {"model": "openai/gpt-x"}}
    tree = yaml.safe_load(config_of({}, {"models": [bad, good], "keys": {"path": str(tmp_path / "keys.json")}}))
    gateway = Gateway(parse(yaml.safe_dump(tree)), NullLog())
    await gateway.start()
    try:
        async with asyncio.timeout(30):
            while not gateway.parts.lanes["good"].pool.capacity():
                await asyncio.sleep(0.01)
            await gateway.parts.monitor.check_once()
        assert not gateway.parts.lanes["bad"].pool.capacity()
    finally:
        await gateway.stop()
