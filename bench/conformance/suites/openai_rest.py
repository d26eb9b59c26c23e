"""The other endpoints, errors, time, retries, headers, and the asynchronous client."""

from __future__ import annotations

import asyncio

import openai
from openai_shared import BUSY, SYNC, ask, asynchronous, refused, said, text_of
from record import MODEL, NARROW_KEY, Skip, fault


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
    completions,
    completions_streamed,
    completions_logprobs,
    embeddings_float,
    embeddings_base64,
    embeddings_of_tokens,
    embeddings_dimensions,
    models_list,
    models_retrieve,
    responses,
    error_400,
    error_400_context,
    error_401,
    error_403,
    error_404,
    error_422,
    error_429,
    error_503,
    error_of_a_stream,
    error_body,
    timeout,
    retry,
    retry_of_a_stream,
    raw_response,
    request_id,
    extra_headers_and_query,
    async_chat,
    async_stream,
    async_many,
    async_models,
)
