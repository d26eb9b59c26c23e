"""What vLLM refuses, word for word."""

import json
import re
from typing import Any

import httpx
import pytest
from fake_talk import talk

from gateway.lab.fake import FakeVLLM, Options

GET_WEATHER = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}


async def refused(
    client: httpx.AsyncClient, fake: FakeVLLM, body: Any, path: str = "/v1/chat/completions"
) -> tuple[int, dict[str, Any]]:
    answer = await client.post(fake.root + path, json=body)
    error = answer.json()["error"]
    assert list(error) == ["message", "type", "param", "code"]
    assert error["code"] == answer.status_code
    return answer.status_code, error


async def test_an_unknown_model(fake: FakeVLLM, client: httpx.AsyncClient) -> None:
    """A model that is not served is a 404 with the names that are."""
    status, error = await refused(client, fake, talk() | {"model": "nope"})
    assert status == 404
    assert error["message"] == "The model `nope` does not exist. Valid aliases: fake."
    assert (error["type"], error["param"]) == ("NotFoundError", "model")


@pytest.mark.parametrize(
    ("fields", "message", "param"),
    [
        ({"stream_options": {"include_usage": True}}, "Stream options can only be defined when `stream=True`.", "stream_options"),
        ({"cache_salt": ""}, "Parameter 'cache_salt' must be a non-empty string if provided.", "cache_salt"),
        ({"cache_salt": 7}, "Parameter 'cache_salt' must be a non-empty string if provided.", "cache_salt"),
        ({"cache_salt": "x" * 129}, "Parameter 'cache_salt' must be at most 128 characters", "cache_salt"),
        ({"cache_salt": "a/b"}, "must not contain '@', '/', '\\\\', or NUL.", "cache_salt"),
        ({"top_logprobs": 2}, "when using `top_logprobs`, `logprobs` must be set to true.", "top_logprobs"),
        ({"top_logprobs": -2, "logprobs": True}, "`top_logprobs` must be a positive value or -1.", "top_logprobs"),
        ({"prompt_logprobs": "many"}, "`prompt_logprobs` must be an integer.", "prompt_logprobs"),
        ({"response_format": {"type": "json_schema"}}, "the 'json_schema' field must be provided.", "response_format"),
        ({"structured_outputs": {"json": {}, "regex": "a"}}, "You can only use one kind of constraints", None),
        ({"tools": []}, "`tools` must not be an empty array.", "tools"),
        ({"tool_choice": "required"}, "When using `tool_choice`, `tools` must be set.", "tool_choice"),
        ({"tools": [GET_WEATHER], "tool_choice": "perhaps"}, "Invalid value for `tool_choice`: perhaps!", "tool_choice"),
        (
            {"tools": [GET_WEATHER], "tool_choice": {"function": {"name": "x"}}},
            "does not match any of the specified",
            "tool_choice",
        ),
        ({"tools": [GET_WEATHER], "tool_choice": {}}, "Invalid value for `function`: `None`", "tool_choice.function"),
        ({"tools": [GET_WEATHER], "tool_choice": {"function": {}}}, "Expected field `name`", "tool_choice.function.name"),
        ({"tools": [GET_WEATHER], "tool_choice": {"function": {"name": ""}}}, "Invalid `name`", "tool_choice.function.name"),
        ({"n": 0}, "n must be at least 1, got 0.", None),
        ({"n": -1}, "n must be at least 1, got -1.", None),
        ({"n": 16385}, "n must be at most 16384, got 16385.", None),
        ({"n": 2, "temperature": 0}, "n must be 1 when using greedy sampling, got 2.", None),
        ({"max_tokens": 0}, "max_tokens must be at least 1, got 0. (parameter=max_tokens, value=0)", "max_tokens"),
        ({"max_tokens": -3}, "max_tokens must be at least 1, got -3.", "max_tokens"),
        ({"temperature": -0.5}, "temperature must be non-negative, got -0.5. (parameter=temperature, value=-0.5)", "temperature"),
        ({"temperature": 3}, "temperature must be in [0, 2], got 3.0.", "temperature"),
        ({"top_p": 0}, "top_p must be in (0, 1], got 0.0.", "top_p"),
        ({"top_k": -2}, "top_k must be 0 (disable), or at least 1, got -2.", None),
        ({"min_p": 2}, "min_p must be in [0, 1], got 2.0.", None),
        ({"presence_penalty": 3}, "presence_penalty must be in [-2, 2], got 3.0.", None),
        ({"repetition_penalty": 0}, "repetition_penalty must be greater than zero, got 0.0.", None),
        ({"min_tokens": 9, "max_tokens": 3}, "min_tokens must be less than or equal to max_tokens=3, got 9.", None),
        ({"min_tokens": -1}, "min_tokens must be greater than or equal to 0, got -1.", None),
        ({"stop": ""}, "stop cannot contain an empty string.", None),
        ({"messages": None}, "'NoneType' object is not iterable", None),
        ({"messages": []}, "Cannot apply chat template to an empty conversation.", None),
        ({"chat_template": "{{ 1 }}"}, "Chat template is passed with request, but --trust-request-chat-template", None),
        (
            {"logprobs": True, "top_logprobs": 21},
            "Requested sample logprobs of 21, which is greater than max allowed: 20",
            "logprobs",
        ),
        ({"stream": True, "prompt_logprobs": 1}, "`prompt_logprobs` are not available when `stream=True`.", "prompt_logprobs"),
        ({"prompt_logprobs": 21}, "Requested prompt logprobs of 21", "prompt_logprobs"),
        (
            {"structured_outputs": {}},
            "You must use one kind of structured outputs constraint but none are specified: {'json': None",
            None,
        ),
        (
            {"logit_bias": {"x": 1}},
            "logit_bias contains key(s) that cannot be converted to integer token IDs: ['x']",
            "logit_bias",
        ),
        (
            {"allowed_token_ids": []},
            "allowed_token_ids is not None and empty! (parameter=allowed_token_ids, value=[])",
            "allowed_token_ids",
        ),
        ({"bad_words": [""]}, "bad_words cannot contain an empty string. Got bad_words=['']", None),
        (
            {"truncate_prompt_tokens": 99999},
            "truncate_prompt_tokens=99999 cannot be greater than max_model_len = 32768.",
            "truncate_prompt_tokens",
        ),
        ({"add_generation_prompt": True, "continue_final_message": True}, "Cannot set both `continue_final_message`", None),
    ],
)
async def test_vllms_own_checks(
    fake: FakeVLLM, client: httpx.AsyncClient, fields: dict[str, Any], message: str, param: str | None
) -> None:
    """Each rule of vLLM's refuses with its sentence as a BadRequestError."""
    status, error = await refused(client, fake, talk(**fields))
    assert (status, error["type"], error["param"]) == (400, "BadRequestError", param)
    assert message in error["message"]


