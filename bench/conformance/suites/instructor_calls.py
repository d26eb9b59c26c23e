"""Structured outputs with instructor, in each of the modes that a server like OpenAI's can have."""

from __future__ import annotations

import uuid
from collections.abc import Iterable

import instructor
import openai
import pydantic
from record import KEY, MODEL, URL, fault, run

SDK = openai.OpenAI(base_url=URL, api_key=KEY, max_retries=0, timeout=20)


class Person(pydantic.BaseModel):
    name: str
    age: int = pydantic.Field(ge=18)


class Team(pydantic.BaseModel):
    title: str
    members: list[Person]


class Weather(pydantic.BaseModel):
    city: str


def said(text):
    return [{"role": "system", "content": uuid.uuid4().hex}, {"role": "user", "content": text}]


def client(mode, sdk=SDK):
    return instructor.from_openai(sdk, mode=instructor.Mode[mode])


def ask(mode, kind, text="x", **fields):
    return client(mode).chat.completions.create(model=MODEL, messages=said(text), response_model=kind, **fields)


def tools():
    team = ask("TOOLS", Team)
    assert team.members[0].age >= 18


def tools_strict():
    assert ask("TOOLS_STRICT", Team).members[0].age >= 18


def tools_parallel():
    text = '[[tool: Weather {"city": "Paris"}]] [[tool: Person {"name": "Ann", "age": 30}]]'
    found = list(ask("PARALLEL_TOOLS", Iterable[Weather | Person], text, tool_choice="auto"))
    assert found == [Weather(city="Paris"), Person(name="Ann", age=30)]


def json_mode():
    assert ask("JSON", Person, '[[json: {"name": "Ann", "age": 30}]]').age == 30


def json_schema_mode():
    assert ask("JSON_SCHEMA", Team).members[0].age >= 18


def markdown_json():
    assert ask("MD_JSON", Person, '[[say: ```json\n{"name": "Ann", "age": 30}\n```]]').age == 30


def partial_stream():
    text = '[[tool: Team {"title": "us", "members": [{"name": "Ann", "age": 30}]}]]'
    seen = list(client("TOOLS").chat.completions.create_partial(model=MODEL, messages=said(text), response_model=Team))
    assert len(seen) > 1
    assert seen[-1].members[0].name == "Ann"


def iterable_stream():
    text = '[[tool: IterablePerson {"tasks": [{"name": "Ann", "age": 30}, {"name": "Bob", "age": 40}]}]]'
    people = client("TOOLS").chat.completions.create_iterable(model=MODEL, messages=said(text), response_model=Person)
    assert [person.name for person in people] == ["Ann", "Bob"]


def with_completion():
    person, completion = client("TOOLS").chat.completions.create_with_completion(
        model=MODEL, messages=said("x"), response_model=Person
    )
    assert person.age >= 18
    assert completion.usage.total_tokens > 0


def asks_again():
    """An answer that does not fit is sent back with what is wrong, and the next one is taken."""
    assert ask("TOOLS", Person, '[[tool: Person {"name": "Ann", "age": 3}]]', max_retries=2).age >= 18


def errors_pass():
    fault(status=422, body={"error": {"message": "cannot be processed", "type": "x", "param": None, "code": 422}})
    try:
        ask("TOOLS", Person, max_retries=0)
    except Exception as error:  # noqa: BLE001 - instructor wraps the SDK's
        assert "cannot be processed" in str(error), error  # noqa: PT017
        return
    raise AssertionError("no error")


async def asynchronous():
    async with openai.AsyncOpenAI(base_url=URL, api_key=KEY, max_retries=0) as sdk:
        team = await client("TOOLS", sdk).chat.completions.create(model=MODEL, messages=said("x"), response_model=Team)
    assert team.members


CASES = [
    tools, tools_strict, tools_parallel, json_mode, json_schema_mode, markdown_json, partial_stream, iterable_stream,
    with_completion, asks_again, errors_pass, asynchronous,
]  # fmt: skip

if __name__ == "__main__":
    run(CASES)
