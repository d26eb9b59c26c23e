"""What a user of the OpenAI SDK does with the gateway, in whichever major version of it runs this.

    python sdk_script.py BASE_URL KEY      prints {"version": …, "results": {case: "ok" or what went wrong}}

Needs nothing but `openai`, so that it runs in an environment that holds one version of it.
"""

import json
import sys
import traceback

import openai

TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "the weather of a city",
        "strict": True,  # without it vLLM 0.32 holds the model to JSON, but not to the schema
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "maxLength": 8}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}
NAMED = {"type": "function", "function": {"name": "get_weather"}}
SCHEMA = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"], "additionalProperties": False}
FORMAT = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA, "strict": True}}


def said(text):
    return [{"role": "user", "content": text}]


def refused(kind, status, call, **parameters):
    error = None
    try:
        call(**parameters)
    except openai.APIStatusError as raised:
        error = raised
    assert type(error) is kind, error
    assert error.status_code == status, error
    assert error.request_id
    return error


def chat(sdk):
    answer = sdk.chat.completions.create(
        model="small", messages=said("What is the capital of France?"), temperature=0, max_tokens=30
    )
    assert "Paris" in answer.choices[0].message.content, answer
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert answer._request_id


def headers(sdk):
    raw = sdk.chat.completions.with_raw_response.create(
        model="auto", messages=said("Hi"), max_tokens=4, extra_headers={"x-request-id": "from-the-client"}
    )
    assert raw.headers["x-request-id"] == "from-the-client"
    assert (raw.headers["x-tiergate-model"], raw.headers["x-tiergate-tier"]) == ("small", "small")
    assert raw.headers["x-tiergate-replica"] == "s1"
    assert raw.parse().choices[0].message.content


def stream(sdk):
    chunks = list(sdk.chat.completions.create(model="small", messages=said("Say something."), max_tokens=12, stream=True))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert chunks[-1].choices[0].finish_reason in ("stop", "length")
    assert not any(chunk.usage for chunk in chunks), "usage was not asked for"


def stream_usage(sdk):
    asked = {"stream_options": {"include_usage": True}}
    *chunks, last = sdk.chat.completions.create(
        model="large", messages=said("Say something."), max_tokens=12, stream=True, **asked
    )
    assert last.choices == []
    assert 0 < last.usage.completion_tokens <= 12
    assert all(chunk.choices and not chunk.usage for chunk in chunks)


def stream_usage_refused(sdk):
    chunks = list(
        sdk.chat.completions.create(
            model="small", messages=said("Hi"), max_tokens=4, stream=True, stream_options={"include_usage": False}
        )
    )
    assert not any(chunk.usage for chunk in chunks)


def stream_helper(sdk):
    question = said("What is the capital of France?")
    with sdk.chat.completions.stream(model="small", messages=question, temperature=0, seed=1, max_tokens=40) as events:
        kinds = {event.type for event in events}
        assert events.get_final_completion().choices[0].message.content
    assert {"chunk", "content.delta", "content.done"} <= kinds, kinds


def tools_named(sdk):
    answer = sdk.chat.completions.create(
        model="small", messages=said("Weather in Rome?"), tools=[TOOL], tool_choice=NAMED, max_tokens=60, temperature=0
    )
    (call,) = answer.choices[0].message.tool_calls
    assert call.function.name == "get_weather"
    assert set(json.loads(call.function.arguments)) == {"city"}


def tools_required(sdk):
    answer = sdk.chat.completions.create(
        model="small", messages=said("Weather in Rome?"), tools=[TOOL], tool_choice="required", max_tokens=150, temperature=0
    )
    assert answer.choices[0].message.tool_calls[0].function.name == "get_weather"


def tools_streamed(sdk):
    asked = {"model": "small", "messages": said(f"Weather in Oslo? {openai.__version__}"), "tools": [TOOL]}
    asked |= {"tool_choice": NAMED, "max_tokens": 60, "temperature": 0}
    chunks = list(sdk.chat.completions.create(**asked, stream=True))
    calls = [call for chunk in chunks for choice in chunk.choices for call in choice.delta.tool_calls or ()]
    assert [call.function.name for call in calls if call.function.name] == ["get_weather"]
    arguments = "".join(call.function.arguments or "" for call in calls)
    assert set(json.loads(arguments)) == {"city"}
    whole = sdk.chat.completions.with_raw_response.create(**asked)
    # `shared` for a client that read [DONE] and was back before the engine had ended the stream
    assert whole.headers["x-tiergate-cache"] in ("exact", "shared"), whole.headers
    assert whole.parse().choices[0].message.tool_calls[0].function.arguments == arguments


