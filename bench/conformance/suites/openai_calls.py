"""What programs do with the OpenAI SDK, in whichever of its major versions runs this."""

from __future__ import annotations

import asyncio
import json
import time
import uuid

import openai
import pydantic
from openai import pydantic_function_tool
from record import BACKENDS, KEY, MODEL, NARROW_KEY, URL, Skip, fault, log, run

SYNC = openai.OpenAI(base_url=URL, api_key=KEY, max_retries=0, timeout=20)


def tool(name, **properties):
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {"type": "function", "function": {"name": name, "parameters": schema}}


CITY = {"type": "string"}
TOOLS = [tool("get_weather", city=CITY), tool("get_time", city=CITY)]
NAMED = {"type": "function", "function": {"name": "get_time"}}
BUSY = {"status": 429, "headers": {"retry-after-ms": "1"}, "body": {"error": {"message": "busy", "code": 429}}}


def said(text):
    """A prompt that nobody sent before, so that no cache has its answer."""
    return [{"role": "system", "content": uuid.uuid4().hex}, {"role": "user", "content": text}]


def ask(text, sdk=SYNC, **fields):
    return sdk.chat.completions.create(model=MODEL, messages=said(text), **fields)


def asynchronous():
    return openai.AsyncOpenAI(base_url=URL, api_key=KEY, max_retries=0, timeout=20)


def text_of(chunks):
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


def refused(kind, call):
    found = None
    try:
        call()
    except openai.APIError as error:
        found = error
    assert type(found) is kind, f"{type(found).__name__} {found}"
    return found


# chat


def chat():
    answer = ask("[[say: hello there]]")
    assert answer.object == "chat.completion"
    assert answer.choices[0].message.role == "assistant"
    assert answer.choices[0].message.content == "hello there"
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens > 0


def chat_unicode():
    text = 'é ü 漢字 🙂 \u2028 \\ " end'
    assert ask(f"[[say: {text}]]").choices[0].message.content == text
    assert text_of(ask(f"[[say: {text}]]", stream=True)) == text


def chat_with_every_role():
    messages = [
        {"role": "system", "content": "be brief"},
        {"role": "developer", "content": "very"},
        {"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]},
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "get_time", "arguments": '{"city": "Oslo"}'}}]},
        {"role": "tool", "tool_call_id": "c1", "content": "noon"},
        {"role": "user", "content": "[[say: thanks]]", "name": "me"},
    ]  # fmt: skip
    answer = SYNC.chat.completions.create(model=MODEL, messages=messages, tools=TOOLS)
    assert answer.choices[0].message.content == "thanks"


def chat_with_an_image():
    parts = [{"type": "text", "text": "[[say: a cat]]"},
             {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 4000}}]  # fmt: skip
    answer = SYNC.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": parts}])
    assert answer.choices[0].message.content == "a cat"


def chat_max_tokens():
    for name in ("max_tokens", "max_completion_tokens"):
        answer = ask("[[tokens: 50]]", **{name: 5})
        assert answer.choices[0].finish_reason == "length"
        assert answer.usage.completion_tokens == 5


def chat_stop():
    answer = ask("[[say: one two three]]", stop=["two"])
    assert answer.choices[0].message.content == "one "
    assert answer.choices[0].finish_reason == "stop"


def chat_several_choices():
    answer = ask("x", n=3, temperature=1)
    assert [choice.index for choice in answer.choices] == [0, 1, 2]


def chat_logprobs():
    answer = ask("[[say: a b c]]", logprobs=True, top_logprobs=2)
    tokens = answer.choices[0].logprobs.content
    assert "".join(token.token for token in tokens).startswith("a b c")
    assert all(len(token.top_logprobs) == 2 and token.logprob <= 0 for token in tokens)


def chat_extra_body():
    answer = ask("x", extra_body={"ignore_eos": True, "top_k": 4}, max_tokens=9)
    assert answer.usage.completion_tokens == 9


