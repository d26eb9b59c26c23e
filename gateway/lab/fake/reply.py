"""What a choice says: pieces of one token each, in the order reasoning, content, refusal, tool calls.

Who decides, first to last: the script, the markers in the prompt, a tool that must be called, a schema that must be
filled, and else words of the ring: the same for the same prompt when the request is greedy or has a seed.
"""

from __future__ import annotations

import itertools
import json
import random
import zlib
from dataclasses import dataclass, field, replace
from typing import Any

from gateway.lab.fake import schema
from gateway.lab.fake.script import Line, Script, markers
from gateway.lab.fake.text import RING, pieces, quote, words


@dataclass(slots=True)
class Call:
    id: str
    name: str
    arguments: list[str]


@dataclass(slots=True)
class Reply:
    """One choice. `eos` is the token that ends it and says nothing; a reply that was cut has none."""

    content: list[str] = field(default_factory=list)
    quoted: list[bytes] | None = None
    reasoning: list[str] = field(default_factory=list)
    refusal: list[str] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    finish: str = "stop"
    stop_reason: str | None = None
    eos: bool = True
    plain: bool = True  # nothing but content

    @property
    def visible(self) -> int:
        if self.plain:
            return len(self.content)
        calls = sum(1 + len(call.arguments) for call in self.calls)
        return len(self.reasoning) + len(self.content) + len(self.refusal) + calls

    @property
    def tokens(self) -> int:
        return self.visible + self.eos

    def json_strings(self) -> list[bytes]:
        """The content's pieces as JSON strings."""
        if self.quoted is None:
            self.quoted = quote(self.content)
        return self.quoted

    def texts(self) -> list[str]:
        """Every visible token's text, in order."""
        said = [*self.reasoning, *self.content, *self.refusal]
        for call in self.calls:
            said += [call.name, *call.arguments]
        return said

    def shorten(self, most: int) -> None:
        """Keep `most` tokens; when some were lost the finish reason is `length`."""
        if self.tokens <= most:
            return
        self.eos, self.finish, self.stop_reason = False, "length", None
        for part in (self.reasoning, self.content, self.refusal):
            del part[max(0, most) :]
            most -= len(part)
        if self.quoted is not None:
            del self.quoted[len(self.content) :]
        kept = []
        for call in self.calls:
            if most > 0:
                kept.append(Call(call.id, call.name, call.arguments[: most - 1]))
                most -= 1 + len(kept[-1].arguments)
        self.calls = kept

    def stop_at(self, stops: list[str], least: int, *, include: bool) -> None:
        """End at the first stop string that is complete after `least` tokens."""
        text = "".join(self.content)
        start = sum(map(len, self.content[: max(0, least - 1)]))
        found = min(((at, stop) for stop in stops if (at := text.find(stop, start)) >= 0), default=None)
        if found is None:
            return
        at, stop = found
        complete = at + len(stop)
        sizes = list(itertools.accumulate(map(len, self.content)))
        made = next(place for place, size in enumerate(sizes) if size >= complete) + 1
        # all these tokens were made, only the text of the last ones is cut: vLLM counts them too
        shown = complete if include else at
        starts = [0, *sizes]
        self.content = [piece[: max(0, shown - start)] for piece, start in zip(self.content[:made], starts, strict=False)]
        self.quoted, self.calls = None, []
        self.finish, self.stop_reason, self.eos = "stop", stop, False


@dataclass(frozen=True, slots=True)
class Wish:
    """What the request says about its reply."""

    message: str
    prompt: bytes
    body: dict[str, Any]
    max_tokens: int
    chat: bool

    @property
    def turn(self) -> str:
        """`tool` where the conversation ends with a tool's result, else `user`."""
        messages = self.body.get("messages")
        last = messages[-1] if isinstance(messages, list) and messages else None
        return "tool" if isinstance(last, dict) and last.get("role") in ("tool", "function") else "user"


