"""Requests that are asked of vLLM directly and through the gateway, and what of two answers has to be the same.

Everything but ids, times and probabilities. vLLM puts one token into an event or several, as it comes: of a stream the shapes of
its events count, repeated ones once, the words of each choice one after the other, and the last usage.
"""

import itertools
import json
from dataclasses import dataclass, replace
from typing import Any

import httpx

TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "the weather of a city",
        "strict": True,
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "maxLength": 8}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}
SCHEMA = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"], "additionalProperties": False}
GREEDY = {"temperature": 0, "seed": 1}
USAGE = {"stream_options": {"include_usage": True}}
CHAT, TEXT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages"
_VARYING = {"id", "created", "created_at", "completed_at", "item_id", "request_id", "call_id", "logprob", "cached_tokens"}
_VARYING |= {"token_logprobs", "top_logprobs", "cache_read_input_tokens", "created_cache_tokens"}
_WORDS = {"content", "text", "arguments", "reasoning", "delta", "partial_json", "token", "tokens"}


@dataclass(frozen=True)
class Case:
    name: str
    path: str
    fields: dict[str, Any]
    stream: bool = False
    keeps: bool = True  # the cache

    @property
    def told_at_the_end(self) -> bool:
        """Its last chunk is the client's: nothing was left out."""
        return (
            not self.stream
            or self.path not in (CHAT, TEXT)
            or bool((self.fields.get("stream_options") or {}).get("include_usage"))
        )

    @property
    def body(self) -> dict[str, Any]:
        options = {} if self.stream else {"stream_options": None}
        streamed = {"stream": True} if self.stream else {}
        return {name: value for name, value in {**self.fields, **streamed, **options}.items() if value is not None}

    def other_mode(self) -> "Case":
        return replace(self, stream=not self.stream)

    def with_words(self, words: str) -> "Case":
        """Asked about something of its own."""
        fields = json.loads(json.dumps(self.fields).replace("Say a number.", f"Say a number. ({words})"))
        return replace(self, fields=fields)


def cases():
    """Each with a stream and without."""
    for (name, path, fields, keeps), stream in itertools.product(_asked(), (False, True)):
        yield Case(f"{name}, {'streamed' if stream else 'whole'}", path, fields, stream, keeps)


def _asked():
    chat = {"messages": [{"role": "user", "content": "Say a number."}], "max_tokens": 48, "stop": ["\n"], **GREEDY}
    weather = {**chat, "tools": [TOOL], "max_tokens": 60, "stop": None}  # a stop in a call: vLLM tells of it whole, not streamed
    sampled = {"temperature": 1, "seed": 5, "n": 2}
    named = {"type": "function", "function": {"name": "get_weather"}}
    schema = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA, "strict": True}}
    call = {"id": "c1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Rome"}'}}
    turns = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Say a number."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "sunny 晴れ 👋🏽"},
    ]
    text = {"prompt": "Say a number. One, two, 三,", "max_tokens": 32, "stop": [",", "."], **GREEDY}
    yield "chat", CHAT, chat, True
    yield "chat, usage", CHAT, {**chat, **USAGE}, True
    yield "chat, usage all along", CHAT, {**chat, "stream_options": {"include_usage": True, "continuous_usage_stats": True}}, True
    yield "chat, usage all along alone", CHAT, {**chat, "stream_options": {"continuous_usage_stats": True}}, True
    yield "chat, usage refused", CHAT, {**chat, "stream_options": {"include_usage": False}}, True
    yield "chat, by its length", CHAT, {**chat, "max_tokens": 3}, False
    yield "chat, stop", CHAT, {**chat, "stop": ["."], **USAGE}, True
    yield "chat, probabilities", CHAT, {**chat, "logprobs": True, **USAGE}, True
    yield "chat, more probabilities", CHAT, {**chat, "logprobs": True, "top_logprobs": 3, **USAGE}, True
    yield "chat, two answers", CHAT, {**chat, **sampled, **USAGE}, True
    yield "chat, two answers, probabilities", CHAT, {**chat, **sampled, "logprobs": True, "top_logprobs": 2, **USAGE}, True
    yield "chat, tool named", CHAT, {**weather, "tool_choice": named, **USAGE}, True
    yield "chat, tool required", CHAT, {**weather, "tool_choice": "required", "max_tokens": 120, **USAGE}, True
    yield "chat, two answers, tool required", CHAT, {**weather, **sampled, "tool_choice": "required", **USAGE}, False
    yield "chat, tools by choice", CHAT, {**weather, **USAGE}, True
    yield "chat, schema", CHAT, {**chat, "response_format": schema, "max_tokens": 60, **USAGE}, True
    yield "chat, after a tool", CHAT, {**chat, "messages": turns, "tools": [TOOL], **USAGE}, True
    yield "chat, token ids", CHAT, {**chat, "return_token_ids": True, **USAGE}, False
    yield "text", TEXT, text, True
    yield "text, usage", TEXT, {**text, **USAGE}, True
    yield "text, two prompts", TEXT, {**text, "prompt": ["Say a number.", "One,"], **USAGE}, True
    yield "text, two answers, probabilities", TEXT, {**text, **sampled, "logprobs": 2, **USAGE}, True
    yield "text, echo", TEXT, {**text, "echo": True, **USAGE}, True
    yield "responses", RESPONSES, {"input": "Say a number.", "max_output_tokens": 24, "temperature": 0}, True
    yield "messages", MESSAGES, {"messages": chat["messages"], "max_tokens": 24, "temperature": 0}, True
    yield "refused", CHAT, {**chat, "temperature": 3}, False


