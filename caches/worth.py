"""Whether an answer is worth keeping: whole, come to its own end, and saying something.

Never kept, whatever asked for it: errors; what was cut (`length`, `max_output_tokens`), filtered, aborted or ended in a way
that nobody knows yet; what is empty, or nothing but white space or reasoning; calls without a name, or with arguments that
are no JSON: who calls those is told so and asks again, and would get the same again; answers of which one choice is such.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

_FINISHED = ("stop", "tool_calls", "function_call")  # not length, content_filter, abort, error: nor what is new
_STOPPED = ("end_turn", "tool_use", "stop_sequence")  # Anthropic's; not max_tokens, refusal, pause_turn
_CALLING = {"function": "arguments", "custom": "input"}  # kinds of calls, and where each has what the model wrote

_decode = msgspec.json.decode


class Message(msgspec.Struct):
    content: Any = None
    tool_calls: Any = None
    function_call: Any = None


class Choice(msgspec.Struct):
    """As much of a choice as tells in nearly every case that its answer is worth keeping."""

    message: Message | None = None
    finish_reason: Any = None


def plainly_worth_keeping(choices: list[Choice] | None, body: bytes) -> bool:
    """Of the body of a chat answer without an error, which these are the choices of: whether it is seen without the rest.

    False says nothing: see `worth_keeping`.
    """
    if not choices:
        return False
    for choice in choices:
        message = choice.message
        if message is None or choice.finish_reason not in _FINISHED or message.tool_calls or message.function_call:
            return False
        content = message.content
        if type(content) is not str or not content or content.isspace():
            return False
    try:
        str(body, "utf-8")  # what was passed over when the choices were read may be none
    except UnicodeDecodeError:
        return False
    return True


def worth_keeping(answer: Mapping[str, Any]) -> bool:
    """Of the body of a 2xx answer of any endpoint. It never raises, whatever the body holds."""
    if answer.get("error") is not None:
        return False
    if answer.get("object") == "response":
        return _whole_response(answer)
    if answer.get("type") == "message":
        return answer.get("stop_reason") in _STOPPED and _all_told(answer.get("content"), _block)
    data = answer.get("data")
    if type(data) is list and "choices" not in answer:
        return bool(data) and all(type(item) is dict and bool(item.get("embedding")) for item in data)
    choices = answer.get("choices")
    return type(choices) is list and bool(choices) and all(map(_finished, choices))


def _finished(choice: Any) -> bool:
    """Whether a choice came to its own end and is not empty."""
    if type(choice) is not dict or choice.get("finish_reason") not in _FINISHED:
        return False
    message = choice.get("message")
    if type(message) is not dict:
        return _says(choice.get("text"))
    calls, call = message.get("tool_calls"), message.get("function_call")
    if calls and not (type(calls) is list and all(map(_good_call, calls))):
        return False
    if call and not (type(call) is dict and _good_function(call, "arguments")):
        return False
    return bool(calls or call or _says(message.get("content")) or _says(message.get("refusal")) or message.get("audio"))


def _says(value: Any) -> bool:
    return bool(value) and not (type(value) is str and value.isspace())


def _good_call(call: Any) -> bool:
    if type(call) is not dict:
        return False
    kind = call.get("type") or "function"
    written = _CALLING.get(kind) if type(kind) is str else None
    inner = call.get(kind) if written is not None else None
    return type(inner) is dict and written is not None and _good_function(inner, written)


def _good_function(function: dict[str, Any], written: str) -> bool:
    """A name, and arguments that can be read; what is written for a tool of the client's own kind is free."""
    name, value = function.get("name"), function.get(written)
    if type(name) is not str or not name:
        return False
    return type(value) is str if written == "input" else _is_json(value)


def _is_json(arguments: Any) -> bool:
    """Arguments are an object, as text; some backends send the object itself."""
    if type(arguments) is dict:
        return True
    try:
        return type(arguments) is str and type(_decode(arguments)) is dict
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return False


def _whole_response(answer: Mapping[str, Any]) -> bool:
    """An answer of /v1/responses."""
    whole = answer.get("status") == "completed" and answer.get("incomplete_details") is None
    return whole and _all_told(answer.get("output"), _item)


def _all_told(parts: Any, told: Callable[[dict[str, Any]], bool | None]) -> bool:
    """Whether something says something, and nothing spoils it: what a tool of the server made, or a kind that nobody knows."""
    if type(parts) is not list or not all(type(part) is dict for part in parts):
        return False
    said = [told(part) for part in parts]
    return None not in said and True in said


def _item(item: dict[str, Any]) -> bool | None:
    """Whether an item of a response says something; None: it spoils the answer."""
    if item.get("status", "completed") not in ("completed", None):
        return None
    match item.get("type"):
        case "reasoning":
            return False
        case "message":
            parts = item.get("content")
            if type(parts) is not list or not all(type(part) is dict for part in parts):
                return None
            return any(_says(part.get("text")) or _says(part.get("refusal")) for part in parts)
        case "function_call":
            return _good_function(item, "arguments") or None
        case "custom_tool_call":
            return _good_function(item, "input") or None
    return None


def _block(block: dict[str, Any]) -> bool | None:
    """Whether a block of a message (Anthropic's) says something; None: it spoils the answer."""
    match block.get("type"):
        case "thinking" | "redacted_thinking":
            return False
        case "text":
            return _says(block.get("text"))
        case "tool_use":
            name = block.get("name")
            return (type(name) is str and bool(name) and type(block.get("input")) is dict) or None
    return None
