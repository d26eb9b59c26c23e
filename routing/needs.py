"""What a request cannot do without, read from its parsed body.

Rules
- Only what is explicit counts: a field that asks for it, or a part of that kind in a message. Nothing is guessed from text.
- `tools`: a non-empty `tools` or `functions`, unless `tool_choice` (or its `type`, or `function_call`) is "none". A
  `tool_choice` alone needs none.
- `json_schema`: output that must be constrained while decoding (schema, regex, grammar, choice). Plain `json_object` is not: any
  model can be asked for JSON.
- `vision`: image or video parts anywhere in the conversation, also inside tool results. `audio`: audio parts, or audio as an
  output modality.
- `reasoning`: an effort other than none, or thinking switched on. Chat-template switches are the model's own business.
- The body is hostile. Any shape is taken, none raises; nothing recurses; at most MAX_PARTS messages and parts are looked at,
  newest first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from routing.types import Needs

MAX_PARTS = 4096
_NONE: frozenset[str] = frozenset()

_CONSTRAINED = ("structured_outputs", "guided_json", "guided_regex", "guided_grammar", "guided_choice")
_CONSTRAINED_FORMATS = frozenset({"json_schema", "structural_tag", "regex", "grammar"})
# The fields that can ask for a capability. Most requests have none of them, which one look tells.
_ASKING = frozenset(_CONSTRAINED) | {
    "tools",
    "functions",
    "response_format",
    "text",
    "output_config",
    "reasoning_effort",
    "reasoning",
    "thinking",
    "modalities",
}
_OUTPUT_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
_LIMITING = frozenset(_OUTPUT_LIMITS)
_PART_NEEDS = {
    "image_url": "vision",
    "input_image": "vision",
    "image": "vision",
    "image_pil": "vision",
    "image_embeds": "vision",
    "video_url": "vision",
    "video": "vision",
    "input_audio": "audio",
    "audio_url": "audio",
    "audio": "audio",
}
_UNTYPED_PARTS = ("image_url", "video_url", "input_audio", "audio_url")


def needs_of(body: Mapping[str, Any], endpoint: str, prompt_tokens: int) -> Needs:
    """The capabilities and the room that the request needs."""
    found: set[str] = set()
    if not _ASKING.isdisjoint(body):
        _add_asked(body, found)
    _add_media(body.get("input" if endpoint == "responses" else "messages"), found)
    return Needs(frozenset(found) if found else _NONE, prompt_tokens, None if _LIMITING.isdisjoint(body) else _max_tokens(body))


def _add_asked(body: Mapping[str, Any], found: set[str]) -> None:
    if _wants_tools(body):
        found.add("tools")
    if _wants_constrained(body):
        found.add("json_schema")
    if _wants_reasoning(body):
        found.add("reasoning")
    modalities = body.get("modalities")
    if isinstance(modalities, list) and "audio" in modalities[:8]:
        found.add("audio")


def _wants_tools(body: Mapping[str, Any]) -> bool:
    tools, functions = body.get("tools"), body.get("functions")
    if isinstance(tools, list) and tools:
        choice = body.get("tool_choice")
        if choice != "none" and _member(choice, "type") != "none":
            return True
    return isinstance(functions, list) and bool(functions) and body.get("function_call") != "none"


def _wants_constrained(body: Mapping[str, Any]) -> bool:
    if any(body.get(field) for field in _CONSTRAINED):
        return True
    holders = (body.get("response_format"), _member(body.get("text"), "format"), _member(body.get("output_config"), "format"))
    kinds = [_member(holder, "type") for holder in holders]
    return any(isinstance(kind, str) and kind in _CONSTRAINED_FORMATS for kind in kinds)


def _wants_reasoning(body: Mapping[str, Any]) -> bool:
    for effort in (body.get("reasoning_effort"), _member(body.get("reasoning"), "effort")):
        if isinstance(effort, str) and effort.strip().lower() not in ("", "none"):
            return True
    return _member(body.get("thinking"), "type") in ("enabled", "adaptive")


def _max_tokens(body: Mapping[str, Any]) -> int | None:
    limits = [limit for field in _OUTPUT_LIMITS if type(limit := body.get(field)) is int]
    return max(0, *limits) if limits else None


def _add_media(messages: object, found: set[str]) -> None:
    """Looks at the parts of all messages, newest message first: at most MAX_PARTS messages and parts."""
    if not isinstance(messages, list):
        return
    budget = MAX_PARTS
    for message in messages[: -MAX_PARTS - 1 : -1]:
        if budget <= 0:
            return
        budget -= 1
        if message.__class__ is not dict:
            continue
        content = message.get("content")
        if content.__class__ is str:
            continue
        if isinstance(content, list):
            parts = content[:budget]
        else:
            output = message.get("output")
            parts = [message, *(output[:budget] if isinstance(output, list) else ())]
        budget -= len(parts)
        _add_parts(parts, found)


def _add_parts(parts: list[Any], found: set[str]) -> None:
    for part in _flat(parts):
        kind = part.get("type")
        if isinstance(kind, str):
            need = _PART_NEEDS.get(kind)
        else:
            need = next((_PART_NEEDS[key] for key in _UNTYPED_PARTS if key in part), None)
        if need is not None:
            found.add(need)


def _flat(parts: list[Any]) -> Iterator[dict[str, Any]]:
    """The parts, each followed by those one level down in it: a tool result's."""
    for part in parts:
        if isinstance(part, dict):
            yield part
            inner = part.get("content")
            if isinstance(inner, list):
                yield from (item for item in inner[:64] if isinstance(item, dict))


def _member(value: object, key: str) -> object:
    return value.get(key) if isinstance(value, dict) else None