@pytest.mark.parametrize(
    ("fields", "kind", "place"),
    [
        ({"temperature": "hot"}, "float_parsing", "body.temperature"),
        ({"max_tokens": 1.5}, "int_from_float", "body.max_tokens"),
        ({"max_tokens": [1]}, "int_type", "body.max_tokens"),
        ({"max_tokens": "few"}, "int_parsing", "body.max_tokens"),
        ({"temperature": {}}, "float_type", "body.temperature"),
        ({"stream": "perhaps"}, "bool_parsing", "body.stream"),
        ({"stream": []}, "bool_type", "body.stream"),
        ({"messages": "hello"}, "list_type", "body.messages"),
        ({"messages": [1]}, "dict_type", "body.messages.0.ChatCompletionDeveloperMessageParam"),
        ({"messages": [{"content": "x"}]}, "missing", "body.messages.0.ChatCompletionDeveloperMessageParam.role"),
        (
            {"messages": [{"role": "user", "content": None}]},
            "string_type",
            "body.messages.0.ChatCompletionDeveloperMessageParam.content",
        ),
        ({"tools": [{"type": "function", "function": {}}]}, "missing", "body.tools.0.function.name"),
        ({"tools": [{"type": "x", "function": {"name": "f"}}]}, "literal_error", "body.tools.0.type"),
        ({"stop": 1}, "list_type", "body.stop"),
        ({"stop": ["a", 1]}, "'loc': 'body.stop.1'", "body.stop"),
        ({"stop": list("abcde")}, "'max_length': 4, 'actual_length': 5", "body.stop"),
        ({"stream": True, "stream_options": "x"}, "model_attributes_type", "body.stream_options"),
        ({"stream": True, "stream_options": {"include_usage": "perhaps"}}, "bool_parsing", "body.stream_options.include_usage"),
        ({"response_format": "json"}, "3 validation errors", "body.response_format"),
        ({"response_format": {}}, "missing", "body.response_format.type"),
        (
            {"response_format": {"type": "poem"}},
            "Input should be 'text', 'json_object' or 'json_schema'",
            "body.response_format.type",
        ),
        ({"response_format": {"type": "json_schema", "json_schema": {}}}, "missing", "body.response_format.json_schema.name"),
        ({"seed": 2**70}, "less_than_equal", "body.seed"),
        ({"seed": -(2**70)}, "greater_than_equal", "body.seed"),
        ({"stop_token_ids": ["x"]}, "int_parsing", "body.stop_token_ids.0"),
        ({"bad_words": [1]}, "string_type", "body.bad_words.0"),
        ({"truncate_prompt_tokens": -5}, "greater_than_equal", "body.truncate_prompt_tokens"),
        ({"reasoning_effort": "immense"}, "literal_error", "body.reasoning_effort"),
        ({"priority": None}, "'input': 'None'", "body.priority"),
        ({"model": 7}, "string_type", "body.model"),
        ({"logit_bias": []}, "dict_type", "body.logit_bias"),
    ],
)
async def test_wrong_types(fake: FakeVLLM, client: httpx.AsyncClient, fields: dict[str, Any], kind: str, place: str) -> None:
    """A value of the wrong type is a `Bad Request` that names its place."""
    status, error = await refused(client, fake, talk() | fields)
    assert (status, error["type"], error["param"]) == (400, "Bad Request", place)
    assert re.match(r"(1 validation error|\d validation errors):\n  \{'type': ", error["message"])
    assert kind in error["message"]


