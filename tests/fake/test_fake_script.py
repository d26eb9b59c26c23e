"""Replies that were written beforehand, and replies that must fit."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from fake_talk import events, talk, texts
from hypothesis import given
from hypothesis import strategies as st

from gateway.lab.fake import FakeVLLM, Options, Script
from gateway.lab.fake.script import Line, markers

WEATHER = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "minLength": 2},
        "days": {"type": "integer", "minimum": 3},
        "unit": {"enum": ["C", "F"]},
    },
    "required": ["city", "days"],
}
TOOLS = [{"type": "function", "function": {"name": name, "parameters": WEATHER}} for name in ("get_weather", "get_news")]


async def choice(client: httpx.AsyncClient, fake: FakeVLLM, text: str, **fields: Any) -> dict[str, Any]:
    answer = await client.post(f"{fake.url}/chat/completions", json=talk(text, **fields))
    return dict(answer.json()["choices"][0])


async def test_the_prompt_says_what_to_say(fake: FakeVLLM, client: httpx.AsyncClient) -> None:
    """Markers in the last user message set content, reasoning, refusal and finish reason."""
    told = await choice(client, fake, "x [[reason: hm]] [[say: yes]] [[finish: content_filter]]")
    assert (told["message"]["reasoning"], told["message"]["content"], told["finish_reason"]) == ("hm", "yes", "content_filter")
    told = await choice(client, fake, "[[refuse: no way]]")
    assert (told["message"]["refusal"], told["message"]["content"]) == ("no way", None)
    answer = await client.post(f"{fake.url}/chat/completions", json=talk("[[tokens: 7]]"))
    assert answer.json()["usage"]["completion_tokens"] == 7
    assert json.loads((await choice(client, fake, '[[json: {"a": [[1]]}]]'))["message"]["content"]) == {"a": [[1]]}


async def test_reasoning_streams_before_content(fake: FakeVLLM, client: httpx.AsyncClient) -> None:
    """Reasoning deltas come first, under `reasoning`, and the usage counts them."""
    asked = talk("[[reason: think a bit]] [[say: done]]", stream=True, stream_options={"include_usage": True})
    *chunks, usage, _ = events((await client.post(f"{fake.url}/chat/completions", json=asked)).text)
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    assert "".join(delta.get("reasoning", "") for delta in deltas) == "think a bit"
    assert [*deltas[-2], *deltas[-1]] == ["content"]
    assert usage["usage"]["completion_tokens_details"] == {"reasoning_tokens": 3}
    assert usage["usage"]["completion_tokens"] == 3 + 1 + 1


async def test_tool_calls_by_marker(fake: FakeVLLM, client: httpx.AsyncClient) -> None:
    """Two markers are two parallel calls, whole and streamed by index."""
    text = 'do [[tool: get_weather {"city": "Oslo", "grid": [[1]]}]] and [[tool: get_news]]'
    told = await choice(client, fake, text, tools=TOOLS)
    assert told["finish_reason"] == "tool_calls"
    first, second = told["message"]["tool_calls"]
    assert (first["function"]["name"], json.loads(first["function"]["arguments"])) == (
        "get_weather",
        {"city": "Oslo", "grid": [[1]]},
    )
    assert second["function"] == {"name": "get_news", "arguments": "{}"}
    assert first["id"].startswith("chatcmpl-tool-")
    chunks = events((await client.post(f"{fake.url}/chat/completions", json=talk(text, tools=TOOLS, stream=True))).text)
    deltas = [call for chunk in chunks[:-1] for call in chunk["choices"][0]["delta"].get("tool_calls", [])]
    assert [delta["function"]["name"] for delta in deltas if "id" in delta] == ["get_weather", "get_news"]
    arguments = ["".join(delta["function"].get("arguments", "") for delta in deltas if delta["index"] == at) for at in (0, 1)]
    assert json.loads(arguments[0])["city"] == "Oslo"
    assert arguments[1] == "{}"
    assert chunks[-2]["choices"][0]["finish_reason"] == "tool_calls"


async def test_a_conversation_with_tools_ends(client: httpx.AsyncClient, tmp_path: Path) -> None:
    """After a tool's result a marker calls it no more, and a script may tell the two turns apart."""
    file = tmp_path / "script.yaml"
    file.write_text("[{match: wind, turn: user, tool_calls: [{name: get_news}]}, {match: wind, turn: tool, content: strong}]")
    async with FakeVLLM(Options(script=str(file))) as fake:
        for text, name, end in (("[[tool: get_weather]] [[say: sunny]]", "get_weather", "sunny"), ("wind", "get_news", "strong")):
            told = (await choice(client, fake, text, tools=TOOLS))["message"]
            assert told["tool_calls"][0]["function"]["name"] == name
            result = {"role": "tool", "tool_call_id": told["tool_calls"][0]["id"], "content": "20 C"}
            asked = talk(text, tools=TOOLS)
            asked["messages"] += [told, result]
            answer = (await client.post(f"{fake.url}/chat/completions", json=asked)).json()["choices"][0]
            assert (answer["message"]["content"], answer["finish_reason"]) == (end, "stop")


