"""What an answer says, of any endpoint that generates, as one text that can be compared."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec

MOST = 64 * 1024  # characters


def said(answer: dict[str, Any]) -> str | None:
    """The text; of an answer that calls functions these as JSON. None: several answers, none, or of a kind that is no text."""
    if "output" in answer:
        pieces = _response(answer["output"])
    elif answer.get("type") == "message":
        pieces = _blocks(answer.get("content"))
    else:
        pieces = _choice(answer.get("choices"))
    if pieces is None:
        return None
    texts, calls = pieces
    text = msgspec.json.encode(calls).decode() if calls else "".join(texts)
    return text if text.strip() and len(text) <= MOST else None


Pieces = tuple[list[str], list[dict[str, Any]]]


def _choice(choices: object) -> Pieces | None:
    if type(choices) is not list or len(choices) != 1 or type(choices[0]) is not dict:
        return None
    message = choices[0].get("message")
    if type(message) is not dict:
        text = choices[0].get("text")
        return ([text], []) if type(text) is str else None
    calls = [_call(each.get("function")) for each in message.get("tool_calls") or () if type(each) is dict]
    text = message.get("content") or message.get("refusal") or ""
    return ([text], calls) if type(text) is str else None


def _response(output: object) -> Pieces | None:
    texts: list[str] = []
    calls: list[dict[str, Any]] = []
    for item in output if type(output) is list else ():
        kind = item.get("type") if type(item) is dict else None
        if kind == "function_call":
            calls.append(_call(item))
        elif kind == "message":
            texts += _texts(item.get("content"))
        elif kind != "reasoning":
            return None
    return texts, calls


def _texts(parts: object) -> list[str]:
    if type(parts) is not list:
        return []
    return [part["text"] for part in parts if type(part) is dict and type(part.get("text")) is str]


def _blocks(content: object) -> Pieces | None:
    texts: list[str] = []
    calls: list[dict[str, Any]] = []
    for block in content if type(content) is list else ():
        kind = block.get("type") if type(block) is dict else None
        if kind == "text" and type(block.get("text")) is str:
            texts.append(block["text"])
        elif kind == "tool_use":
            calls.append({"name": block.get("name"), "arguments": block.get("input")})
        elif kind not in ("thinking", "redacted_thinking"):
            return None
    return texts, calls


def _call(function: object) -> dict[str, Any]:
    if type(function) is not dict:
        return {}
    arguments = function.get("arguments")
    if type(arguments) is str:
        with suppress(msgspec.MsgspecError, RecursionError):
            arguments = msgspec.json.decode(arguments)
    return {"name": function.get("name"), "arguments": arguments}