async def test_lenient_types(fake: FakeVLLM, client: httpx.AsyncClient) -> None:
    """Numbers in strings, whole floats, words for truth and nulls are taken for what they mean."""
    fields = {"max_tokens": "5", "n": 1.0, "temperature": "0.5", "stream": "no", "seed": None, "logprobs": 0, "stop": None}
    body = (await client.post(f"{fake.url}/chat/completions", json=talk(**fields))).json()
    assert body["usage"]["completion_tokens"] == 5


@pytest.mark.parametrize(
    ("body", "kind", "param"),
    [
        (b'{"stream": true, x}', "json_invalid", "body.17"),
        (b"", "missing", "body"),
        (b"[1]", "model_attributes_type", "body"),
        (b"\xff\xfe", "json_invalid", "body.0"),
        (b"{}", "missing", "body.messages"),
        (b"[" * 100_000, "json_invalid", "body.0"),
    ],
)
async def test_bodies_that_are_no_request(fake: FakeVLLM, client: httpx.AsyncClient, body: bytes, kind: str, param: str) -> None:
    """Broken JSON, no body, another shape and bottomless nesting are all a 400 in JSON."""
    answer = await client.post(f"{fake.url}/chat/completions", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert kind in error["message"]
    assert error["param"] == param


async def test_another_content_type(fake: FakeVLLM, client: httpx.AsyncClient) -> None:
    """Without a JSON content type vLLM refuses; with parameters behind it it does not."""
    data = json.dumps(talk()).encode()
    answer = await client.post(f"{fake.url}/chat/completions", content=data, headers={"content-type": "text/plain"})
    assert "Only 'application/json' is allowed" in answer.json()["error"]["message"]
    answer = await client.post(
        f"{fake.url}/chat/completions", content=data, headers={"content-type": "Application/JSON; charset=utf-8"}
    )
    assert answer.status_code == 200


async def test_nan_is_read_as_python_reads_it(fake: FakeVLLM, client: httpx.AsyncClient) -> None:
    """NaN is no JSON, but vLLM's parser takes it; then its check refuses the value."""
    data = b'{"model": "fake", "messages": [{"role": "user", "content": "x"}], "temperature": NaN}'
    answer = await client.post(f"{fake.url}/chat/completions", content=data, headers={"content-type": "application/json"})
    assert "temperature must be a finite number" in answer.json()["error"]["message"]


async def test_context_overflow(client: httpx.AsyncClient) -> None:
    """A prompt that leaves no room is a 400 before any byte of a stream; so is asking for more than the context."""
    async with FakeVLLM(Options(max_model_len=64)) as fake:
        for stream in (False, True):
            status, error = await refused(client, fake, talk("word " * 100, stream=stream))
            assert status == 400
            assert error["message"].startswith(
                "This model's maximum context length is 64 tokens. However, your prompt contains at least 65"
            )
            assert error["param"] == "input_tokens"
        _, error = await refused(client, fake, talk(max_tokens=65))
        assert error["message"].startswith("max_tokens=65 cannot be greater than max_model_len=64.")
        _, error = await refused(client, fake, {"model": "fake", "prompt": "x" * 400}, "/v1/completions")
        assert "maximum context length is 64" in error["message"]


async def test_more_tokens_than_fit_are_cut_to_what_fits(client: httpx.AsyncClient) -> None:
    """A prompt that leaves less room than `max_tokens` asks for gets that room, as long as the context alone would hold them."""
    async with FakeVLLM(Options(max_model_len=64)) as fake:
        answer = await client.post(f"{fake.url}/chat/completions", json=talk(max_tokens=60, ignore_eos=True))
        usage, choice = answer.json()["usage"], answer.json()["choices"][0]
    assert usage["prompt_tokens"] > 4
    assert (usage["total_tokens"], choice["finish_reason"]) == (64, "length")


async def test_bodies_that_are_no_text(fake: FakeVLLM, client: httpx.AsyncClient) -> None:
    """`null` is a missing body, bytes that are no text have the framework's own refusal, half a surrogate the tokenizer's."""
    json_type = {"content-type": "application/json"}

    async def post(data: bytes) -> Any:
        answer = await client.post(f"{fake.url}/chat/completions", content=data, headers=json_type)
        assert answer.status_code == 400
        return answer.json()

    assert "'type': 'missing', 'loc': 'body'" in (await post(b"null"))["error"]["message"]
    assert await post(b'{"model": "\xff"}') == {"detail": "There was an error parsing the body"}
    surrogate = await post(b'{"messages": [{"role": "user", "content": "\\ud800"}]}')
    assert surrogate["error"]["message"].startswith("TextEncodeInput must be")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"prompt": []}, "You must pass at least one prompt"),
        ({"prompt": ["a", ""]}, "The decoder prompt cannot be empty"),
        ({"suffix": "x"}, "suffix is only supported for models with FIM"),
        ({"logprobs": 21}, "Requested sample logprobs of 21"),
        ({"prompt": 5}, "4 validation errors"),
        ({"prompt": ["a", 5]}, "5 validation errors"),
        ({"prompt": [-1]}, "4 validation errors:\n  {'type': 'greater_than_equal', 'loc': 'body.prompt.0'"),
    ],
)
async def test_completions_refuse(fake: FakeVLLM, client: httpx.AsyncClient, fields: dict[str, Any], said: str) -> None:
    """What is no prompt is a 400 in vLLM's words."""
    status, error = await refused(client, fake, {"model": "fake", "prompt": "x", **fields}, "/v1/completions")
    assert status == 400
    assert error["message"].startswith(said)