def logprobs(sdk):
    answer = sdk.chat.completions.create(model="small", messages=said("Hi"), max_tokens=4, logprobs=True, top_logprobs=2)
    tokens = answer.choices[0].logprobs.content
    assert len(tokens) == answer.usage.completion_tokens
    assert all(token.logprob <= 0 and len(token.top_logprobs) >= 2 for token in tokens)


def several_choices(sdk):
    answer = sdk.chat.completions.create(model="small", messages=said("Hi"), n=2, max_tokens=6)
    assert [choice.index for choice in answer.choices] == [0, 1]
    chunks = list(sdk.chat.completions.create(model="small", messages=said("Hi"), n=2, max_tokens=6, stream=True))
    assert {choice.index for chunk in chunks for choice in chunk.choices} == {0, 1}


def structured(sdk):
    answer = sdk.chat.completions.create(model="small", messages=said("Is it so?"), response_format=FORMAT, max_tokens=60)
    assert isinstance(json.loads(answer.choices[0].message.content)["ok"], bool)


def completions(sdk):
    answer = sdk.completions.create(model="large", prompt=["One, two,", "A, B,"], max_tokens=4)
    assert [choice.index for choice in answer.choices] == [0, 1]
    pieces = [chunk.choices[0].text for chunk in sdk.completions.create(model="large", prompt="One,", max_tokens=4, stream=True)]
    assert "".join(pieces)


def models(sdk):
    names = [model.id for model in sdk.models.list()]
    assert names == ["auto", "small", "large", "both", "told", "narrow", "wrong-key", "wrong-endpoint"]
    assert sdk.models.retrieve("large").id == "large"
    refused(openai.NotFoundError, 404, sdk.models.retrieve, model="none")


def cached(sdk):
    question = said(f"What is the capital of Spain? {openai.__version__}")
    asked = {"model": "small", "messages": question, "temperature": 0, "max_tokens": 100, "stop": ["."]}
    first = sdk.chat.completions.with_raw_response.create(**asked)
    again = sdk.chat.completions.with_raw_response.create(**asked)
    assert again.headers["x-tiergate-cache"] == "exact", again.headers
    assert again.parse().choices[0].message.content == first.parse().choices[0].message.content
    streamed = sdk.chat.completions.create(**asked, stream=True)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in streamed) == first.parse().choices[0].message.content


def errors(sdk):
    create = sdk.chat.completions.create
    assert refused(openai.NotFoundError, 404, create, model="none", messages=said("Hi")).code == "model_not_found"
    wrong = sdk.with_options(api_key="sk-wrong")
    refused(openai.AuthenticationError, 401, wrong.chat.completions.create, model="small", messages=said("Hi"))
    refused(openai.BadRequestError, 400, create, model="small", messages=said("Hi"), temperature=3)
    refused(openai.BadRequestError, 400, create, model="small", messages=said("Hi"), max_tokens=10**6)
    refused(openai.NotFoundError, 404, sdk.embeddings.create, model="small", input="x")


def overflow(sdk):
    long = said("word " * 1200)
    refused(openai.BadRequestError, 400, sdk.chat.completions.create, model="small", messages=long, max_tokens=4)
    raw = sdk.chat.completions.with_raw_response.create(model="auto", messages=long, max_tokens=4)
    assert (raw.headers["x-tiergate-model"], raw.headers["x-tiergate-route"]) == ("large", "context"), raw.headers


def impatient(sdk):
    hasty = sdk.with_options(timeout=0.5)
    try:
        hasty.chat.completions.create(model="small", messages=said("Count."), max_tokens=900, extra_body={"ignore_eos": True})
    except openai.APITimeoutError:
        return
    raise AssertionError("it did not time out")


def closes_its_stream(sdk):
    chunks = sdk.chat.completions.create(
        model="small", messages=said("Count."), max_tokens=900, stream=True, extra_body={"ignore_eos": True}
    )
    assert [next(iter(chunks)) for _ in range(3)]
    chunks.close()


CASES = (
    chat, headers, stream, stream_usage, stream_usage_refused, stream_helper, tools_named, tools_required, tools_streamed,
    logprobs, several_choices, structured, completions, models, cached, errors, overflow, impatient, closes_its_stream,
)  # fmt: skip

CACHED = (cached, tools_streamed)


def main(base_url, key):
    results = {}
    options = {"base_url": base_url, "api_key": key, "max_retries": 0, "timeout": 600}
    fresh = {"x-tiergate-cache": "no-cache"}  # or the second version would be told what the first one was
    with openai.OpenAI(**options) as cached_too, openai.OpenAI(**options, default_headers=fresh) as sdk:
        for case in CASES:
            try:
                case(cached_too if case in CACHED else sdk)
                results[case.__name__] = "ok"
            except Exception:
                results[case.__name__] = traceback.format_exc()
    print(json.dumps({"version": openai.__version__, "results": results}))


if __name__ == "__main__":
    main(*sys.argv[1:])