async def test_a_required_tool_is_the_next_one(fake: FakeVLLM, client: httpx.AsyncClient) -> None:
    """`required` takes a tool that the conversation has not called yet, and the first again when all were."""
    asked = talk("x", tools=TOOLS, tool_choice="required")
    for expected in ("get_weather", "get_news", "get_weather"):
        told = (await client.post(f"{fake.url}/chat/completions", json=asked)).json()["choices"][0]["message"]
        assert told["tool_calls"][0]["function"]["name"] == expected
        asked["messages"] += [told, {"role": "tool", "tool_call_id": told["tool_calls"][0]["id"], "content": "ok"}]


async def test_a_required_tool_is_called_with_fitting_arguments(fake: FakeVLLM, client: httpx.AsyncClient) -> None:
    """`required` calls the first tool and ends with `tool_calls`; a named one is called and ends with `stop`; auto calls none."""
    told = await choice(client, fake, "x", tools=TOOLS, tool_choice="required")
    call = told["message"]["tool_calls"][0]["function"]
    arguments = json.loads(call["arguments"])
    assert call["name"] == "get_weather"
    assert len(arguments["city"]) >= 2
    assert arguments["days"] >= 3
    assert arguments["unit"] == "C"
    assert (told["finish_reason"], told["message"]["content"]) == ("tool_calls", "")
    told = await choice(client, fake, "x", tools=TOOLS, tool_choice={"type": "function", "function": {"name": "get_news"}})
    assert (told["message"]["tool_calls"][0]["function"]["name"], told["finish_reason"]) == ("get_news", "stop")
    told = await choice(client, fake, "x", tools=TOOLS)
    assert "tool_calls" not in told["message"]


async def test_structured_outputs_fit(fake: FakeVLLM, client: httpx.AsyncClient) -> None:
    """Every way of asking for JSON gets JSON; a choice gets one of its choices; guided_json is ignored as in vLLM 0.32."""
    form = {"type": "json_schema", "json_schema": {"name": "weather", "schema": WEATHER}}
    for fields in (
        {"response_format": form},
        {"structured_outputs": {"json": WEATHER}},
        {"structured_outputs": {"json": json.dumps(WEATHER)}},
    ):
        said = json.loads((await choice(client, fake, "x", **fields))["message"]["content"])
        assert set(said) == {"city", "days", "unit"}
    for fields in ({"response_format": {"type": "json_object"}}, {"structured_outputs": {"json_object": True}}):
        assert isinstance(json.loads((await choice(client, fake, "x", **fields))["message"]["content"]), dict)
    assert (await choice(client, fake, "x", structured_outputs={"choice": ["left", "right"]}))["message"]["content"] == "left"
    with pytest.raises(ValueError):
        json.loads((await choice(client, fake, "x", guided_json=WEATHER))["message"]["content"])
    async with FakeVLLM(Options(guided_json=True)) as older:
        assert set(json.loads((await choice(client, older, "x", guided_json=WEATHER))["message"]["content"])) == {
            "city",
            "days",
            "unit",
        }


