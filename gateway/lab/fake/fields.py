"""Types of request fields as vLLM's models declare them, with the leniency and the wording of their validator.

A number in a string is a number, 5.0 is the integer 5, null is nearly always allowed, and fields that nobody declared pass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gateway.lab.fake.errors import invalid

_INT = "int"
_FLOAT = "float"
_BOOL = "bool"
_STR = "str"
_LIST = "list"
_DICT = "dict"

_SAMPLING = {
    "model": _STR, "user": _STR, "frequency_penalty": _FLOAT, "presence_penalty": _FLOAT, "repetition_penalty": _FLOAT,
    "temperature": _FLOAT, "top_p": _FLOAT, "min_p": _FLOAT, "top_k": _INT, "logit_bias": _DICT, "seed": _INT, "n": _INT,
    "max_tokens": _INT, "min_tokens": _INT, "stream": _BOOL, "stream_options": _DICT, "ignore_eos": _BOOL, "echo": _BOOL,
    "include_stop_str_in_output": _BOOL, "stop_token_ids": _LIST, "skip_special_tokens": _BOOL, "use_beam_search": _BOOL,
    "response_format": _DICT, "structured_outputs": _DICT, "priority": _INT, "request_id": _STR, "cache_salt": _STR,
    "return_token_ids": _BOOL, "kv_transfer_params": _DICT, "ec_transfer_params": _DICT, "bad_words": _LIST,
    "truncate_prompt_tokens": _INT, "prompt_logprobs": _INT, "allowed_token_ids": _LIST, "session_id": _STR,
}  # fmt: skip

CHAT = _SAMPLING | {
    "messages": _LIST, "logprobs": _BOOL, "top_logprobs": _INT, "max_completion_tokens": _INT, "tools": _LIST,
    "parallel_tool_calls": _BOOL, "include_reasoning": _BOOL, "chat_template_kwargs": _DICT, "documents": _LIST,
    "add_generation_prompt": _BOOL, "continue_final_message": _BOOL, "chat_template": _STR, "reasoning_effort": _STR,
}  # fmt: skip
COMPLETIONS = _SAMPLING | {"logprobs": _INT, "suffix": _STR}
EMBEDDINGS = {
    "model": _STR, "user": _STR, "dimensions": _INT, "encoding_format": _STR, "priority": _INT, "cache_salt": _STR,
    "truncate_prompt_tokens": _INT, "request_id": _STR,
}  # fmt: skip
RESPONSES = {
    "model": _STR, "instructions": _STR, "max_output_tokens": _INT, "stream": _BOOL, "temperature": _FLOAT, "top_p": _FLOAT,
    "tools": _LIST, "background": _BOOL, "store": _BOOL, "previous_response_id": _STR, "metadata": _DICT, "user": _STR,
    "cache_salt": _STR, "priority": _INT, "request_id": _STR, "kv_transfer_params": _DICT, "ec_transfer_params": _DICT,
}  # fmt: skip
MESSAGES = {
    "model": _STR, "messages": _LIST, "max_tokens": _INT, "stream": _BOOL, "temperature": _FLOAT, "top_p": _FLOAT,
    "top_k": _INT, "stop_sequences": _LIST, "tools": _LIST, "tool_choice": _DICT, "metadata": _DICT, "cache_salt": _STR,
    "kv_transfer_params": _DICT, "ec_transfer_params": _DICT,
}  # fmt: skip
SCORING = {
    "model": _STR, "user": _STR, "top_n": _INT, "truncate_prompt_tokens": _INT, "priority": _INT, "request_id": _STR,
    "cache_salt": _STR, "max_tokens_per_query": _INT, "max_tokens_per_doc": _INT,
}  # fmt: skip
TOKENIZE = {"model": _STR, "prompt": _STR, "messages": _LIST, "add_special_tokens": _BOOL, "return_token_strs": _BOOL}
DETOKENIZE = {"model": _STR, "tokens": _LIST}

_NO_DICT = "Input should be a valid dictionary"
_NOT_NULL = frozenset({"messages", "prompt", "tokens", "min_tokens", "ignore_eos", "priority", "request_id", "input"})
_EXACT: Mapping[str, type] = {_INT: int, _FLOAT: float, _BOOL: bool, _STR: str, _LIST: list, _DICT: dict}


class _Wrong(Exception):  # noqa: N818 - carries a pydantic error, and is never seen outside
    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message


def check(body: dict[str, Any], kinds: Mapping[str, str], required: str | None = None) -> None:
    """Coerces in place; raises one error that lists every field that is wrong."""
    errors: list[dict[str, Any]] = []
    if required is not None and required not in body:
        errors.append({"type": "missing", "loc": f"body.{required}", "msg": "Field required", "input": dict(body)})
    for name, value in body.items():
        kind = kinds.get(name)
        if kind is None or type(value) is _EXACT[kind] or (value is None and name not in _NOT_NULL):
            continue
        try:
            body[name] = _COERCE[kind](value)
        except _Wrong as wrong:
            errors.append({"type": wrong.kind, "loc": f"body.{name}", "msg": wrong.message, "input": value})
    if errors:
        raise invalid(errors)


def conversation(body: Mapping[str, Any]) -> None:
    """Messages need a role, tools a function with a name; what else they hold is the template's to judge."""
    for at, message in enumerate(body["messages"]):
        if not isinstance(message, dict):
            raise invalid([{"type": "dict_type", "loc": f"body.messages.{at}", "msg": _NO_DICT, "input": message}])
        if not isinstance(message.get("role"), str):
            raise invalid([{"type": "missing", "loc": f"body.messages.{at}.role", "msg": "Field required", "input": message}])
    for at, tool in enumerate(body.get("tools") or ()):
        function = tool.get("function") if isinstance(tool, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise invalid([{"type": "missing", "loc": f"body.tools.{at}.function", "msg": "Field required", "input": tool}])


def _to_int(value: object) -> int:
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, float):
        if value.is_integer():
            return int(value)
        raise _Wrong("int_from_float", "Input should be a valid integer, got a number with a fractional part")
    if isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            raise _Wrong("int_parsing", "Input should be a valid integer, unable to parse string as an integer") from None
    raise _Wrong("int_type", "Input should be a valid integer")


def _to_float(value: object) -> float:
    if isinstance(value, (int, float)):
        return float(value) if abs(value) < 1e300 else float("inf")
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            raise _Wrong("float_parsing", "Input should be a valid number, unable to parse string as a number") from None
    raise _Wrong("float_type", "Input should be a valid number")


def _to_bool(value: object) -> bool:
    word = value.lower() if isinstance(value, str) else value
    if isinstance(word, (str, int, float)):
        if word in ("true", "t", "yes", "y", "on", "1", 1):
            return True
        if word in ("false", "f", "no", "n", "off", "0", 0):
            return False
        raise _Wrong("bool_parsing", "Input should be a valid boolean, unable to interpret input")
    raise _Wrong("bool_type", "Input should be a valid boolean")


def _refuse(kind: str, message: str) -> Callable[[object], Any]:
    def refuse(_: object) -> Any:
        raise _Wrong(kind, message)

    return refuse


_COERCE: Mapping[str, Callable[[Any], Any]] = {
    _INT: _to_int,
    _FLOAT: _to_float,
    _BOOL: _to_bool,
    _STR: _refuse("string_type", "Input should be a valid string"),
    _LIST: _refuse("list_type", "Input should be a valid list"),
    _DICT: _refuse("dict_type", _NO_DICT),
}
