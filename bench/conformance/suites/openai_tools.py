"""Tools and structured outputs."""

from __future__ import annotations

import json

import pydantic
from openai import pydantic_function_tool
from openai_shared import NAMED, SYNC, TOOLS, ask, said
from record import MODEL


def tools_auto():
    choice = ask('[[tool: get_weather {"city": "Paris"}]]', tools=TOOLS).choices[0]
    assert choice.finish_reason == "tool_calls"
    (call,) = choice.message.tool_calls
    assert (call.type, call.function.name, json.loads(call.function.arguments)) == ("function", "get_weather", {"city": "Paris"})
    assert call.id


def tools_parallel():
    text = '[[tool: get_weather {"city": "Paris"}]] [[tool: get_time {"city": "Rome"}]]'
    calls = ask(text, tools=TOOLS, parallel_tool_calls=True).choices[0].message.tool_calls
    assert [call.function.name for call in calls] == ["get_weather", "get_time"]
    assert len({call.id for call in calls}) == 2


def tools_named():
    (call,) = ask("x", tools=TOOLS, tool_choice=NAMED).choices[0].message.tool_calls
    assert call.function.name == "get_time"
    assert set(json.loads(call.function.arguments)) == {"city"}


def tools_required():
    (call,) = ask("x", tools=TOOLS, tool_choice="required").choices[0].message.tool_calls
    assert call.function.name in ("get_weather", "get_time")


def tools_none():
    assert not ask("x", tools=TOOLS, tool_choice="none").choices[0].message.tool_calls


def tools_streamed():
    text = '[[tool: get_weather {"city": "Paris"}]] [[tool: get_time {"city": "Rome"}]]'
    calls = {}
    for chunk in ask(text, tools=TOOLS, stream=True):
        for call in chunk.choices[0].delta.tool_calls or ():
            name, arguments = calls.get(call.index, ("", ""))
            calls[call.index] = (name + (call.function.name or ""), arguments + (call.function.arguments or ""))
    assert {index: (name, json.loads(arguments)) for index, (name, arguments) in calls.items()} == {
        0: ("get_weather", {"city": "Paris"}), 1: ("get_time", {"city": "Rome"})}  # fmt: skip


def tools_round_trip():
    messages = said('[[tool: get_weather {"city": "Paris"}]]')
    first = SYNC.chat.completions.create(model=MODEL, messages=messages, tools=TOOLS).choices[0].message
    messages += [first, {"role": "tool", "tool_call_id": first.tool_calls[0].id, "content": "sunny"}]
    second = SYNC.chat.completions.create(model=MODEL, messages=messages, tools=TOOLS).choices[0].message
    assert second.content
    assert not second.tool_calls


class Event(pydantic.BaseModel):
    name: str
    day: int
    people: list[str]


def json_object():
    answer = ask("x", response_format={"type": "json_object"})
    assert isinstance(json.loads(answer.choices[0].message.content), dict)


def json_schema():
    schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"], "additionalProperties": False}
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema, "strict": True}}
    assert isinstance(json.loads(ask("x", response_format=form).choices[0].message.content)["ok"], bool)


def parse():
    answer = SYNC.chat.completions.parse(model=MODEL, messages=said("x"), response_format=Event)
    assert isinstance(answer.choices[0].message.parsed, Event)


def parse_tools():
    answer = SYNC.chat.completions.parse(
        model=MODEL, messages=said("x"), tools=[pydantic_function_tool(Event)], tool_choice="required"
    )
    assert isinstance(answer.choices[0].message.tool_calls[0].function.parsed_arguments, Event)


def parse_streamed():
    with SYNC.chat.completions.stream(model=MODEL, messages=said("x"), response_format=Event) as events:
        for _ in events:
            pass
        assert isinstance(events.get_final_completion().choices[0].message.parsed, Event)


CASES = (
    tools_auto,
    tools_parallel,
    tools_named,
    tools_required,
    tools_none,
    tools_streamed,
    tools_round_trip,
    json_object,
    json_schema,
    parse,
    parse_tools,
    parse_streamed,
)
