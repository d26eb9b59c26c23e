"""/v1/messages and /v1/messages/count_tokens: Anthropic's shapes in, Anthropic's shapes out, errors of ours included."""

import json

import pytest

from gateway.lab.fake import Options

KEY = "tg-test-key-of-acme"
PATH = "/v1/messages"


@pytest.fixture
async def gateway(start):
    """The small model serves messages, the large one does not."""
    changes = {"models": {0: {"endpoints": ["chat", "messages"]}}}
    return await start(changes, fakes={"s1": Options(enable_prompt_tokens_details=True), "l1": Options()})


async def ask(gateway, content="[[say: hello]]", path=PATH, key=KEY, **fields):
    body = {"model": "small-model", "max_tokens": 64, "messages": [{"role": "user", "content": content}], **fields}
    return await gateway.client.post(path, json=body, headers={"x-api-key": key, "anthropic-version": "2023-06-01"})


def events(text):
    parts = [part.split("\n") for part in text.split("\n\n") if part]
    return [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in parts]


@pytest.mark.parametrize("path", [PATH, "/messages", "/v1/messages/"])
async def test_an_answer_is_settled_by_its_usage(gateway, path):
    """What was read from the prefix cache counts as prompt, though Anthropic's input_tokens leave it out."""
    first = (await ask(gateway, "x" * 600, path)).json()["usage"]
    answer = await ask(gateway, "x" * 600, path)
    usage = answer.json()["usage"]
    assert usage["cache_read_input_tokens"] > 0
    prompt = usage["input_tokens"] + usage["cache_read_input_tokens"]
    assert prompt == first["input_tokens"] + first["cache_read_input_tokens"]
    line = await gateway.line()
    assert (line["endpoint"], line["prompt_tokens"], line["completion_tokens"]) == ("messages", prompt, usage["output_tokens"])
    assert line["cached_tokens"] == usage["cache_read_input_tokens"]
    assert line["charged_tokens"] == prompt + usage["output_tokens"]


async def test_a_stream_is_untouched_and_settled(gateway):
    """message_start tells the prompt, message_delta the rest, message_stop is the end, and nothing is added."""
    answer = await ask(gateway, stream=True)
    told = events(answer.text)
    assert [told[0][0], told[-2][0], told[-1][0]] == ["message_start", "message_delta", "message_stop"]
    usage = told[-2][1]["usage"]
    line = await gateway.line()
    assert (line["outcome"], line["completion_tokens"]) == ("ok", usage["output_tokens"])
    assert line["prompt_tokens"] == usage["input_tokens"] + usage["cache_read_input_tokens"]
    assert "stream_options" not in gateway.small.calls[-1].body


async def test_the_salt_is_set_and_no_priority(start):
    """vLLM's messages read `cache_salt` and have no `priority`; a tenant's own of both are deleted."""
    models = {0: {"endpoints": ["messages"], "scheduling_policy": "priority"}}
    gateway = await start({"models": models, "cache": {"prefix": {"isolate": "tenant"}}})
    assert (await ask(gateway, priority=3, cache_salt="theirs", ec_transfer_params={})).status_code == 200
    sent = gateway.small.calls[-1].body
    assert len(sent["cache_salt"]) == 32
    assert not {"priority", "ec_transfer_params"} & set(sent)


async def test_tokens_are_counted_for_nothing(start):
    """count_tokens costs one request and no tokens, also where a minute's tokens could not hold the prompt."""
    gateway = await start({"models": {0: {"endpoints": ["messages"]}}, "tenants": {0: {"tpm": 10}}})
    body = {"model": "small-model", "messages": [{"role": "user", "content": "word " * 100}]}
    answer = await gateway.client.post(f"{PATH}/count_tokens", json=body, headers={"x-api-key": KEY})
    assert answer.json()["input_tokens"] > 100
    line = await gateway.line()
    assert (line["endpoint"], line["charged_tokens"], line["outcome"]) == ("count_tokens", 0, "ok")
    assert gateway.small.calls[-1].path == "/v1/messages/count_tokens"


