"""Fields whose types say more than a kind: bounds, literals, items, unions. The errors are those of vLLM's models.

A union tells what is wrong with each of its members, one after the other, so that one wrong value is several errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from gateway.lab.fake.coerce import NO_MODEL, Wrong, to_bool, to_int

Error = dict[str, Any]
_INT64 = 2**63
_MAX_STOPS = 4
_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_FORMATS = ("text", "json_object", "json_schema")


def error(kind: str, loc: str, message: str, value: Any, ctx: Error | None = None) -> Error:
    found = {"type": kind, "loc": f"body.{loc}", "msg": message, "input": value}
    return found if ctx is None else {**found, "ctx": ctx}


def missing(loc: str, value: Any) -> Error:
    return error("missing", loc, "Field required", value)


def literal(loc: str, allowed: tuple[str, ...], value: Any) -> Error:
    quoted = [repr(word) for word in allowed]
    expected = f"{', '.join(quoted[:-1])} or {quoted[-1]}" if len(quoted) > 1 else quoted[0]
    return error("literal_error", loc, f"Input should be {expected}", value, {"expected": expected})


def at_least(least: int, loc: str, value: int) -> Iterator[Error]:
    if value < least:
        message = f"Input should be greater than or equal to {least}"
        yield error("greater_than_equal", loc, message, value, {"ge": least})


def strings(loc: str, values: list[Any]) -> Iterator[Error]:
    for at, value in enumerate(values):
        if not isinstance(value, str):
            yield error("string_type", f"{loc}.{at}", "Input should be a valid string", value)


def integers(loc: str, values: list[Any], least: int | None = None) -> Iterator[Error]:
    for at, value in enumerate(values):
        if type(value) is not int:
            try:
                values[at] = to_int(value)
            except Wrong as wrong:
                yield error(wrong.kind, f"{loc}.{at}", wrong.message, value)
                continue
        if least is not None:
            yield from at_least(least, f"{loc}.{at}", values[at])


def stop(value: Any) -> Iterator[Error]:
    """A string, or a list of up to four."""
    if isinstance(value, str):
        return
    if not isinstance(value, list):
        yield error("string_type", "stop", "Input should be a valid string", value)
        yield error("list_type", "stop", "Input should be a valid list", value)
        return
    found = list(strings("stop", value))
    if not found and len(value) > _MAX_STOPS:
        message = f"List should have at most {_MAX_STOPS} items after validation, not {len(value)}"
        ctx = {"field_type": "List", "max_length": _MAX_STOPS, "actual_length": len(value)}
        found = [error("too_long", "stop", message, value, ctx)]
    if found:
        yield error("string_type", "stop", "Input should be a valid string", value)
        yield from found


def seed(value: int) -> Iterator[Error]:
    yield from at_least(-_INT64, "seed", value)
    if value >= _INT64:
        message = f"Input should be less than or equal to {_INT64 - 1}"
        yield error("less_than_equal", "seed", message, value, {"le": _INT64 - 1})


def reasoning_effort(value: str) -> Iterator[Error]:
    if value not in _EFFORTS:
        yield literal("reasoning_effort", _EFFORTS, value)


def stream_options(value: Any) -> Iterator[Error]:
    if not isinstance(value, dict):
        yield error("model_attributes_type", "stream_options", NO_MODEL, value)
        return
    for name in ("include_usage", "continuous_usage_stats"):
        if value.get(name) is not None:
            try:
                value[name] = to_bool(value[name])
            except Wrong as wrong:
                yield error(wrong.kind, f"stream_options.{name}", wrong.message, value[name])


def response_format(value: Any) -> Iterator[Error]:
    """The usual form, or one of two that hold a structural tag."""
    loc = "response_format"
    if not isinstance(value, dict):
        yield from [error("model_attributes_type", loc, NO_MODEL, value)] * 3
        return
    kind, named = value.get("type"), value.get("json_schema")
    if kind == "structural_tag":
        return
    found = None
    if "type" not in value:
        found = missing(f"{loc}.type", value)
    elif kind not in _FORMATS:
        found = literal(f"{loc}.type", _FORMATS, kind)
    elif isinstance(named, dict) and "name" not in named:
        found = missing(f"{loc}.json_schema.name", named)
    if found is not None:
        other = missing(f"{loc}.type", value) if "type" not in value else literal(f"{loc}.type", ("structural_tag",), kind)
        yield from (found, other, missing(f"{loc}.format", value), other)
        yield from (missing(f"{loc}.structures", value), missing(f"{loc}.triggers", value))


def prompt(value: Any) -> Iterator[Error]:
    """Token ids, lists of them, a text, or a list of texts. Of a mixed list only the shape of vLLM's complaint is the same."""
    if isinstance(value, str) or value == []:
        return
    no_list = error("list_type", "prompt", "Input should be a valid list", value)
    no_text = error("string_type", "prompt", "Input should be a valid string", value)
    if not isinstance(value, list):
        yield from (no_list, no_list, no_text, no_list)
        return
    rows = [
        error("list_type", f"prompt.{at}", "Input should be a valid list", item)
        for at, item in enumerate(value)
        if not isinstance(item, list)
    ]
    members = [[*integers("prompt", list(value), 0)], rows, [no_text, *strings("prompt", value)]]
    if all(members) and not all(isinstance(item, str) for item in value):
        for found in members:
            yield from found


REFINED: Mapping[str, Callable[[Any], Iterator[Error]]] = {
    "stop": stop,
    "seed": seed,
    "reasoning_effort": reasoning_effort,
    "stream_options": stream_options,
    "response_format": response_format,
    "stop_token_ids": lambda value: integers("stop_token_ids", value),
    "allowed_token_ids": lambda value: integers("allowed_token_ids", value),
    "bad_words": lambda value: strings("bad_words", value),
    "tokens": lambda value: integers("tokens", value, 0),
    "truncate_prompt_tokens": lambda value: at_least(-1, "truncate_prompt_tokens", value),
}