class Author:
    """Writes the replies of a server."""

    def __init__(self, script: Script, tokens: int, seed: int, *, guided_json: bool) -> None:
        self.script = script
        self._tokens = tokens
        self._rng = random.Random(seed)
        self._guided = guided_json

    def replies(self, wish: Wish, n: int) -> list[Reply]:
        lines = self.script.find(wish.message, wish.turn) if self.script.entries else None
        if lines is None:
            marked = markers(wish.message)
            if marked is not None and marked.tools and wish.turn == "tool":
                marked = replace(marked, tools=())
            lines = (marked,) if marked is not None else None
        return [self._reply(wish, lines[index % len(lines)] if lines else None, index) for index in range(n)]

    def identifier(self) -> str:
        return f"{self._rng.getrandbits(64):016x}"

    def _reply(self, wish: Wish, line: Line | None, index: int) -> Reply:
        if line is None or not (line.content or line.deltas or line.tools or line.refusal):
            reply = self._required(wish) or self._words(wish, index, line.tokens if line is not None else None)
        else:
            reply = self._said(line, wish)
        if line is not None:
            if line.reasoning:
                reply.reasoning, reply.plain = pieces(line.reasoning), False
            if line.finish:
                reply.finish, reply.eos = line.finish, line.finish != "length"
        return reply

    def _said(self, line: Line, wish: Wish) -> Reply:
        said = list(line.deltas) if line.deltas is not None else pieces(line.content or "")
        reply = Reply(said, plain=not (line.tools or line.refusal), refusal=pieces(line.refusal or ""))
        if line.tools and wish.chat:
            reply.calls = [self._call(name, arguments) for name, arguments in line.tools]
            reply.finish = _finish(wish.body)
        return reply

    def _call(self, name: str, arguments: str) -> Call:
        return Call(f"chatcmpl-tool-{self.identifier()}", name, pieces(arguments))

    def _required(self, wish: Wish) -> Reply | None:
        """The call or the JSON that the request must be given, if it must."""
        body = wish.body
        choice = body.get("tool_choice")
        if wish.chat and (choice == "required" or isinstance(choice, dict)):
            function = _function(body.get("tools") or [], choice, _called(body["messages"]))
            call = self._call(
                str(function.get("name")), json.dumps(schema.fill(function.get("parameters") or {"type": "object"}))
            )
            return Reply(calls=[call], finish=_finish(body), plain=False)
        text = _structured(body, guided=self._guided)
        return Reply(pieces(text)) if text is not None else None

    def _words(self, wish: Wish, index: int, tokens: int | None) -> Reply:
        body = wish.body
        seed, temperature = body.get("seed"), body.get("temperature")
        if seed is not None or temperature == 0:
            place = zlib.crc32(wish.prompt, ((seed or 0) * 31 + index) & 0xFFFFFFFF)
        else:
            place = self._rng.randrange(len(RING))
        if body.get("ignore_eos"):
            length = wish.max_tokens
        else:
            length = max(tokens if tokens is not None else self._tokens, (body.get("min_tokens") or 0) + 1) - 1
            length = min(length, wish.max_tokens)  # what nobody will see need not be made
        said, quoted = words(place, length)
        cut = length >= wish.max_tokens
        return Reply(said, quoted, finish="length" if cut else "stop", eos=not cut)


def _finish(body: dict[str, Any]) -> str:
    """As vLLM has it, a named call ends with `stop` and every other one with `tool_calls`."""
    return "stop" if isinstance(body.get("tool_choice"), dict) else "tool_calls"


def _function(tools: list[Any], choice: Any, called: set[str]) -> dict[str, Any]:
    """The named one, or the first that the conversation has not called yet, as a model would go on to the next."""
    functions = [tool["function"] for tool in tools if isinstance(tool, dict) and isinstance(tool.get("function"), dict)]
    if isinstance(choice, dict):
        wanted = choice["function"]["name"]
        functions = [function for function in functions if function.get("name") == wanted]
    fresh = [function for function in functions if function.get("name") not in called]
    return next(iter(fresh or functions), {"name": "unknown"})


def _called(messages: list[Any]) -> set[str]:
    calls = [call for message in messages if isinstance(message, dict) for call in message.get("tool_calls") or ()]
    functions = [call["function"] for call in calls if isinstance(call, dict) and isinstance(call.get("function"), dict)]
    return {str(function.get("name")) for function in functions}


def _structured(body: dict[str, Any], *, guided: bool) -> str | None:
    """JSON for the schema that the body names in one of the ways vLLM knows; a choice for `choice`; None when it names none."""
    outputs, form = body.get("structured_outputs"), body.get("response_format")
    if isinstance(form, dict) and form.get("type") == "json_schema":
        named = form.get("json_schema")
        return json.dumps(schema.fill(named.get("schema") if isinstance(named, dict) else None))
    if isinstance(form, dict) and form.get("type") == "json_object":
        return json.dumps({"answer": "the"})
    if isinstance(outputs, dict):
        if outputs.get("choice"):
            return str(outputs["choice"][0])
        if outputs.get("json") is not None:
            return _from_schema(outputs["json"])
        if outputs.get("json_object"):
            return json.dumps({"answer": "the"})
    if guided and body.get("guided_json") is not None:
        return _from_schema(body["guided_json"])
    return None


def _from_schema(value: Any) -> str:
    """A schema may come as an object or as its JSON text."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            value = None
    return json.dumps(schema.fill(value))