@pytest.mark.parametrize(
    ("how", "status", "kind", "code"),
    [
        ({"key": "wrong"}, 401, "authentication_error", "invalid_api_key"),
        ({"model": "nope"}, 404, "not_found_error", "model_not_found"),
        ({"model": "large-model"}, 404, "not_found_error", "endpoint_not_served"),
        ({"stream": "yes"}, 400, "invalid_request_error", "invalid_type"),
        ({"max_tokens": 1.5}, 400, "invalid_request_error", "invalid_type"),
    ],
)
async def test_errors_of_ours_have_anthropics_shape(gateway, how, status, kind, code):
    """`{"type": "error", "error": {…}}`, with Anthropic's type, and still the four keys that every error of ours has."""
    answer = await ask(gateway, **how)
    assert answer.status_code == status
    body = answer.json()
    assert body["type"] == "error"
    assert set(body["error"]) == {"message", "type", "param", "code"}
    assert (body["error"]["type"], body["error"]["code"]) == (kind, code)


async def test_a_limit_is_a_rate_limit_error(start):
    """429 is `rate_limit_error` here, whatever resource it was; 405 is in this shape as well."""
    gateway = await start({"models": {0: {"endpoints": ["messages"]}}, "tenants": {0: {"rpm": 1}}})
    assert (await ask(gateway)).status_code == 200
    answer = await ask(gateway)
    assert (answer.status_code, answer.json()["error"]["type"]) == (429, "rate_limit_error")
    assert answer.headers["retry-after-ms"]
    assert (await gateway.client.get(PATH)).json()["type"] == "error"


async def test_a_backends_own_400_passes(gateway):
    """vLLM's error bytes are Anthropic's shape already, and are not touched."""
    answer = await ask(gateway, max_tokens=10**6)
    assert answer.status_code == 400
    assert answer.json()["type"] == "error"
    assert (await gateway.line())["error"] == "backend_error"


@pytest.mark.parametrize("fault", [{"cut_after_tokens": 3}, {"drop_done": True}])
async def test_a_stream_without_message_stop_is_broken(gateway, fault):
    """Cut off, or ended too early: `event: error` in Anthropic's framing is the last event."""
    gateway.small.faults.add(**fault, times=1)
    answer = await ask(gateway, "[[tokens: 9]]", stream=True)
    name, payload = events(answer.text)[-1]
    assert (name, payload["type"], payload["error"]["type"]) == ("error", "error", "api_error")
    assert payload["error"]["code"] == "stream_broken"
    assert (await gateway.line())["outcome"] == "broken_stream"


async def test_an_error_as_the_first_event_moves_on(start):
    """`event: error` before anything else is a failure of that replica, not an answer."""
    gateway = await start({"models": {0: {"endpoints": ["messages"]}}}, fakes={"s1": Options(), "s2": Options(), "l1": Options()})
    body = 'event: error\ndata: {"type":"error","error":{"type":"internal_error","message":"no"}}\n\n'
    stream = {"content-type": "text/event-stream"}
    for name in ("s1", "s2"):
        gateway.fakes[name].faults.add(status=200, body=body, headers=stream, times=1)
    answer = await ask(gateway, stream=True)
    assert answer.status_code == 502
    assert answer.json()["type"] == "error"
    assert (await gateway.line())["attempts"] == 2


async def test_auto_reads_anthropics_parts(start):
    """Images and tools in Anthropic's form are needs; `tool_choice: {type: none}` takes the need for tools away."""
    serves = {"endpoints": ["messages"]}
    both = {0: {**serves, "capabilities": []}, 1: {**serves, "capabilities": ["vision", "tools"]}}
    gateway = await start({"models": both})
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
    tools = [{"name": "look", "input_schema": {"type": "object"}}]
    for fields, model in (
        ({"content": "hi"}, "small-model"),
        ({"content": [image, {"type": "text", "text": "hi"}]}, "large-model"),
        ({"content": [{"type": "tool_result", "tool_use_id": "x", "content": [image]}]}, "large-model"),
        ({"content": "hi", "tools": tools}, "large-model"),
        ({"content": "hi", "tools": tools, "tool_choice": {"type": "none"}}, "small-model"),
    ):
        answer = await ask(gateway, model="auto", **fields)
        assert (answer.status_code, answer.headers["x-tiergate-model"]) == (200, model), answer.text


