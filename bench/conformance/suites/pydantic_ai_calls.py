"""Agents of Pydantic AI: text, tools, outputs by tool, by schema and by prompt, streams, retries, errors."""

from __future__ import annotations

import uuid

import openai
import pydantic
from pydantic_ai import Agent, ModelRetry, NativeOutput, PromptedOutput, ToolOutput
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from record import KEY, MODEL, URL, fault, run


def agent(**fields):
    """With a client of its own, since each case has a loop of its own; and instructions that nobody had before."""
    sdk = openai.AsyncOpenAI(base_url=URL, api_key=KEY, max_retries=0, timeout=20)
    model = OpenAIChatModel(MODEL, provider=OpenAIProvider(openai_client=sdk))
    return Agent(model, instructions=uuid.uuid4().hex, **fields)


class City(pydantic.BaseModel):
    city: str
    country: str


def weather(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


def clock(city: str) -> str:
    """The time of a city."""
    return f"noon in {city}"


ASKS_FOR_BOTH = '[[tool: weather {"city": "Paris"}]] [[tool: clock {"city": "Rome"}]] [[say: done]]'


def returned(result):
    parts = [part for message in result.all_messages() for part in message.parts]
    return [part.content for part in parts if part.part_kind == "tool-return"]


async def text():
    result = await agent().run("[[say: hello]]")
    assert result.output == "hello"


async def conversation():
    first = await agent().run("[[say: one]]")
    second = await agent().run("[[say: two]]", message_history=first.all_messages())
    assert second.output == "two"
    assert len(second.all_messages()) == 4


async def tools():
    result = await agent(tools=[weather, clock]).run(ASKS_FOR_BOTH)
    assert result.output == "done"
    assert returned(result) == ["sunny in Paris", "noon in Rome"]


async def tool_asks_again():
    calls = []

    def picky(city: str) -> str:
        calls.append(city)
        raise ModelRetry("another one")

    result = await agent(tools=[picky], retries=2).run('[[tool: picky {"city": "Rome"}]] [[say: I give up]]')
    assert (calls, result.output) == (["Rome"], "I give up")


async def output_by_tool():
    result = await agent(output_type=ToolOutput(City)).run("x")
    assert isinstance(result.output, City)


async def output_by_schema():
    result = await agent(output_type=NativeOutput(City)).run("x")
    assert isinstance(result.output, City)


async def output_by_prompt():
    result = await agent(output_type=PromptedOutput(City)).run('[[json: {"city": "Rome", "country": "Italy"}]]')
    assert result.output == City(city="Rome", country="Italy")


async def output_after_tools():
    result = await agent(tools=[weather], output_type=ToolOutput(City)).run('[[tool: weather {"city": "Paris"}]]')
    assert isinstance(result.output, City)
    assert "sunny in Paris" in returned(result)


async def stream():
    async with agent().run_stream("[[say: hello there]]") as result:
        pieces = [piece async for piece in result.stream_text(delta=True, debounce_by=None)]
    assert "".join(pieces) == "hello there"
    assert len(pieces) > 1


async def stream_with_tools():
    async with agent(tools=[weather]).run_stream('[[tool: weather {"city": "Paris"}]]') as result:
        assert await result.get_output()
    assert returned(result) == ["sunny in Paris"]


async def stream_of_an_output():
    async with agent(output_type=ToolOutput(City)).run_stream("x") as result:
        seen = [output async for output in result.stream_output(debounce_by=None)]
    assert isinstance(seen[-1], City)


async def reasoning():
    result = await agent().run("[[reason: let me see]] [[say: yes]]")
    parts = [part for message in result.all_messages() for part in message.parts]
    assert [part.content for part in parts if part.part_kind == "thinking"] == ["let me see"]
    assert result.output == "yes"


async def settings():
    result = await agent().run("[[tokens: 50]]", model_settings={"max_tokens": 5, "temperature": 0.5, "seed": 3})
    usage = result.usage() if callable(result.usage) else result.usage
    assert usage.output_tokens == 5


async def usage_of_a_stream():
    async with agent().run_stream("[[tokens: 9]]") as result:
        assert await result.get_output()
    usage = result.usage() if callable(result.usage) else result.usage
    assert usage.output_tokens == 9


async def errors():
    fault(status=422, body={"error": {"message": "cannot be processed", "type": "x", "param": None, "code": 422}})
    try:
        await agent().run("x")
    except ModelHTTPError as error:
        assert error.status_code == 422, error  # noqa: PT017
        return
    raise AssertionError("no error")


CASES = [
    text, conversation, tools, tool_asks_again, output_by_tool, output_by_schema, output_by_prompt, output_after_tools,
    stream, stream_with_tools, stream_of_an_output, reasoning, settings, usage_of_a_stream, errors,
]  # fmt: skip

if __name__ == "__main__":
    run(CASES)
