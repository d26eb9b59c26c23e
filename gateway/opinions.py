"""What an unstreamed answer says, and whether it stands up by itself: the small tier's part of a cascade.

An answer does not stand up that refuses, is empty, was cut short, is no JSON although JSON was asked for, or does not fit the
schema that came with the request, or calls a function that there is not, or with arguments that are no JSON or do not fit.
Whatever a model or a client wrote, nothing here raises.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from gateway.learning.said import said
from gateway.relay import json_object
from routing.agreement import agree, answer_of
from routing.refusing import refuses
from routing.schema import fits

Fault = Literal["refusal", "empty", "truncated", "invalid"]
Result = Literal["answered", "disagreement", "unsure", "unchecked", "refusal", "empty", "truncated", "invalid", "failed"]
"""What became of a try: who answered at small is `answered`, all else goes up."""

_LEAST = -10_000.0  # a log-probability of nothing that a model would say: engines write it for minus infinity


@dataclass(frozen=True, slots=True)
class Wants:
    """What an answer must be. `schema`: of a JSON answer; True: any. `tools`: the schema of each one's arguments."""

    json: bool = False
    schema: object = True
    tools: Mapping[str, object] = field(default_factory=dict)
    call: bool = False  # of a tool, and no text


@dataclass(frozen=True, slots=True)
class Opinion:
    """`text`: what can be compared. `certainty`: mean log-probability of its tokens, where they were told."""

    text: str
    fault: Fault | None = None
    certainty: float | None = None


def wants_of(fields: Mapping[str, Any]) -> Wants:
    shape = fields.get("response_format")
    kind = shape.get("type") if isinstance(shape, dict) else None
    named = shape.get("json_schema") if isinstance(shape, dict) and kind == "json_schema" else None
    schema = named.get("schema", True) if isinstance(named, dict) else True
    choice = fields.get("tool_choice")
    return Wants(kind in ("json_object", "json_schema"), schema, _tools(fields), choice == "required" or isinstance(choice, dict))


def opinions(body: bytes, wants: Wants) -> list[Opinion]:
    """One for each choice of the answer; none for what is no such answer."""
    answer = json_object(body)
    choices = answer.get("choices") if answer is not None else None
    return [_opinion(choice, wants) for choice in choices if isinstance(choice, dict)] if isinstance(choices, list) else []


def result_of(found: Sequence[Opinion], *, least: float | None) -> Result:
    """Of one opinion that must be surer than `least`, or, where that is None, of all that there are."""
    if not found:
        return "invalid"
    for opinion in found:
        if opinion.fault is not None:
            return opinion.fault
    first = found[0]
    if least is not None:
        if first.certainty is None or answer_of(first.text) is None:
            return "unchecked"
        return "answered" if first.certainty >= least else "unsure"
    if len(found) < 2:
        return "unchecked"
    same = [agree(first.text, other.text) for other in found[1:]]
    return "disagreement" if False in same else "unchecked" if None in same else "answered"


def _opinion(choice: dict[str, Any], wants: Wants) -> Opinion:
    text = said({"choices": [choice]}) or ""
    return Opinion(text, _fault(choice, text, wants), _certainty(choice.get("logprobs")))


def _fault(choice: dict[str, Any], text: str, wants: Wants) -> Fault | None:
    message = choice.get("message")
    message = message if isinstance(message, dict) else {"content": choice.get("text")}
    finish = choice.get("finish_reason")
    if finish == "length":
        return "truncated"
    if finish == "content_filter" or message.get("refusal"):
        return "refusal"
    calls = message.get("tool_calls")
    if calls:
        return None if isinstance(calls, list) and all(_callable(call, wants) for call in calls) else "invalid"
    if not text:
        return "empty"
    if wants.call:
        return "invalid"
    if wants.json:
        return None if _fits(text, wants.schema) else "invalid"
    return "refusal" if refuses(text) else None


def _callable(call: object, wants: Wants) -> bool:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict):
        return False
    name, arguments = function.get("name"), function.get("arguments")
    return isinstance(name, str) and name in wants.tools and isinstance(arguments, str) and _fits(arguments, wants.tools[name])


def _fits(text: str, schema: object) -> bool:
    try:
        value = msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return False
    return isinstance(value, dict | list) and fits(value, schema)


def _certainty(told: object) -> float | None:
    """Of chat and of completions, which tell it in two shapes."""
    if not isinstance(told, dict):
        return None
    content = told.get("content")
    if isinstance(content, list):
        values = [each.get("logprob") for each in content if isinstance(each, dict)]
    else:
        numbers = told.get("token_logprobs")
        values = numbers if isinstance(numbers, list) else []
    known = [value for value in values if isinstance(value, int | float) and _LEAST <= value <= 0]
    return math.fsum(known) / len(known) if known and len(known) == len(values) else None


def _tools(fields: Mapping[str, Any]) -> dict[str, object]:
    tools = fields.get("tools")
    found: dict[str, object] = {}
    for tool in tools if isinstance(tools, list) else ():
        function = tool.get("function") if isinstance(tool, dict) else None
        name = function.get("name") if isinstance(function, dict) else None
        if isinstance(function, dict) and isinstance(name, str):
            found[name] = function.get("parameters", True)
    return found