async def test_anthropics_sdk(gateway):
    """Whole answers, streams, tools, counts, and errors as the SDK's own exceptions."""
    anthropic = pytest.importorskip("anthropic", reason="the anthropic SDK is not installed")
    said = [{"role": "user", "content": "[[say: hello there]]"}]
    async with anthropic.AsyncAnthropic(base_url=gateway.url, api_key=KEY, max_retries=0) as sdk:
        answer = await sdk.messages.create(model="small-model", max_tokens=32, messages=said)
        assert answer.content[0].text == "hello there"
        assert answer.stop_reason == "end_turn"
        async with sdk.messages.stream(model="small-model", max_tokens=32, messages=said) as stream:
            assert "".join([text async for text in stream.text_stream]) == "hello there"
        counted = await sdk.messages.count_tokens(model="small-model", messages=said)
        assert counted.input_tokens > 0
        tool = {"name": "look", "input_schema": {"type": "object", "properties": {"a": {"type": "string"}}}}
        called = await sdk.messages.create(
            model="small-model", max_tokens=99, messages=[{"role": "user", "content": "x"}], tools=[tool],
            tool_choice={"type": "tool", "name": "look"},
        )  # fmt: skip
        assert called.content[-1].name == "look"
        with pytest.raises(anthropic.NotFoundError) as missing:
            await sdk.messages.create(model="nope", max_tokens=1, messages=said)
        assert missing.value.body["error"]["type"] == "not_found_error"
        gateway.small.faults.add(cut_after_tokens=3, times=1)
        with pytest.raises(anthropic.APIStatusError, match="broke"):
            async with sdk.messages.stream(
                model="small-model", max_tokens=64, messages=[{"role": "user", "content": "[[tokens: 20]]"}]
            ) as stream:
                await stream.get_final_message()
    async with anthropic.AsyncAnthropic(base_url=gateway.url, api_key="wrong", max_retries=0) as stranger:
        with pytest.raises(anthropic.AuthenticationError):
            await stranger.messages.create(model="small-model", max_tokens=1, messages=said)


@pytest.mark.parametrize("fault", [{"cut_after_tokens": 3}, {"usage_missing": True}])
async def test_what_was_streamed_is_paid_for(gateway, fault):
    """The zero that a stream's first event tells is no count: what was delivered before the end is charged."""
    gateway.small.faults.add(**fault)
    await ask(gateway, "[[say: one two three four five six]]", stream=True)
    line = await gateway.line()
    assert line["completion_tokens"] >= 3
    assert line["charged_tokens"] == line["prompt_tokens"] + line["completion_tokens"]


TOOL = {"name": "look", "input_schema": {"type": "object", "properties": {"a": {"type": "string"}}}}
KINDS = {
    "text": ("[[say: Grüße, 你好 👋🏽 and good bye]]", {}),
    "calls": ('[[say: let me look]] [[tool: look {"a": "ü"}]]', {"tools": [TOOL]}),
    "reasoning": ("[[reason: they greet me]] [[say: hello]]", {}),
}


def whole(answer):
    """What an answer says, put together by hand if it is a stream."""
    if answer.headers["content-type"].startswith("application/json"):
        body = answer.json()
        return body["id"], body["content"], body["stop_reason"], body["usage"]
    content, message, ending = [], {}, {}
    for name, payload in events(answer.text):
        if name == "message_start":
            message = payload["message"]
        elif name == "content_block_start":
            content.append(
                {**payload["content_block"], **({"input": ""} if payload["content_block"]["type"] == "tool_use" else {})}
            )
        elif name == "content_block_delta":
            _, (field, text) = payload["delta"].items()
            content[-1][field.replace("partial_json", "input")] += text
        elif name == "message_delta":
            ending = payload
    content = [{**block, "input": json.loads(block["input"])} if "input" in block else block for block in content]
    return message["id"], content, ending["delta"]["stop_reason"], ending["usage"]


@pytest.mark.parametrize("fill", [False, True], ids=["json", "sse"])
@pytest.mark.parametrize("read", [False, True], ids=["json", "sse"])
@pytest.mark.parametrize("kind", KINDS)
async def test_a_hit_says_what_the_answer_said(gateway, kind, fill, read):
    """Filled and read in either form, a hit is the same message: its id, every block, why it stopped, its usage."""
    content, fields = KINDS[kind]
    first = await ask(gateway, content, **fields, temperature=0, stream=fill)
    second = await ask(gateway, content, **fields, temperature=0, stream=read)
    assert [answer.headers["x-tiergate-cache"] for answer in (first, second)] == ["miss", "exact"]
    assert len(gateway.small.calls) == 1
    assert whole(second) == whole(first)
    if read:
        assert [name for name, _ in events(second.text)][-2:] == ["message_delta", "message_stop"]


async def test_a_message_that_was_cut_is_not_kept(gateway):
    """max_tokens passes on, in either form, and is asked anew."""
    for stream in (False, True, False):
        answer = await ask(gateway, "[[tokens: 20]]", max_tokens=3, temperature=0, stream=stream)
        assert answer.headers["x-tiergate-cache"] == "miss"
    assert len(gateway.small.calls) == 3
