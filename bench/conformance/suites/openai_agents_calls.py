"""Agents of OpenAI's own framework, over chat completions and over responses: tools, handoffs, outputs, streams."""

from __future__ import annotations

import uuid

import pydantic
from agents import (
    Agent,
    ItemHelpers,
    MaxTurnsExceeded,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI, UnprocessableEntityError
from record import KEY, MODEL, URL, fault, run

set_tracing_disabled(True)


def agent(kind=OpenAIChatCompletionsModel, **fields):
    sdk = AsyncOpenAI(base_url=URL, api_key=KEY, max_retries=0, timeout=20)
    fields = {"name": "helper", "instructions": uuid.uuid4().hex} | fields
    return Agent(model=kind(model=MODEL, openai_client=sdk), **fields)


class City(pydantic.BaseModel):
    city: str
    country: str


@function_tool
def weather(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


@function_tool
def clock(city: str) -> str:
    """The time of a city."""
    return f"noon in {city}"


ASKS_FOR_BOTH = '[[tool: weather {"city": "Paris"}]] [[tool: clock {"city": "Rome"}]] [[say: done]]'


def returned(result):
    return [item.output for item in result.new_items if item.type == "tool_call_output_item"]


async def text():
    assert (await Runner.run(agent(), "[[say: hello]]")).final_output == "hello"


async def conversation():
    first = await Runner.run(agent(), "[[say: one]]")
    messages = [*first.to_input_list(), {"role": "user", "content": "[[say: two]]"}]
    assert (await Runner.run(agent(), messages)).final_output == "two"


async def tools():
    result = await Runner.run(agent(tools=[weather, clock]), ASKS_FOR_BOTH)
    assert returned(result) == ["sunny in Paris", "noon in Rome"]
    assert result.final_output == "done"


async def tool_required():
    settings = ModelSettings(tool_choice="required")
    result = await Runner.run(agent(tools=[weather], model_settings=settings), "[[say: done]] x")
    assert result.final_output


async def handoff():
    other = agent(name="Italian", handoff_description="speaks Italian")
    result = await Runner.run(agent(handoffs=[other]), "[[tool: transfer_to_italian {}]] [[say: ciao]]")
    assert result.last_agent.name == "Italian"
    assert result.final_output == "ciao"


async def output():
    assert isinstance((await Runner.run(agent(output_type=City), "x")).final_output, City)


async def stream():
    result = Runner.run_streamed(agent(), "[[say: hello there]]")
    deltas = [event.data.delta async for event in result.stream_events()
              if event.type == "raw_response_event" and event.data.type == "response.output_text.delta"]  # fmt: skip
    assert "".join(deltas) == "hello there"
    assert len(deltas) > 1
    assert result.final_output == "hello there"


async def stream_with_tools():
    result = Runner.run_streamed(agent(tools=[weather, clock]), ASKS_FOR_BOTH)
    kinds = [event.item.type async for event in result.stream_events() if event.type == "run_item_stream_event"]
    assert kinds.count("tool_call_output_item") == 2
    assert result.final_output == "done"


async def usage():
    result = await Runner.run(agent(), "[[tokens: 9]]")
    assert result.context_wrapper.usage.output_tokens == 9


async def turns():
    """A tool that is called for ever ends at the limit."""
    looping = agent(tools=[weather], model_settings=ModelSettings(tool_choice="required"), reset_tool_choice=False)
    try:
        await Runner.run(looping, "x", max_turns=3)
    except MaxTurnsExceeded:
        return
    raise AssertionError("it ended")


async def errors():
    fault(status=422, body={"error": {"message": "cannot be processed", "type": "x", "param": None, "code": 422}})
    try:
        await Runner.run(agent(), "x")
    except UnprocessableEntityError:
        return
    raise AssertionError("no error")


async def responses_text():
    result = await Runner.run(agent(OpenAIResponsesModel), "[[say: hello]]")
    assert result.final_output == "hello"
    assert ItemHelpers.text_message_outputs(result.new_items) == "hello"


async def responses_tools():
    result = await Runner.run(agent(OpenAIResponsesModel, tools=[weather, clock]), ASKS_FOR_BOTH)
    assert returned(result) == ["sunny in Paris", "noon in Rome"]


async def responses_stream():
    result = Runner.run_streamed(agent(OpenAIResponsesModel), "[[say: hello there]]")
    assert [event async for event in result.stream_events()]
    assert result.final_output == "hello there"


CASES = [
    text, conversation, tools, tool_required, handoff, output, stream, stream_with_tools, usage, turns, errors,
    responses_text, responses_tools, responses_stream,
]  # fmt: skip

if __name__ == "__main__":
    run(CASES)
