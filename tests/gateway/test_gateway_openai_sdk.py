"""The OpenAI SDK through the gateway: what it parses, streams, retries and reports."""

import hashlib
import json

import openai
import pytest

from gateway.lab.fake import Options

KEY = "tg-test-key-of-acme"
NARROW = "tg-test-key-of-one-model"
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        },
    }
]


def said(text):
    return [{"role": "user", "content": text}]


@pytest.fixture
async def gateway(start):
    """Two tiers; a second tenant may call the small model alone, twice a minute."""
    sha256 = hashlib.sha256(NARROW.encode()).hexdigest()
    tenant = {"name": "narrow", "plan": "pro", "models": ["small-model"], "keys": [{"id": "n", "sha256": sha256, "rpm": 2}]}
    return await start({"tenants": {1: tenant}}, fakes={"s1": Options(enable_prompt_tokens_details=True), "l1": Options()})


@pytest.fixture
async def sdk(gateway):
    async with openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key=KEY, max_retries=0) as sdk:
        yield sdk


async def test_a_chat(sdk):
    """A whole answer parses into the SDK's types, with the request id where the SDK looks for it."""
    answer = await sdk.chat.completions.create(model="small-model", messages=said("[[say: hello]]"))
    assert answer.choices[0].message.content == "hello"
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.completion_tokens > 0
    assert answer._request_id.startswith("req-")
    raw = await sdk.chat.completions.with_raw_response.create(model="auto", messages=said("hi"))
    assert raw.headers["x-tiergate-model"] in ("small-model", "large-model")
    assert raw.parse().choices[0].message.content


@pytest.mark.parametrize("asks", [False, True])
async def test_a_stream(sdk, asks):
    """A stream ends by itself; the usage chunk is there when it was asked for, and only then."""
    options = {"stream_options": {"include_usage": True}} if asks else {}
    stream = await sdk.chat.completions.create(model="small-model", messages=said("[[say: hello there]]"), stream=True, **options)
    chunks = [chunk async for chunk in stream]
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == "hello there"
    assert [bool(chunk.usage) for chunk in chunks] == [False] * (len(chunks) - asks) + [True] * asks
    assert all(chunk.choices for chunk in chunks[: len(chunks) - asks])


async def test_tools_and_structured_outputs(sdk):
    """A required call streams into arguments that parse; a whole one has them too; a JSON schema is filled."""
    async with sdk.chat.completions.stream(
        model="small-model", messages=said("x"), tools=TOOLS, tool_choice="required"
    ) as stream:
        completion = await stream.get_final_completion()
    whole = await sdk.chat.completions.create(model="small-model", messages=said("x"), tools=TOOLS, tool_choice="required")
    for answer in (completion, whole):
        call = answer.choices[0].message.tool_calls[0]
        assert call.function.name == "get_weather"
        assert set(json.loads(call.function.arguments)) == {"city"}
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": TOOLS[0]["function"]["parameters"]}}
    answer = await sdk.chat.completions.create(model="small-model", messages=said("x"), response_format=form)
    assert set(json.loads(answer.choices[0].message.content)) == {"city"}


async def test_several_choices(sdk):
    """n=2 gives two choices, whole and streamed."""
    answer = await sdk.chat.completions.create(model="small-model", messages=said("x"), n=2)
    assert [choice.index for choice in answer.choices] == [0, 1]
    stream = await sdk.chat.completions.create(model="small-model", messages=said("x"), n=2, stream=True)
    assert {choice.index async for chunk in stream for choice in chunk.choices} == {0, 1}


async def test_logprobs(sdk):
    """Log probabilities come through, each token with its alternatives."""
    answer = await sdk.chat.completions.create(
        model="small-model", messages=said("[[say: a b c]]"), logprobs=True, top_logprobs=2
    )
    tokens = answer.choices[0].logprobs.content
    assert "".join(token.token for token in tokens).startswith("a b c")
    assert all(len(token.top_logprobs) == 2 for token in tokens)


async def test_completions(sdk):
    """The older endpoint, whole and streamed, with several prompts."""
    answer = await sdk.completions.create(model="small-model", prompt=["one", "two"], max_tokens=4)
    assert [choice.index for choice in answer.choices] == [0, 1]
    stream = await sdk.completions.create(model="small-model", prompt="[[say: hello there]]", stream=True)
    assert "".join([chunk.choices[0].text async for chunk in stream]) == "hello there"