def ask(port: int, case: Case, model: str, key: str, **headers: str) -> httpx.Response:
    url, told = f"http://127.0.0.1:{port}{case.path}", {"authorization": f"Bearer {key}", **headers}
    return httpx.post(url, json={"model": model, **case.body}, headers=told, timeout=600, trust_env=False)


def differences(theirs: httpx.Response, ours: httpx.Response, *, kept: bool = False, fingerprint: bool = True) -> list[str]:
    """One line for each part that is not the same. What was `kept` says the same, in events and an order of keys of its own.

    vLLM tells its fingerprint in the last chunk, so it goes with the usage that only the gateway asked for: not `fingerprint`.
    """
    one, other = (essence(each) if kept else told(each, fingerprint=fingerprint) for each in (theirs, ours))
    return [f"{part}: vLLM {one[part]!r}, through the gateway {other[part]!r}" for part in one if one[part] != other[part]]


def told(answer: httpx.Response, *, fingerprint: bool = True) -> dict[str, Any]:
    kind = answer.headers["content-type"].partition(";")[0]
    found = {"status": answer.status_code, "content type": kind}
    if kind == "text/event-stream":
        return {**found, **_stream(answer.text, () if fingerprint else ("system_fingerprint",))}
    return {**found, "body": _same(answer.json())}


def was_cut(answer: httpx.Response) -> bool:
    """It ended by its length, or a choice of it did."""
    text = answer.text.replace(" ", "")
    return any(sign in text for sign in ('"finish_reason":"length"', '"stop_reason":"max_tokens"', '"status":"incomplete"'))


def essence(answer: httpx.Response) -> dict[str, Any]:
    """What an answer says, why it ended, what it cost, and whether a stream was ended as its API ends one."""
    kind, words = answer.headers["content-type"].partition(";")[0], dict[Any, str]()
    if kind == "text/event-stream":
        found = _stream(answer.text)
        words |= {place: said for place, said in found["words"].items() if not {"item", "part"} & set(place)}
        usage, end = found["usage"], found["last"][-1][0]
    else:
        _gather(answer.json(), (), words)
        usage, end = answer.json().get("usage"), ""
    meant = {place: _arguments(said) if place[-1] == "arguments" else said for place, said in words.items()}
    return {"status": answer.status_code, "kind": kind, "end": end, "words": meant, **_counts(usage)}


def _arguments(said: str) -> Any:
    """What a call's arguments mean: vLLM writes them anew in a whole answer, and streams them as the model wrote them."""
    try:
        return json.loads(said)
    except ValueError:
        return said


def _counts(usage: dict[str, Any] | None) -> dict[str, Any]:
    names = ("prompt_tokens", "completion_tokens", "total_tokens", "output_tokens")
    return {"usage": None if usage is None else {name: usage.get(name) for name in names}}


def _stream(text: str, without: tuple[str, ...] = ()) -> dict[str, Any]:
    blocks = text.split("\n\n")
    assert blocks.pop() == "", "the stream does not end with an empty line"
    events = [_event(block) for block in blocks]
    shapes = [(name, "[DONE]" if data is None else _outline(_less(data, without))) for name, data in events]
    said: dict[Any, str] = {}
    usage = None
    for _, data in events:
        for choice in (data or {}).get("choices") or [data or {}]:
            _gather(choice, (choice.get("index"),), said)
        usage = (data or {}).get("usage") or ((data or {}).get("response") or {}).get("usage") or usage
    each = [one for one, _ in itertools.groupby(sorted(shapes, key=repr))]
    return {"events": each, "first": shapes[0], "last": shapes[-2:], "words": said, "usage": _same(usage)}


def _event(block: str) -> tuple[str, Any]:
    fields = dict(line.partition(": ")[::2] for line in block.split("\n"))
    return fields.get("event", ""), None if fields["data"] == "[DONE]" else json.loads(fields["data"])


def _less(data: dict[str, Any], without: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name, value in data.items() if name not in without}


def _gather(value: Any, where: tuple[Any, ...], said: dict[Any, str]) -> None:
    """The words under each place, in the order in which they came; a list's elements by their own index, where they have one."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if name in _WORDS and isinstance(inner, str):
                said[*where, name] = said.get((*where, name), "") + inner
            elif name == "finish_reason" and inner is not None:
                said[*where, name] = inner
            else:
                _gather(inner, (*where, name), said)
    elif isinstance(value, list):
        for inner in value:
            _gather(inner, (*where, inner.get("index") if isinstance(inner, dict) else None), said)


def _same(value: Any, name: str = "") -> Any:
    """A value without what varies from one call to the next."""
    if name in _VARYING:
        return _outline(value)
    if isinstance(value, dict):
        if "cache_read_input_tokens" in value:  # what came from the cache is not among the others
            value = {**value, "input_tokens": value["input_tokens"] + (value["cache_read_input_tokens"] or 0)}
        return {inner: _same(each, inner) for inner, each in value.items()}
    return [_same(each) for each in value] if isinstance(value, list) else value


def _outline(value: Any) -> Any:
    if isinstance(value, dict):
        return [(name, _outline(inner)) for name, inner in value.items()]
    if isinstance(value, list):
        return [one for one, _ in itertools.groupby(map(_outline, value))]
    return type(value).__name__
