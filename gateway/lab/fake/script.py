"""Replies that were written beforehand: from a file, or from markers in the prompt itself.

A file (YAML or JSON) is a list of entries, or `{"replies": [...]}`. The first entry whose `match` is a part of the last
user message (no `match`: of any message) is the reply:

    - match: weather
      reasoning: They want to know the weather.
      content: Sunny.                # or `deltas: ["Sun", "ny."]` to say how it is cut, or `json: {...}`
      tool_calls: [{name: get_weather, arguments: {city: Paris}}]
      refusal: I cannot say.
      finish_reason: stop
      tokens: 100                    # a made-up text of this many tokens
      times: 1                       # used once, then the entry is passed over
      turn: tool                     # only after a tool's result; `user`: only when there is none yet
      choices: [{content: one}, {content: two}]   # instead of the fields above, for n > 1

Markers do the same from within the prompt's last message:
`[[say: text]] [[tokens: 7]] [[reason: text]] [[json: {"a": 1}]] [[tool: name {"a": 1}]] [[refuse: text]] [[finish: length]]`.
After a tool's result `tool` is not obeyed again, so that a conversation with tools ends.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

_MARKER = re.compile(r"\[\[(say|tokens|reason|json|tool|refuse|finish)\s*:\s*")
_FIELDS = {"content", "deltas", "json", "reasoning", "tool_calls", "refusal", "finish_reason", "tokens"}
_ENTRY = _FIELDS | {"match", "times", "turn", "choices"}


@dataclass(frozen=True, slots=True)
class Line:
    """What one choice says. Nothing set: a made-up text of the usual length."""

    content: str | None = None
    deltas: tuple[str, ...] | None = None
    reasoning: str | None = None
    tools: tuple[tuple[str, str], ...] = ()
    refusal: str | None = None
    finish: str | None = None
    tokens: int | None = None


@dataclass(slots=True)
class _Entry:
    match: str
    lines: tuple[Line, ...]
    times: int | None = None
    turn: str | None = None


@dataclass(slots=True)
class Script:
    entries: list[_Entry] = field(default_factory=list)

    @classmethod
    def load(cls, path: str) -> Script:
        """Raises OSError for a file that cannot be read, ValueError for one that is not as documented."""
        try:
            data = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
        except yaml.YAMLError as error:
            raise ValueError(f"{path} is not YAML: {error}") from None
        return cls.of(data)

    @classmethod
    def of(cls, data: Any) -> Script:
        replies = data.get("replies") if isinstance(data, Mapping) else data
        if not isinstance(replies, list):
            raise ValueError("a script is a list of replies, or an object with `replies`")  # noqa: TRY004 - the file's value is wrong
        return cls([_entry(at, reply) for at, reply in enumerate(replies)])

    def find(self, message: str, turn: str = "user") -> tuple[Line, ...] | None:
        for entry in self.entries:
            if entry.match in message and entry.times != 0 and entry.turn in (None, turn):
                if entry.times is not None:
                    entry.times -= 1
                return entry.lines
        return None


def _entry(at: int, reply: Any) -> _Entry:
    if not isinstance(reply, Mapping) or not reply.keys() <= _ENTRY:
        unknown = sorted(set(reply) - _ENTRY) if isinstance(reply, Mapping) else reply
        raise ValueError(f"reply {at}: {unknown} is not understood; known: {', '.join(sorted(_ENTRY))}")
    choices = reply.get("choices") or [{name: value for name, value in reply.items() if name in _FIELDS}]
    return _Entry(str(reply.get("match", "")), tuple(_line(choice) for choice in choices), reply.get("times"), reply.get("turn"))


def _line(fields: Mapping[str, Any]) -> Line:
    deltas = fields.get("deltas")
    content = json.dumps(fields["json"]) if "json" in fields else fields.get("content")
    calls = tuple((str(call.get("name")), _arguments(call.get("arguments", {}))) for call in fields.get("tool_calls") or ())
    return Line(
        content=content,
        deltas=tuple(map(str, deltas)) if deltas is not None else None,
        reasoning=fields.get("reasoning"),
        tools=calls,
        refusal=fields.get("refusal"),
        finish=fields.get("finish_reason"),
        tokens=fields.get("tokens"),
    )


def _arguments(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def markers(message: str) -> Line | None:
    """What the prompt asks to be said; None when it asks nothing. A marker that does not end is no marker."""
    if "[[" not in message:
        return None
    line = Line()
    at = 0
    while found := _MARKER.search(message, at):
        end = _end(message, found)
        if end is None:
            at = found.end()
            continue
        line = _applied(line, found[1], message[found.end() : end].strip())
        at = end + 2
    return line if line != Line() else None


def _end(message: str, found: re.Match[str]) -> int | None:
    """Where the closing brackets are; JSON in between may hold brackets of its own."""
    start = found.end()
    if found[1] in ("json", "tool"):
        brace = start if found[1] == "json" else message.find("{", start)
        closing = message.find("]]", start)
        if brace >= 0 and (found[1] == "json" or closing < 0 or brace < closing):
            with contextlib.suppress(ValueError):
                start = json.JSONDecoder().raw_decode(message, brace)[1]
    end = message.find("]]", start)
    return end if end >= 0 else None


def _applied(line: Line, name: str, text: str) -> Line:
    if name == "tokens":
        return replace(line, tokens=int(text)) if text.isdigit() and len(text) < 7 else line
    if name == "tool":
        tool, _, arguments = text.partition(" ")
        return replace(line, tools=(*line.tools, (tool, arguments.strip() or "{}")))
    if name == "reason":
        return replace(line, reasoning=text)
    if name == "refuse":
        return replace(line, refusal=text)
    if name == "finish":
        return replace(line, finish=text)
    return replace(line, content=(line.content or "") + text)