async def test_completions_and_embeddings_check_too(fake: FakeVLLM, client: httpx.AsyncClient) -> None:
    """The other endpoints refuse in the same shape."""
    _, error = await refused(client, fake, {"model": "fake"}, "/v1/completions")
    assert "Either prompt or prompt_embeds must be provided" in error["message"]
    _, error = await refused(client, fake, {"model": "fake", "prompt": {"a": 1}}, "/v1/completions")
    assert error["param"] == "body.prompt"
    _, error = await refused(client, fake, {"model": "fake", "prompt": "x", "logprobs": -5}, "/v1/completions")
    assert "`logprobs` must be a positive value or -1." in error["message"]
    _, error = await refused(client, fake, {"model": "fake", "prompt": ["x"] * 1025}, "/v1/completions")
    assert "prompt list length 1025" in error["message"]
    _, error = await refused(client, fake, {"model": "fake"}, "/v1/embeddings")
    assert error["param"] == "body.input"
    _, error = await refused(client, fake, {"model": "fake", "input": "x", "dimensions": 1000}, "/v1/embeddings")
    assert error["param"] == "dimensions"
    _, error = await refused(client, fake, {"model": "fake", "input": "x", "dimensions": 0}, "/v1/embeddings")
    assert error["param"] == "dimensions"
    _, error = await refused(client, fake, {"model": "fake", "input": "x", "encoding_format": "int8"}, "/v1/embeddings")
    assert error["param"] == "body.encoding_format"


