"""The OpenAI SDK against the fake: what it parses, streams, retries and reports."""

import json
from collections.abc import AsyncIterator

import openai
import pytest

from gateway.lab.fake import FakeVLLM

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        },
    }
]


@pytest.fixture
async def sdk(fake: FakeVLLM) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=fake.url, api_key="unused", max_retries=2) as sdk:
        yield sdk


def said(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


async def test_a_chat(sdk: openai.AsyncOpenAI) -> None:
    """A whole answer parses into the SDK's types."""
    answer = await sdk.chat.completions.create(model="fake", messages=said("[[say: hello]]"))
    assert answer.choices[0].message.content == "hello"
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 3


async def test_a_stream(sdk: openai.AsyncOpenAI) -> None:
    """A stream ends by itself, with the usage last."""
    chunks = [
        chunk
        async for chunk in await sdk.chat.completions.create(
            model="fake", messages=said("[[say: hello there]]"), stream=True, stream_options={"include_usage": True}
        )
    ]
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == "hello there"
    assert chunks[-1].usage is not None


async def test_tools_and_structured_outputs(sdk: openai.AsyncOpenAI) -> None:
    """A required call streams into arguments that parse; a JSON schema is filled."""
    async with sdk.chat.completions.stream(model="fake", messages=said("x"), tools=TOOLS, tool_choice="required") as stream:
        completion = await stream.get_final_completion()
    call = completion.choices[0].message.tool_calls[0]  # type: ignore[index]
    assert call.function.name == "get_weather"
    assert json.loads(call.function.arguments) == {"city": "the"}
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": TOOLS[0]["function"]["parameters"]}}
    answer = await sdk.chat.completions.create(model="fake", messages=said("x"), response_format=form)  # type: ignore[call-overload]
    assert json.loads(answer.choices[0].message.content) == {"city": "the"}


async def test_embeddings_and_models(sdk: openai.AsyncOpenAI) -> None:
    """The SDK asks for base64 by itself and decodes it; models are listed, a single one is not found."""
    answer = await sdk.embeddings.create(model="fake", input=["a", "b"])
    assert [len(item.embedding) for item in answer.data] == [64, 64]
    assert [model.id async for model in sdk.models.list()] == ["fake"]
    with pytest.raises(openai.NotFoundError):
        await sdk.models.retrieve("fake")


async def test_errors_and_retries(fake: FakeVLLM, sdk: openai.AsyncOpenAI) -> None:
    """A refused request is the SDK's own exception with vLLM's message; a passing 503 is retried."""
    with pytest.raises(openai.NotFoundError, match="does not exist"):
        await sdk.chat.completions.create(model="nope", messages=said("x"))
    with pytest.raises(openai.BadRequestError, match="temperature must be non-negative"):
        await sdk.chat.completions.create(model="fake", messages=said("x"), temperature=-1)
    fake.log.clear()
    fake.faults.add(status=503, headers={"retry-after-ms": "1"}, times=1)
    await sdk.chat.completions.create(model="fake", messages=said("x"))
    assert [entry.status for entry in fake.calls][-2:] == [503, 200]


async def test_completions(sdk: openai.AsyncOpenAI) -> None:
    """The older endpoint parses too, whole and streamed."""
    answer = await sdk.completions.create(model="fake", prompt="[[say: once]]", logprobs=1)
    assert answer.choices[0].text == "once"
    stream = await sdk.completions.create(model="fake", prompt="[[say: once more]]", stream=True)
    assert "".join([chunk.choices[0].text async for chunk in stream]) == "once more"


async def test_a_broken_stream_is_an_error(fake: FakeVLLM, sdk: openai.AsyncOpenAI) -> None:
    """An error event raises in the SDK, and so does a stream that was cut."""
    fake.faults.add(error_in_stream=2, times=1)
    with pytest.raises(openai.APIError, match="Internal server error"):
        async for _ in await sdk.chat.completions.create(model="fake", messages=said("x"), stream=True):
            pass
    fake.faults.add(cut_after_tokens=2, times=1)
    with pytest.raises(openai.APIConnectionError):
        async for _ in await sdk.chat.completions.create(model="fake", messages=said("x"), stream=True):
            pass
