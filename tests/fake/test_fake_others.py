"""What /v1/responses and /v1/messages make of a request that chat would say otherwise."""

import json

import httpx
import pytest

from gateway.lab.fake import FakeVLLM

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
ASKED = '[[tool: look {"city": "Paris"}]] [[say: done]]'


@pytest.mark.parametrize("result", ["sunny", [{"type": "text", "text": "sunny"}]], ids=["text", "blocks"])
@pytest.mark.parametrize("more", [[], [{"type": "text", "text": "[[say: and then]]"}]], ids=["alone", "with a text"])
async def test_a_message_with_a_tools_result(
    fake: FakeVLLM, client: httpx.AsyncClient, result: object, more: list[object]
) -> None:
    """It ends the tool's turn, so that the conversation goes on and ends; a text beside it is what the user says next."""
    use = {"type": "tool_use", "id": "t1", "name": "look", "input": {"city": "Paris"}}
    told = [{"type": "tool_result", "tool_use_id": "t1", "content": result}, *more]
    talk = [
        {"role": "user", "content": ASKED},
        {"role": "assistant", "content": [use]},
        {"role": "user", "content": told},
    ]
    tools = [{"name": "look", "input_schema": CITY}]
    body = {"model": "fake", "max_tokens": 64, "messages": talk, "tools": tools}
    answer = (await client.post(f"{fake.url}/messages", json=body)).json()
    assert [(block["type"], block.get("text")) for block in answer["content"]] == [("text", "and then" if more else "done")]
    first = (await client.post(f"{fake.url}/messages", json=body | {"messages": talk[:1]})).json()
    assert [block["type"] for block in first["content"]] == ["text", "tool_use"]


async def test_a_response_of_a_schema(fake: FakeVLLM, client: httpx.AsyncClient) -> None:
    """`text.format` names it, with the schema beside the name."""
    form = {"type": "json_schema", "name": "place", "schema": CITY, "strict": True}
    body = {"model": "fake", "input": "x", "text": {"format": form}}
    answer = (await client.post(f"{fake.url}/responses", json=body)).json()
    assert list(json.loads(answer["output"][0]["content"][0]["text"])) == ["city"]


@pytest.mark.parametrize("text", [None, "x", {}, {"format": None}, {"format": "x"}, {"format": {"type": "text"}}])
async def test_a_response_of_no_schema(fake: FakeVLLM, client: httpx.AsyncClient, text: object) -> None:
    """Anything else is text."""
    answer = await client.post(f"{fake.url}/responses", json={"model": "fake", "input": "[[say: hello]]", "text": text})
    assert answer.json()["output"][0]["content"][0]["text"] == "hello"