def chat_reasoning():
    message = ask("[[reason: let me see]] [[say: yes]]").choices[0].message
    told = message.model_extra
    assert (told.get("reasoning") or told.get("reasoning_content"), message.content) == ("let me see", "yes")


# streams


def stream():
    chunks = list(ask("[[say: hello there]]", stream=True))
    assert text_of(chunks) == "hello there"
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-1].choices[0].finish_reason == "stop"
    assert len({chunk.id for chunk in chunks}) == 1
    assert not any(chunk.usage for chunk in chunks), "usage was not asked for"


def stream_usage():
    *chunks, last = ask("[[say: hello there]]", stream=True, stream_options={"include_usage": True})
    assert last.choices == []
    assert last.usage.total_tokens == last.usage.prompt_tokens + last.usage.completion_tokens > 0
    assert all(chunk.choices and not chunk.usage for chunk in chunks)


def stream_several_choices():
    texts = {0: "", 1: ""}
    for chunk in ask("[[say: hello]]", n=2, temperature=1, stream=True):
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
    assert texts == {0: "hello", 1: "hello"}


def stream_logprobs():
    chunks = list(ask("[[say: a b c]]", stream=True, logprobs=True, top_logprobs=1))
    tokens = [token for chunk in chunks for choice in chunk.choices if choice.logprobs for token in choice.logprobs.content]
    assert "".join(token.token for token in tokens).startswith("a b c")


def stream_reasoning():
    chunks = list(ask("[[reason: let me see]] [[say: yes]]", stream=True))
    deltas = [choice.delta for chunk in chunks for choice in chunk.choices]
    extras = [delta.model_extra or {} for delta in deltas]
    assert "".join(extra.get("reasoning") or extra.get("reasoning_content") or "" for extra in extras) == "let me see"
    assert text_of(chunks) == "yes"


def stream_helper():
    with SYNC.chat.completions.stream(model=MODEL, messages=said("[[say: hello there]]")) as events:
        kinds = {event.type for event in events}
        assert events.get_final_completion().choices[0].message.content == "hello there"
    assert {"chunk", "content.delta", "content.done"} <= kinds


def stream_raw_response():
    with SYNC.chat.completions.with_streaming_response.create(
        model=MODEL, messages=said("[[say: hello]]"), stream=True
    ) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = [line for line in answer.iter_lines() if line]
    assert lines[-1] == "data: [DONE]"
    assert all(line.startswith("data: ") for line in lines)


def stream_closed_early():
    """The engine is told: what nobody reads is not made."""
    mark = uuid.uuid4().hex
    fault(slow=0.05)
    chunks = ask(f"[[tokens: 400]] {mark}", stream=True, max_tokens=400)
    assert [next(iter(chunks)) for _ in range(3)]
    chunks.close()
    give_up = time.monotonic() + 8
    while not [entry for entry in log() if mark in entry["raw"] and entry["aborted"]]:
        assert time.monotonic() < give_up, "the engine went on"
        time.sleep(0.1)


def stream_broken():
    """A stream that ends in the middle is an error, not a short answer."""
    fault(cut_after_tokens=3)
    chunks = ask("[[tokens: 30]]", stream=True)
    try:
        found = list(chunks)
    except (openai.APIError, *connection_errors()):
        return
    raise AssertionError(f"{len(found)} chunks and no error")


def stream_error_event():
    fault(error_in_stream=3)
    try:
        list(ask("[[tokens: 30]]", stream=True))
    except openai.APIError as error:
        assert "Internal server error" in str(error), error  # noqa: PT017
        return
    raise AssertionError("no error")


def connection_errors():
    """What the SDK lets through of its HTTP library."""
    found = []
    for name in ("httpx", "httpx2"):
        try:
            found.append(__import__(name).HTTPError)
        except ImportError:
            continue
    return found


# tools and structured outputs


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


# the other endpoints