async def test_priority_under_fcfs_passes_unless_strict(fake: FakeVLLM, client: httpx.AsyncClient) -> None:
    """vLLM 0.32 ignores a priority that its policy cannot use; with strict_priority it is the 400 of older ones."""
    assert (await client.post(f"{fake.url}/chat/completions", json=talk(priority=5))).status_code == 200
    async with FakeVLLM(Options(strict_priority=True)) as strict:
        status, error = await refused(client, strict, talk(priority=5))
        assert (status, error["param"]) == (400, "priority")
        assert (await client.post(f"{strict.url}/chat/completions", json=talk(priority=0))).status_code == 200


async def test_the_key_guards_v1_alone(client: httpx.AsyncClient) -> None:
    """With an API key /v1 answers 401 in vLLM's odd shape; health, metrics and the tokenizer answer everybody."""
    async with FakeVLLM(Options(api_key="secret")) as fake:
        for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": "Basic secret"}):
            answer = await client.post(f"{fake.url}/chat/completions", json=talk(), headers=headers)
            assert (answer.status_code, answer.json()) == (401, {"error": "Unauthorized"})
        answer = await client.post(f"{fake.url}/chat/completions", json=talk(), headers={"authorization": "bearer secret"})
        assert answer.status_code == 200
        for path in ("/health", "/metrics", "/version", "/ping", "/load"):
            assert (await client.get(fake.root + path)).status_code == 200
        assert (await client.post(f"{fake.root}/tokenize", json={"prompt": "x"})).status_code == 200
        assert "secret" not in repr(fake.options)


async def test_unknown_paths_and_methods(fake: FakeVLLM, client: httpx.AsyncClient) -> None:
    """A path that vLLM does not have, `/v1/models/{id}` among them, is FastAPI's 404; another method its 405."""
    for path in ("/v1/models/fake", "/v1/nothing", "/"):
        answer = await client.get(fake.root + path)
        assert (answer.status_code, answer.json()) == (404, {"detail": "Not Found"})
    answer = await client.get(f"{fake.url}/chat/completions")
    assert (answer.status_code, answer.json()) == (405, {"detail": "Method Not Allowed"})
    assert answer.headers["allow"] == "POST"