@pytest.mark.parametrize("form", ["base64", "float", None])
async def test_embeddings(sdk, form):
    """The SDK asks for base64 by itself and decodes it; floats and explicit base64 pass as they are; all are the same numbers."""
    given = {} if form is None else {"encoding_format": form}
    answer = await sdk.embeddings.create(model="small-model", input=["a", "b"], **given)
    assert [item.index for item in answer.data] == [0, 1]
    kind = str if form == "base64" else list
    assert all(isinstance(item.embedding, kind) for item in answer.data)
    plain = await sdk.embeddings.create(model="small-model", input=["a", "b"])
    if form != "base64":
        assert answer.data[0].embedding == pytest.approx(plain.data[0].embedding, rel=1e-6)


async def test_models(sdk):
    """The list iterates, and each of its names can be retrieved."""
    names = [model.id async for model in sdk.models.list()]
    assert names == ["auto", "small-model", "large-model"]
    for name in names:
        assert (await sdk.models.retrieve(name)).id == name
    with pytest.raises(openai.NotFoundError):
        await sdk.models.retrieve("mistralai/nothing")


async def refused(call, kind, status, code, **fields):
    """The call fails with exactly this exception of the SDK, which carries our code and the request id."""
    with pytest.raises(kind) as caught:
        await call
    error = caught.value
    assert type(error) is kind
    assert (error.status_code, error.code) == (status, code)
    assert error.request_id
    for name, value in fields.items():
        assert getattr(error, name) == value


async def test_errors_are_the_sdks_own(gateway, sdk):
    """Each refusal is the exception that the SDK's users catch for it."""
    create = sdk.chat.completions.create
    await refused(create(model="nope", messages=said("x")), openai.NotFoundError, 404, "model_not_found", param="model")
    too_many = create(model="small-model", messages=said("x"), n=1000)
    await refused(too_many, openai.BadRequestError, 400, "too_many_choices", type="invalid_request_error")
    wrong = sdk.with_options(api_key="sk-wrong")
    await refused(wrong.models.list(), openai.AuthenticationError, 401, "invalid_api_key", type="authentication_error")
    narrow = sdk.with_options(api_key=NARROW)
    large = narrow.chat.completions.create(model="large-model", messages=said("x"))
    await refused(large, openai.PermissionDeniedError, 403, "model_not_allowed")
    await refused(create(model="large-model", messages=said("x" * 10), max_tokens=10**6), openai.BadRequestError, 400, "400")
    embedding = sdk.embeddings.create(model="large-model", input="x")
    await refused(embedding, openai.NotFoundError, 404, "endpoint_not_served")
    gateway.small.faults.add(status=500)
    await refused(create(model="small-model", messages=said("x")), openai.InternalServerError, 502, "upstream_error")


async def test_a_rate_limit_is_the_sdks_own(gateway, sdk):
    """The third request of a key with two a minute: RateLimitError, with the time to wait in the headers that the SDK obeys."""
    narrow = sdk.with_options(api_key=NARROW)
    for _ in range(2):
        await narrow.chat.completions.create(model="small-model", messages=said("x"))
    with pytest.raises(openai.RateLimitError) as caught:
        await narrow.chat.completions.create(model="small-model", messages=said("x"))
    headers = caught.value.response.headers
    assert caught.value.code == "rate_limit_exceeded"
    assert 0 < int(headers["retry-after-ms"]) <= 30_000
    assert headers["x-ratelimit-limit-requests"] == "2"
    assert headers["x-ratelimit-remaining-requests"] == "0"


async def test_the_sdk_retries_what_passes(gateway, sdk):
    """A 503 with a short retry-after is waited for by the SDK, and the second attempt answers."""
    gateway.small.faults.add(
        status=429, headers={"retry-after": "0", "retry-after-ms": "1"}, body={"error": {"message": "busy"}}, times=1
    )
    again = sdk.with_options(max_retries=2)
    answer = await again.chat.completions.create(model="small-model", messages=said("[[say: at last]]"))
    assert answer.choices[0].message.content == "at last"


async def test_an_error_within_a_stream_is_raised(gateway, sdk):
    """A stream that breaks after its first tokens is an APIError in the SDK, not a short answer."""
    gateway.small.faults.add(cut_after_tokens=3, times=1)
    stream = await sdk.chat.completions.create(model="small-model", messages=said("[[tokens: 20]]"), stream=True)
    chunks = aiter(stream)
    assert (await anext(chunks)).choices
    with pytest.raises(openai.APIError, match="broke"):
        assert not [chunk async for chunk in chunks]


async def test_azures_client(gateway):
    """AzureOpenAI puts the model into the path and the key into `api-key`."""
    async with openai.AsyncAzureOpenAI(azure_endpoint=gateway.url, api_key=KEY, api_version="2024-10-21", max_retries=0) as sdk:
        answer = await sdk.chat.completions.create(model="small-model", messages=said("[[say: hello]]"))
        assert answer.choices[0].message.content == "hello"
    assert gateway.small.calls[-1].body["model"] == "fake"