def completions():
    answer = SYNC.completions.create(model=MODEL, prompt=["[[say: one]]", "[[say: two]]"])
    assert [(choice.index, choice.text) for choice in answer.choices] == [(0, "one"), (1, "two")]
    assert answer.object == "text_completion"


def completions_streamed():
    chunks = SYNC.completions.create(model=MODEL, prompt="[[say: hello there]]", stream=True)
    assert "".join(chunk.choices[0].text for chunk in chunks) == "hello there"


def completions_logprobs():
    answer = SYNC.completions.create(model=MODEL, prompt="[[say: a b c]]", logprobs=2)
    assert "".join(answer.choices[0].logprobs.tokens).startswith("a b c")


def embeddings_float():
    answer = SYNC.embeddings.create(model=MODEL, input=["a", "b"], encoding_format="float")
    assert [item.index for item in answer.data] == [0, 1]
    assert all(isinstance(item.embedding[0], float) for item in answer.data)
    assert answer.usage.total_tokens > 0


def embeddings_base64():
    """The SDK asks for base64 by itself, and turns it into numbers: the same ones."""
    plain = SYNC.embeddings.create(model=MODEL, input="a", encoding_format="float").data[0].embedding
    packed = SYNC.embeddings.create(model=MODEL, input="a").data[0].embedding
    text = SYNC.embeddings.create(model=MODEL, input="a", encoding_format="base64").data[0].embedding
    assert all(abs(one - other) < 1e-6 for one, other in zip(plain, packed, strict=True))
    assert isinstance(text, str)


def embeddings_of_tokens():
    answer = SYNC.embeddings.create(model=MODEL, input=[[5496, 4744], [1]], encoding_format="float")
    assert len(answer.data) == 2


def embeddings_dimensions():
    assert len(SYNC.embeddings.create(model=MODEL, input="a", dimensions=8).data[0].embedding) == 8


def models_list():
    models = list(SYNC.models.list())
    assert MODEL in [model.id for model in models]
    assert all(model.object == "model" and model.created and model.owned_by for model in models)


def models_retrieve():
    assert SYNC.models.retrieve(MODEL).id == MODEL


def responses():
    answer = SYNC.responses.create(model=MODEL, input="[[say: hello]]")
    assert answer.output_text == "hello"
    with SYNC.responses.create(model=MODEL, input="[[say: hello]]", stream=True) as events:
        assert [event.type for event in events][-1] == "response.completed"


# errors


def error_400():
    error = refused(openai.BadRequestError, lambda: ask("x", temperature=7))
    assert error.status_code == 400
    assert "temperature" in error.message


def error_400_context():
    error = refused(openai.BadRequestError, lambda: ask("word " * 200_000))
    assert "context length" in error.message


def error_401():
    error = refused(openai.AuthenticationError, lambda: ask("x", SYNC.with_options(api_key="sk-wrong")))
    assert error.status_code == 401


def error_403():
    if not NARROW_KEY:
        raise Skip("no keys with fewer rights are set up for this target")
    narrow = SYNC.with_options(api_key=NARROW_KEY)
    assert ask("x", narrow).choices
    refused(openai.PermissionDeniedError, lambda: narrow.chat.completions.create(model="conform-large", messages=said("x")))


def error_404():
    def call():
        SYNC.chat.completions.create(model="no-such-model", messages=said("x"))

    assert refused(openai.NotFoundError, call).status_code == 404


def error_422():
    fault(status=422, body={"error": {"message": "cannot be processed", "type": "x", "param": None, "code": 422}})
    assert "cannot be processed" in refused(openai.UnprocessableEntityError, lambda: ask("x")).message


def error_429():
    fault(**BUSY)
    assert refused(openai.RateLimitError, lambda: ask("x")).status_code == 429


def error_503():
    fault(status=503, body={"error": {"message": "overloaded", "code": 503}})
    assert refused(openai.InternalServerError, lambda: ask("x")).status_code >= 500


