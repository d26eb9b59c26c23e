"""The requests that `tiergate fake-vllm` and vLLM are both asked: of each kind that a gateway sends, and of each that is refused."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

MODEL = "e2e-small"
SALT = "x" * 128
TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "the weather of a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string", "maxLength": 8}}, "required": ["city"]},
    },
}
SCHEMA = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"], "additionalProperties": False}


@dataclass(frozen=True)
class Case:
    name: str
    method: str
    path: str
    body: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)


def cases(key: str) -> Iterator[Case]:
    auth = {"authorization": f"Bearer {key}"}
    typed = {**auth, "content-type": "application/json"}

    def post(group: str, path: str, base: dict[str, Any], changes: dict[str, dict[str, Any]]) -> Iterator[Case]:
        for name, change in changes.items():
            body = {k: v for k, v in {**base, **change}.items() if v is not ABSENT}
            yield Case(f"{group}: {name}", "POST", path, json.dumps(body).encode(), typed)

    yield from post("chat", "/v1/chat/completions", CHAT, CHAT_GOOD)
    yield from post("chat stream", "/v1/chat/completions", {**CHAT, "stream": True}, STREAM_GOOD)
    yield from post("chat refused", "/v1/chat/completions", CHAT, CHAT_BAD)
    yield from post("completion", "/v1/completions", COMPLETION, COMPLETION_GOOD)
    yield from post("completion stream", "/v1/completions", {**COMPLETION, "stream": True}, COMPLETION_STREAM)
    yield from post("completion refused", "/v1/completions", COMPLETION, COMPLETION_BAD)
    yield from post("tokenize", "/tokenize", {"model": MODEL}, TOKENIZE)
    yield from post("detokenize", "/detokenize", {"model": MODEL}, DETOKENIZE)
    yield from _raw_bodies(typed, auth)
    yield from _paths(typed, auth)


def _raw_bodies(typed: dict[str, str], auth: dict[str, str]) -> Iterator[Case]:
    good = json.dumps(CHAT).encode()
    raw = {
        "empty": b"", "half": b'{"model":', "array": b"[]", "text": b'"hello"', "number": b"1", "null": b"null",
        "trailing": good + b"x", "comma": b'{"model": "e2e-small",}', "not utf-8": b'{"model": "\xff"}', "nan": b'{"temperature": NaN, ' + good[1:],
        "surrogate": b'{"model": "e2e-small", "messages": [{"role": "user", "content": "\\ud800"}], "max_tokens": 4}',
        "twice": b'{"max_tokens": 1, ' + good[1:], "bom": b"\xef\xbb\xbf" + good,
    }  # fmt: skip
    for name, body in raw.items():
        yield Case(f"body: {name}", "POST", "/v1/chat/completions", body, typed)
    for kind in ("text/plain", "application/x-www-form-urlencoded", "application/json; charset=utf-8", "Application/JSON", "application/vnd.api+json"):
        yield Case(f"content type: {kind}", "POST", "/v1/chat/completions", good, {**auth, "content-type": kind})
    yield Case("content type: none", "POST", "/v1/chat/completions", good, auth)
    yield Case("header: x-request-id", "POST", "/v1/chat/completions", good, {**typed, "x-request-id": "abc"})
    yield Case("header: origin", "POST", "/v1/chat/completions", good, {**typed, "origin": "http://page"})


def _paths(typed: dict[str, str], auth: dict[str, str]) -> Iterator[Case]:
    for name, headers in {
        "none": {}, "wrong": {"authorization": "Bearer no"}, "basic": {"authorization": "Basic backend-key"}, "lower": {"authorization": auth["authorization"].replace("B", "b", 1)},
        "api-key": {"api-key": "backend-key"}, "x-api-key": {"x-api-key": "backend-key"},
    }.items():  # fmt: skip
        yield Case(f"key: {name}", "GET", "/v1/models", None, headers)
    yield Case("key: none, and no such path", "GET", "/v1/none", None, {})
    for method, path in [
        ("GET", "/v1/models"), ("HEAD", "/v1/models"), ("POST", "/v1/models"), ("GET", "/v1/models/"), ("GET", "/v1/models/e2e-small"), ("GET", "/v1/models/none"),
        ("GET", "/health"), ("HEAD", "/health"), ("POST", "/health"), ("GET", "/health/"), ("GET", "/ping"), ("POST", "/ping"), ("GET", "/version"), ("GET", "/load"),
        ("GET", "/v1/chat/completions"), ("PUT", "/v1/chat/completions"), ("DELETE", "/v1/chat/completions"), ("OPTIONS", "/v1/chat/completions"), ("GET", "/"), ("GET", "/none"), ("GET", "/v1"),
        ("GET", "/v1/completions"), ("GET", "/tokenize"), ("GET", "/tokenizer_info"), ("POST", "/metrics"), ("GET", "//v1/models"), ("GET", "/is_sleeping"), ("GET", "/sleep"), ("GET", "/server_info"),
        ("POST", "/reset_prefix_cache"), ("GET", "/fake"), ("GET", "/V1/models"),
    ]:  # fmt: skip
        yield Case(f"{method} {path}", method, path, None, auth)
    yield Case("POST /v1/chat/completions/", "POST", "/v1/chat/completions/", json.dumps(CHAT).encode(), typed)
    yield Case("embeddings, which this model has not", "POST", "/v1/embeddings", json.dumps({"model": MODEL, "input": "x"}).encode(), typed)


ABSENT = object()
CHAT = {"model": MODEL, "messages": [{"role": "user", "content": "Say a number."}], "max_tokens": 4, "ignore_eos": True}
COMPLETION = {"model": MODEL, "prompt": "One, two,", "max_tokens": 4, "ignore_eos": True}

CHAT_GOOD: dict[str, dict[str, Any]] = {
    "plain": {}, "another name": {"model": "e2e-both"}, "no model": {"model": ABSENT}, "model null": {"model": None}, "model empty": {"model": ""},
    "n": {"n": 2, "temperature": 1}, "logprobs": {"logprobs": True}, "top logprobs": {"logprobs": True, "top_logprobs": 2}, "top logprobs 0": {"logprobs": True, "top_logprobs": 0},
    "tools auto": {"tools": [TOOL]}, "tools none": {"tools": [TOOL], "tool_choice": "none"},
    "tool named": {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "get_weather"}}, "max_tokens": 60, "ignore_eos": False, "temperature": 0},
    "tool required": {"tools": [TOOL], "tool_choice": "required", "max_tokens": 120, "ignore_eos": False, "temperature": 0},
    "json schema": {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}, "max_tokens": 60, "ignore_eos": False},
    "json object": {"response_format": {"type": "json_object"}, "max_tokens": 8}, "format text": {"response_format": {"type": "text"}},
    "token ids": {"return_token_ids": True}, "one token": {"max_tokens": 1}, "max_completion_tokens": {"max_tokens": ABSENT, "max_completion_tokens": 4},
    "both maxima": {"max_tokens": 2, "max_completion_tokens": 4}, "max in text": {"max_tokens": "4"}, "max 4.0": {"max_tokens": 4.0}, "max true": {"max_tokens": True},
    "nulls": {"temperature": None, "top_p": None, "stop": None, "tools": None, "n": None, "stream": None, "seed": None, "user": None, "logprobs": None, "response_format": None, "stream_options": None},
    "system": {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]}, "parts": {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]},
    "unknown field": {"foo": {"bar": 1}}, "unknown role": {"messages": [{"role": "alien", "content": "Hi"}]}, "developer": {"messages": [{"role": "developer", "content": "Hi"}]},
    "priority": {"priority": -3}, "salt": {"cache_salt": SALT}, "request id": {"request_id": "abc"}, "seed": {"seed": 5}, "min tokens": {"min_tokens": 2}, "guided_json": {"guided_json": SCHEMA},
    "stream in text": {"stream": "no"}, "prompt logprobs": {"prompt_logprobs": 1}, "parallel": {"parallel_tool_calls": False}, "service tier": {"service_tier": "auto"}, "metadata": {"metadata": {"a": "b"}},
    "reasoning effort": {"reasoning_effort": "low"}, "assistant last": {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]},
    "tool turn": {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "", "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}, {"role": "tool", "tool_call_id": "a", "content": "1"}]},
}  # fmt: skip

STREAM_GOOD: dict[str, dict[str, Any]] = {
    "plain": {}, "usage": {"stream_options": {"include_usage": True}}, "no usage": {"stream_options": {"include_usage": False}}, "continuous": {"stream_options": {"include_usage": True, "continuous_usage_stats": True}},
    "continuous alone": {"stream_options": {"continuous_usage_stats": True}}, "empty options": {"stream_options": {}}, "n": {"n": 2, "temperature": 1, "max_tokens": 1}, "logprobs": {"logprobs": True, "top_logprobs": 2},
    "token ids": {"return_token_ids": True}, "one token": {"max_tokens": 1}, "stops by itself": {"ignore_eos": False, "max_tokens": 60, "temperature": 0},
    "tool named": {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "get_weather"}}, "max_tokens": 60, "ignore_eos": False, "temperature": 0},
    "tool required": {"tools": [TOOL], "tool_choice": "required", "max_tokens": 120, "ignore_eos": False, "temperature": 0}, "tools auto": {"tools": [TOOL]},
    "json schema": {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}, "max_tokens": 60, "ignore_eos": False}, "both": {"logprobs": True, "stream_options": {"include_usage": True}},
}  # fmt: skip

LONG = "word " * 3000
CHAT_BAD: dict[str, dict[str, Any]] = {
    "no messages": {"messages": ABSENT}, "messages null": {"messages": None}, "messages text": {"messages": "hi"}, "messages empty": {"messages": []}, "message number": {"messages": [1]},
    "no role": {"messages": [{"content": "x"}]}, "content number": {"messages": [{"role": "user", "content": 1}]}, "no content": {"messages": [{"role": "user"}]}, "content null": {"messages": [{"role": "user", "content": None}]},
    "content empty list": {"messages": [{"role": "user", "content": []}]}, "part unknown": {"messages": [{"role": "user", "content": [{"type": "smell", "smell": "x"}]}]},
    "image": {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]}]},
    "model unknown": {"model": "none"}, "model number": {"model": 5}, "max too large": {"max_tokens": 100000}, "max beyond room": {"max_tokens": 1020}, "max 0": {"max_tokens": 0}, "max -1": {"max_tokens": -1},
    "max text": {"max_tokens": "many"}, "max 4.5": {"max_tokens": 4.5}, "max list": {"max_tokens": []}, "max_completion_tokens too large": {"max_tokens": ABSENT, "max_completion_tokens": 100000}, "max_completion_tokens 0": {"max_tokens": ABSENT, "max_completion_tokens": 0},
    "too long": {"messages": [{"role": "user", "content": LONG}]}, "too long without max": {"messages": [{"role": "user", "content": LONG}], "max_tokens": ABSENT},
    "temperature -1": {"temperature": -1}, "temperature 3": {"temperature": 3}, "temperature text": {"temperature": "hot"}, "top_p 0": {"top_p": 0}, "top_p 2": {"top_p": 2}, "top_k -2": {"top_k": -2}, "top_k text": {"top_k": "x"},
    "min_p 2": {"min_p": 2}, "presence 3": {"presence_penalty": 3}, "frequency -3": {"frequency_penalty": -3}, "repetition 0": {"repetition_penalty": 0}, "repetition -1": {"repetition_penalty": -1},
    "n 0": {"n": 0}, "n -1": {"n": -1}, "n huge": {"n": 100000}, "n text": {"n": "x"}, "n greedy": {"n": 2, "temperature": 0}, "stop empty": {"stop": ""}, "stop has empty": {"stop": ["a", ""]}, "stop five": {"stop": list("abcde")}, "stop number": {"stop": 1}, "stop mixed": {"stop": ["a", 1]},
    "top_logprobs alone": {"top_logprobs": 2}, "top_logprobs 21": {"logprobs": True, "top_logprobs": 21}, "top_logprobs -2": {"logprobs": True, "top_logprobs": -2}, "top_logprobs text": {"logprobs": True, "top_logprobs": "x"}, "logprobs 5": {"logprobs": 5},
    "options alone": {"stream_options": {"include_usage": True}}, "options text": {"stream": True, "stream_options": "x"}, "usage text": {"stream": True, "stream_options": {"include_usage": "perhaps"}}, "stream text": {"stream": "perhaps"}, "stream 5": {"stream": 5},
    "format without schema": {"response_format": {"type": "json_schema"}}, "format unknown": {"response_format": {"type": "poem"}}, "format text": {"response_format": "json"}, "format no type": {"response_format": {}}, "schema wrong": {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "unheard"}}}},
    "schema unnamed": {"response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}}}, "structured two": {"structured_outputs": {"regex": "a", "choice": ["a"]}}, "structured none": {"structured_outputs": {}}, "regex wrong": {"structured_outputs": {"regex": "("}}, "choice empty": {"structured_outputs": {"choice": []}},
    "tools empty": {"tools": []}, "tools text": {"tools": "x"}, "tool without function": {"tools": [{"type": "function"}]}, "tool unnamed": {"tools": [{"type": "function", "function": {}}]}, "tool of another type": {"tools": [{**TOOL, "type": "x"}]}, "choice without tools": {"tool_choice": "auto"},
    "choice unknown": {"tools": [TOOL], "tool_choice": "perhaps"}, "choice other": {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "other"}}}, "choice unnamed": {"tools": [TOOL], "tool_choice": {"type": "function", "function": {}}}, "choice empty": {"tools": [TOOL], "tool_choice": {}}, "choice number": {"tools": [TOOL], "tool_choice": 1},
    "min over max": {"min_tokens": 9}, "min -1": {"min_tokens": -1}, "salt empty": {"cache_salt": ""}, "salt 129": {"cache_salt": "x" * 129}, "salt 1025": {"cache_salt": "x" * 1025}, "salt at": {"cache_salt": "a@b"}, "salt slash": {"cache_salt": "a/b"}, "salt number": {"cache_salt": 5},
    "priority text": {"priority": "x"}, "priority 2.5": {"priority": 2.5}, "priority null": {"priority": None}, "bias far": {"logit_bias": {"99999999": 1}}, "bias text": {"logit_bias": {"x": 1}}, "bias list": {"logit_bias": []}, "bias huge": {"logit_bias": {"5": 1000}}, "seed text": {"seed": "x"}, "seed huge": {"seed": 2**70}, "user number": {"user": 5},
    "both prompts": {"add_generation_prompt": True, "continue_final_message": True}, "template": {"chat_template": "{{ 1 }}"}, "allowed none": {"allowed_token_ids": []}, "allowed far": {"allowed_token_ids": [99999999]}, "stop ids text": {"stop_token_ids": ["x"]}, "bad words number": {"bad_words": [1]}, "bad words empty": {"bad_words": [""]},
    "truncate -5": {"truncate_prompt_tokens": -5}, "truncate far": {"truncate_prompt_tokens": 99999}, "beam": {"use_beam_search": True}, "beam stream": {"use_beam_search": True, "stream": True}, "prompt logprobs stream": {"stream": True, "prompt_logprobs": 1}, "prompt logprobs -2": {"prompt_logprobs": -2}, "two wrong": {"temperature": "x", "top_p": "y"},
    "effort unknown": {"reasoning_effort": "immense"}, "request_id number": {"request_id": 5}, "stream and wrong": {"stream": True, "temperature": 3}, "stream and unknown model": {"stream": True, "model": "none"}, "stream and too long": {"stream": True, "messages": [{"role": "user", "content": LONG}]},
    "echo": {"echo": True}, "best_of": {"best_of": 3}, "kv_transfer_params text": {"kv_transfer_params": "x"}, "unknown tool call id": {"messages": [{"role": "tool", "content": "x"}]}, "function role": {"messages": [{"role": "function", "name": "f", "content": "x"}]},
}  # fmt: skip

COMPLETION_GOOD: dict[str, dict[str, Any]] = {
    "plain": {}, "ids": {"prompt": [5, 6, 7]}, "two": {"prompt": ["a", "b"]}, "two of ids": {"prompt": [[5, 6], [7]]}, "n": {"n": 2, "temperature": 1}, "logprobs": {"logprobs": 2}, "logprobs 0": {"logprobs": 0}, "echo": {"echo": True}, "echo logprobs": {"echo": True, "logprobs": 1},
    "echo alone": {"echo": True, "max_tokens": 0}, "token ids": {"return_token_ids": True}, "default max": {"max_tokens": ABSENT}, "max null": {"max_tokens": None}, "suffix null": {"suffix": None}, "stop": {"stop": ["zzz"]}, "json object": {"response_format": {"type": "json_object"}}, "prompt logprobs": {"prompt_logprobs": 1}, "best_of": {"best_of": 2},
}  # fmt: skip
COMPLETION_STREAM: dict[str, dict[str, Any]] = {
    "plain": {}, "usage": {"stream_options": {"include_usage": True}}, "continuous": {"stream_options": {"include_usage": True, "continuous_usage_stats": True}}, "logprobs": {"logprobs": 2}, "echo": {"echo": True}, "two": {"prompt": ["a", "b"], "max_tokens": 1}, "token ids": {"return_token_ids": True}, "one token": {"max_tokens": 1},
}  # fmt: skip
COMPLETION_BAD: dict[str, dict[str, Any]] = {
    "no prompt": {"prompt": ABSENT}, "prompt null": {"prompt": None}, "prompt empty": {"prompt": ""}, "prompt empty list": {"prompt": []}, "prompt of empties": {"prompt": [""]}, "prompt number": {"prompt": 5}, "prompt mixed": {"prompt": ["a", 5]}, "prompt object": {"prompt": {}}, "ids far": {"prompt": [99999999]}, "ids negative": {"prompt": [-1]},
    "logprobs 21": {"logprobs": 21}, "logprobs -2": {"logprobs": -2}, "logprobs true": {"logprobs": True}, "suffix": {"suffix": "x"}, "too long": {"prompt": LONG}, "max too large": {"max_tokens": 100000}, "max 0": {"max_tokens": 0}, "model unknown": {"model": "none"}, "echo stream logprobs": {"stream": True, "echo": True, "prompt_logprobs": 1}, "best_of less": {"n": 3, "best_of": 2},
    "options alone": {"stream_options": {"include_usage": True}}, "n greedy": {"n": 2, "temperature": 0}, "too many prompts": {"prompt": ["a"] * 1025},
}  # fmt: skip
TOKENIZE: dict[str, dict[str, Any]] = {
    "prompt": {"prompt": "hello"}, "messages": {"messages": [{"role": "user", "content": "hi"}]}, "strings": {"prompt": "hello", "return_token_strs": True}, "nothing": {}, "prompt number": {"prompt": 5}, "prompt list": {"prompt": ["a"]}, "unknown model": {"model": "none", "prompt": "x"}, "no model": {"model": ABSENT, "prompt": "x"},
    "both": {"prompt": "a", "messages": [{"role": "user", "content": "hi"}]}, "messages empty": {"messages": []}, "prompt empty": {"prompt": ""},
}  # fmt: skip
DETOKENIZE: dict[str, dict[str, Any]] = {
    "tokens": {"tokens": [28120]}, "empty": {"tokens": []}, "missing": {}, "text": {"tokens": "x"}, "texts": {"tokens": ["x"]}, "negative": {"tokens": [-1]}, "far": {"tokens": [99999999]}, "unknown model": {"model": "none", "tokens": [1]}, "no model": {"model": ABSENT, "tokens": [5]},
}  # fmt: skip
