"""Streams of server-sent events as backends might write them, and what a reader by the book makes of them."""

import json
import re
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

ENDS = ("\n", "\r\n", "\r")
KINDS = ["text", "text", "text", "usage", "both", "comment", "blank", "odd", "large"]
TEXTS = st.text(max_size=12) | st.sampled_from(
    ["\u2028", "\u2029", "\u0085", "\ufeff", "\x0b\x0c\x1c\x1d\x1e", "你好 👋🏽", "\U0001f1e9\U0001f1ea", "data: x", "[DONE]",
     "\\", '"', "\r\n\r\n", ": ping"]
)  # fmt: skip
COUNTS = st.integers(1, 5000)


@dataclass
class Written:
    """One stream, and what it says."""

    stream: bytes
    hidden: bytes  # the same without the chunks that tell nothing but the usage
    said: str  # of the one choice, up to `[DONE]`
    usage: tuple[int, int] | None = None  # the last one told, wherever it stood
    plain: bool = True  # every event up to its end is one that a client can read


def chunk(choices: list[Any], **fields: Any) -> dict[str, Any]:
    return {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "fake", "choices": choices, **fields}


def choice(content: str | None, finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"index": 0, "delta": {**delta, **({} if content is None else {"content": content})}, "finish_reason": finish}


def usage_of(prompt: int, completion: int) -> dict[str, int]:
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


@st.composite
def streams(draw: st.DrawFn, *, whole: bool = True) -> Written:  # noqa: PLR0915 - one item after another, as it is written
    """A stream that begins with something said and, if `whole`, ends as one does."""
    pieces: list[tuple[str, bool]] = []  # an event with its empty line, and does it tell the usage alone
    said: list[str] = []
    usage: tuple[int, int] | None = None
    plain = True
    end = draw(st.sampled_from(ENDS))
    prefix = draw(st.sampled_from(["data: ", "data:", "data: "]))

    def dumped(payload: dict[str, Any]) -> str:
        compact = draw(st.booleans())
        text = json.dumps(payload, ensure_ascii=draw(st.booleans()), separators=(",", ":") if compact else None)
        return text.encode("utf-8", "replace").decode()

    def event(payload: dict[str, Any], *, usage_only: bool = False) -> None:
        text = dumped(payload)
        lines = [prefix + text]
        if draw(st.integers(0, 9)) == 0:
            lines.insert(draw(st.integers(0, 1)), draw(st.sampled_from(["id: 7", ": ping", "event: message", "retry: 100"])))
        if draw(st.integers(0, 9)) == 0:  # where JSON may hold a line end, data may go on in another line
            at = text.index(",") + 1
            lines = [prefix + text[:at], prefix + text[at:]]
        pieces.append(("".join(line + end for line in lines) + end, usage_only))

    opening = draw(st.sampled_from(["", "\ufeff", f": ping{end}{end}", end]))
    if opening:
        pieces.append((opening, False))
    if draw(st.booleans()):
        event(chunk([choice("", role="assistant")]))
    first = draw(TEXTS.filter(bool))
    event(chunk([choice(first)]))
    said.append(first)
    for kind in draw(st.lists(st.sampled_from(KINDS), max_size=8)):
        text = draw(TEXTS)
        match kind:
            case "text":
                event(chunk([choice(text)]))
                said.append(text)
            case "usage":
                usage = draw(st.tuples(COUNTS, COUNTS))
                event(chunk([], usage=usage_of(*usage)), usage_only=True)
            case "both":
                usage = draw(st.tuples(COUNTS, COUNTS))
                event(chunk([choice(text)], usage=usage_of(*usage)))
                said.append(text)
            case "comment":
                pieces.append((f": {'x' * len(text)}{end}{end}", False))
            case "blank":
                pieces.append((end, False))
            case "odd":
                plain = False
                pieces.append((f"data: {draw(st.sampled_from(['{', 'null', '[1]', '{}', '<html>']))}{end}{end}", False))
            case "large":
                text = draw(st.sampled_from(["x", "é", "\u2028"])) * draw(st.sampled_from([5_000, 70_000]))
                event(chunk([choice(text)]))
                said.append(text)
    if whole:
        ending = draw(st.sampled_from(["both", "finish", "done"]))
        if ending != "done":
            event(chunk([choice(None, "stop")]))
        if draw(st.booleans()):
            usage = draw(st.tuples(COUNTS, COUNTS))
            event(chunk([], usage=usage_of(*usage)), usage_only=True)
        if ending != "finish":
            pieces.append((f"{prefix}[DONE]{end}{end}", False))
            if draw(st.integers(0, 4)) == 0:
                pieces.append((draw(st.sampled_from([f": bye{end}{end}", "garbage", f"data: {{}}{end}{end}"])), False))
        if draw(st.integers(0, 4)) == 0:  # no final blank line
            text, usage_only = pieces[-1]
            if not usage_only:
                pieces[-1] = text.removesuffix(end), usage_only
    return Written(
        "".join(text for text, _ in pieces).encode("utf-8", "replace"),
        "".join(text for text, usage_only in pieces if not usage_only).encode("utf-8", "replace"),
        "".join(said),
        usage,
        plain,
    )  # fmt: skip


_LINE_END = re.compile(r"\r\n|\n|\r")


def payloads(stream: bytes) -> list[str]:
    """The data of every event, as a reader by the book dispatches them."""
    text = stream.decode().removeprefix("\ufeff")
    found, data = [], []
    for line in _LINE_END.split(text)[:-1]:
        if not line:
            if data:
                found.append("\n".join(data))
            data = []
        elif line.startswith("data:"):
            data.append(line[5:].removeprefix(" "))
    return found


def texts(stream: bytes) -> str:
    """What the one choice says, up to `[DONE]`."""
    said = ""
    for payload in payloads(stream):
        if payload == "[DONE]":
            break
        told = json.loads(payload)
        for one in told.get("choices") or []:
            said += (one.get("delta") or {}).get("content") or ""
    return said