async def test_a_script_answers_by_match(client: httpx.AsyncClient, tmp_path: Path) -> None:
    """The first entry that matches the last user message is the reply; what matches nothing gets made-up words."""
    file = tmp_path / "replies.yaml"
    file.write_text(
        """
- {match: once, content: only once, times: 1}
- {match: weather, reasoning: hm, content: Sunny., finish_reason: length}
- {match: cut, deltas: [a, bc, "", d]}
- {match: call, tool_calls: [{name: f, arguments: {x: 1}}]}
- {match: object, json: {a: 1}}
- {match: both, choices: [{content: one}, {content: two}]}
- {match: long, tokens: 50}
"""
    )
    async with FakeVLLM(Options(script=str(file))) as fake:
        assert (await choice(client, fake, "once"))["message"]["content"] == "only once"
        assert (await choice(client, fake, "once"))["message"]["content"] != "only once"
        told = await choice(client, fake, "the weather?")
        assert (told["message"]["content"], told["message"]["reasoning"], told["finish_reason"]) == ("Sunny.", "hm", "length")
        chunks = events((await client.post(f"{fake.url}/chat/completions", json=talk("cut", stream=True))).text)
        assert [chunk["choices"][0]["delta"]["content"] for chunk in chunks[:-1]] == ["", "a", "bc", "", "d", ""]
        assert (await choice(client, fake, "call"))["message"]["tool_calls"][0]["function"] == {
            "name": "f",
            "arguments": '{"x": 1}',
        }
        assert json.loads((await choice(client, fake, "object"))["message"]["content"]) == {"a": 1}
        body = (await client.post(f"{fake.url}/chat/completions", json=talk("both", n=2))).json()
        assert [told["message"]["content"] for told in body["choices"]] == ["one", "two"]
        body = (await client.post(f"{fake.url}/chat/completions", json=talk("long"))).json()
        assert body["usage"]["completion_tokens"] == 50
        body = (await client.post(f"{fake.url}/completions", json={"model": "fake", "prompt": "a weather report"})).json()
        assert body["choices"][0]["text"] == "Sunny."


def test_a_wrong_script_is_refused(tmp_path: Path) -> None:
    """What a script may not hold is a ValueError that names it."""
    for data in ("text", [7], [{"contents": "typo"}]):
        with pytest.raises(ValueError, match=r"script|reply 0"):
            Script.of(data)
    file = tmp_path / "broken.yaml"
    file.write_text("a: [")
    with pytest.raises(ValueError, match="not YAML"):
        Script.load(str(file))


async def test_max_tokens_cuts_a_scripted_call(fake: FakeVLLM, client: httpx.AsyncClient) -> None:
    """A call that is too long ends in the middle of its arguments, for the reason `length`."""
    told = await choice(client, fake, '[[reason: abcd]][[tool: f {"text": "a long argument"}]]', max_tokens=4)
    assert told["finish_reason"] == "length"
    assert told["message"]["tool_calls"][0]["function"]["arguments"] == '{"text":'[:8]
    told = await choice(client, fake, '[[reason: abcdefgh]][[tool: f {"text": 1}]]', max_tokens=2)
    assert "tool_calls" not in told["message"]


def test_markers_that_are_none() -> None:
    """Brackets that are no marker, or never end, are plain text."""
    for text in ("plain", "[[other: x]]", "[[say: never ends", "[[tokens: many]]", "[[tool: f {"):
        assert markers(text) is None
    assert markers("[[json: {broken]] [[say: on]]") == Line(content="{brokenon")


@given(st.text())
def test_markers_never_raise(text: str) -> None:
    """No text is an error."""
    markers("[[tool: f {" + text + "}]]")
    markers("[[" + text)


async def test_texts_of_a_stream_with_everything(fake: FakeVLLM, client: httpx.AsyncClient) -> None:
    """A refusal streams as deltas of its own and counts as tokens."""
    chunks = events((await client.post(f"{fake.url}/chat/completions", json=talk("[[refuse: never ever]]", stream=True))).text)
    assert "".join(chunk["choices"][0]["delta"].get("refusal", "") for chunk in chunks[:-1]) == "never ever"
    assert texts(chunks) == ""
