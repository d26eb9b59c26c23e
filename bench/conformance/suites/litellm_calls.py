"""litellm as a client, with the provider that it has for vLLM and the one for OpenAI."""

from __future__ import annotations

import json
import os
import uuid

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import litellm
from record import KEY, MODEL, URL, fault, run

PROVIDERS = ("hosted_vllm", "openai")
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = [{"type": "function", "function": {"name": name, "parameters": SCHEMA}} for name in ("weather", "clock")]
FIELDS = {"api_base": URL, "api_key": KEY, "num_retries": 0, "max_retries": 0, "timeout": 20}


def said(text):
    return [{"role": "system", "content": uuid.uuid4().hex}, {"role": "user", "content": text}]


def ask(text, provider, **fields):
    return litellm.completion(model=f"{provider}/{MODEL}", messages=said(text), **FIELDS, **fields)


def chat():
    for provider in PROVIDERS:
        answer = ask("[[say: hello]]", provider)
        assert answer.choices[0].message.content == "hello"
        assert answer.usage.total_tokens > 0


def stream():
    for provider in PROVIDERS:
        chunks = list(ask("[[say: hello there]]", provider, stream=True, stream_options={"include_usage": True}))
        assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == "hello there"
        whole = litellm.stream_chunk_builder(chunks)
        assert whole.choices[0].message.content == "hello there"
        assert whole.usage.completion_tokens > 0


def tools():
    text = '[[tool: weather {"city": "Paris"}]] [[tool: clock {"city": "Rome"}]]'
    for provider in PROVIDERS:
        calls = ask(text, provider, tools=TOOLS).choices[0].message.tool_calls
        assert [json.loads(call.function.arguments)["city"] for call in calls] == ["Paris", "Rome"]


def tools_streamed():
    text = '[[tool: weather {"city": "Paris"}]] [[tool: clock {"city": "Rome"}]]'
    for provider in PROVIDERS:
        whole = litellm.stream_chunk_builder(list(ask(text, provider, tools=TOOLS, stream=True)))
        calls = whole.choices[0].message.tool_calls
        assert [json.loads(call.function.arguments)["city"] for call in calls] == ["Paris", "Rome"]


def structured():
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA, "strict": True}}
    for provider in PROVIDERS:
        assert set(json.loads(ask("x", provider, response_format=form).choices[0].message.content)) == {"city"}


def reasoning():
    message = ask("[[reason: let me see]] [[say: yes]]", "hosted_vllm").choices[0].message
    assert (message.reasoning_content, message.content) == ("let me see", "yes")


def several_choices():
    for provider in PROVIDERS:
        assert [choice.index for choice in ask("x", provider, n=2).choices] == [0, 1]


def logprobs():
    for provider in PROVIDERS:
        assert ask("[[say: a b c]]", provider, logprobs=True, top_logprobs=2).choices[0].logprobs.content


def text_completion():
    answer = litellm.text_completion(model=f"text-completion-openai/{MODEL}", prompt="[[say: hello]]", **FIELDS)
    assert answer.choices[0].text == "hello"


def embeddings():
    for provider in PROVIDERS:
        answer = litellm.embedding(model=f"{provider}/{MODEL}", input=["a", "b"], api_base=URL, api_key=KEY)
        assert len(answer.data) == 2


def responses():
    answer = litellm.responses(model=f"openai/{MODEL}", input="[[say: hello]]", api_base=URL, api_key=KEY)
    assert answer.output[0].content[0].text == "hello"


async def asynchronous():
    answer = await litellm.acompletion(model=f"openai/{MODEL}", messages=said("[[say: hello]]"), **FIELDS)
    assert answer.choices[0].message.content == "hello"


def refused(kind, call):
    found = None
    try:
        call()
    except Exception as error:  # noqa: BLE001 - which one it is, is the case
        found = error
    assert type(found) is kind, f"{type(found).__name__}: {found}"


def error_400():
    for provider in PROVIDERS:
        refused(litellm.BadRequestError, lambda provider=provider: ask("x", provider, temperature=7))


def error_context():
    """Told by words of the message, of which it knows vLLM's."""
    for provider in PROVIDERS:
        refused(litellm.ContextWindowExceededError, lambda provider=provider: ask("word " * 200_000, provider))


def error_401():
    for provider in PROVIDERS:
        fields = FIELDS | {"api_key": "sk-wrong"}
        refused(
            litellm.AuthenticationError,
            lambda provider=provider, fields=fields: litellm.completion(
                model=f"{provider}/{MODEL}", messages=said("x"), **fields
            ),
        )


def error_404():
    for provider in PROVIDERS:
        refused(
            litellm.NotFoundError,
            lambda provider=provider: litellm.completion(model=f"{provider}/no-such", messages=said("x"), **FIELDS),
        )


def error_429():
    fault(status=429, headers={"retry-after-ms": "1"}, body={"error": {"message": "busy", "code": 429}})
    for provider in PROVIDERS:
        refused(litellm.RateLimitError, lambda provider=provider: ask("x", provider))


def timeout():
    fault(hang_before_headers=3.0)
    fields = FIELDS | {"timeout": 0.5}
    refused(litellm.Timeout, lambda: litellm.completion(model=f"openai/{MODEL}", messages=said("x"), **fields))


CASES = [
    chat, stream, tools, tools_streamed, structured, reasoning, several_choices, logprobs, text_completion, embeddings,
    responses, asynchronous, error_400, error_context, error_401, error_404, error_429, timeout,
]  # fmt: skip

if __name__ == "__main__":
    run(CASES)