def error_of_a_stream():
    """Before the first event an error is a status, for streams too."""
    refused(openai.NotFoundError, lambda: SYNC.chat.completions.create(model="no-such", messages=said("x"), stream=True))
    refused(openai.BadRequestError, lambda: list(ask("x", temperature=7, stream=True)))


def error_body():
    """`type`, `code` and `param` are where the SDK looks for them."""
    error = refused(openai.NotFoundError, lambda: SYNC.chat.completions.create(model="no-such", messages=said("x")))
    assert error.type
    assert error.code
    assert isinstance(error.body, dict)
    assert error.body["message"]


# time, retries, headers


def timeout():
    fault(hang_before_headers=3.0)
    refused(openai.APITimeoutError, lambda: ask("x", SYNC.with_options(timeout=0.5)))


def retry():
    fault(**BUSY, times=1)
    assert ask("[[say: at last]]", SYNC.with_options(max_retries=2)).choices[0].message.content == "at last"


def retry_of_a_stream():
    fault(**BUSY, times=1)
    assert text_of(ask("[[say: at last]]", SYNC.with_options(max_retries=2), stream=True)) == "at last"


def raw_response():
    raw = SYNC.chat.completions.with_raw_response.create(model=MODEL, messages=said("[[say: hello]]"))
    assert raw.headers["content-type"].startswith("application/json")
    assert raw.parse().choices[0].message.content == "hello"


def request_id():
    """What the SDK tells for a support request."""
    assert ask("x")._request_id  # noqa: SLF001 - the SDK's public name
    assert refused(openai.BadRequestError, lambda: ask("x", temperature=7)).request_id


def extra_headers_and_query():
    answer = ask("[[say: hello]]", extra_headers={"x-mine": "1"}, extra_query={"q": "1"})
    assert answer.choices[0].message.content == "hello"


# the asynchronous client


async def async_chat():
    async with asynchronous() as sdk:
        answer = await sdk.chat.completions.create(model=MODEL, messages=said("[[say: hello]]"))
        assert answer.choices[0].message.content == "hello"


async def async_stream():
    async with asynchronous() as sdk:
        chunks = await sdk.chat.completions.create(model=MODEL, messages=said("[[say: hello there]]"), stream=True)
        assert text_of([chunk async for chunk in chunks]) == "hello there"


async def async_many():
    async with asynchronous() as sdk:
        calls = [sdk.chat.completions.create(model=MODEL, messages=said(f"[[say: {at}]]")) for at in range(32)]
        answers = await asyncio.gather(*calls)
    assert [answer.choices[0].message.content for answer in answers] == [str(at) for at in range(32)]


async def async_models():
    async with asynchronous() as sdk:
        assert MODEL in [model.id async for model in sdk.models.list()]


CASES = (
    chat, chat_unicode, chat_with_every_role, chat_with_an_image, chat_max_tokens, chat_stop, chat_several_choices,
    chat_logprobs, chat_extra_body, chat_reasoning, stream, stream_usage, stream_several_choices, stream_logprobs,
    stream_reasoning, stream_helper, stream_raw_response, stream_closed_early, stream_broken, stream_error_event,
    tools_auto, tools_parallel, tools_named, tools_required, tools_none, tools_streamed, tools_round_trip, json_object,
    json_schema, parse, parse_tools, parse_streamed, completions, completions_streamed, completions_logprobs,
    embeddings_float, embeddings_base64, embeddings_of_tokens, embeddings_dimensions, models_list, models_retrieve,
    responses, error_400, error_400_context, error_401, error_403, error_404, error_422, error_429, error_503,
    error_of_a_stream, error_body, timeout, retry, retry_of_a_stream, raw_response, request_id,
    extra_headers_and_query, async_chat, async_stream, async_many, async_models,
)  # fmt: skip

if __name__ == "__main__":
    assert BACKENDS
    run(CASES)
