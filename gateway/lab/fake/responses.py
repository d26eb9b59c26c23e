"""`POST /v1/responses` as vLLM 0.32 has it: text, reasoning and function calls; nothing is stored."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from gateway.lab.fake import checks, fields
from gateway.lab.fake.chat import last_user, limit, refuse_overflow, refuse_priority, render
from gateway.lab.fake.errors import VLLMError, bad
from gateway.lab.fake.exchange import Exchange
from gateway.lab.fake.generate import answer, job
from gateway.lab.fake.named import event, function, joined, text_of
from gateway.lab.fake.reply import Call, Reply, Wish
from gateway.lab.fake.style import Ask
from gateway.lab.fake.text import count

if TYPE_CHECKING:
    from gateway.lab.fake.server import App

_EMPTY = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
_ECHOED = {"metadata": None, "instructions": None, "parallel_tool_calls": True, "tool_choice": "auto", "user": None}


async def responses(app: App, x: Exchange, raw: bytes) -> None:
    body = x.parse(raw)
    checks.salt(body.get("cache_salt"))
    fields.check(body, fields.RESPONSES, "input")
    model, adapter = app.model(body.get("model"))
    refuse_overflow(app, 1)
    refuse_priority(app, body)
    if body.get("background"):
        raise bad("This vLLM engine does not support `store=True` and therefore does not support the background mode.")
    if body.get("previous_response_id"):
        raise VLLMError(404, "invalid_request_error", f"Response with id '{body['previous_response_id']}' not found.")
    chat = _as_chat(body)
    prompt = render(chat)
    header = x.header(b"x-request-id")
    name = header.decode("latin-1") if header is not None else app.author.identifier()
    ask = Ask(f"resp_{name}", model, int(time.time()), bool(body.get("stream")), include_usage=True, prompt=prompt,
              prompt_tokens=count(prompt))  # fmt: skip
    wanted = body.get("max_output_tokens")
    most = checks.room(ask.prompt_tokens, wanted, "max_output_tokens", app.options.max_model_len)
    checks.sampling(chat, most)
    replies = app.author.replies(Wish(last_user(chat["messages"]), prompt, chat, most, chat=True), 1)
    limit(replies, chat, most)
    await answer(x, app.engine, ResponsesFormat(ask, body, most, replies[0]), replies, job(ask, body, replies, x, adapter))


def _as_chat(body: dict[str, Any]) -> dict[str, Any]:
    given = body["input"]
    items = given if isinstance(given, list) else [{"role": "user", "content": given}]
    messages = [{"role": "system", "content": body["instructions"]}] if body.get("instructions") else []
    for item in items:
        if isinstance(item, dict):
            content = item.get("content", item.get("output", ""))
            messages.append({"role": item.get("role", "tool"), "content": text_of(content)})
    tools = [function(tool.get("name"), tool.get("parameters")) for tool in body.get("tools") or () if isinstance(tool, dict)]
    choice = body.get("tool_choice", "auto")
    if isinstance(choice, dict):
        choice = {"type": "function", "function": {"name": choice.get("name")}}
    chat = {"messages": messages, "tools": tools, "tool_choice": choice, "stop": body.get("stop")}
    return {**body, **chat, "response_format": _form(body)}


def _form(body: dict[str, Any]) -> dict[str, Any] | None:
    """The schema that the text has to fill, as chat has it."""
    text = body.get("text")
    form = text.get("format") if isinstance(text, dict) else None
    if not isinstance(form, dict) or form.get("type") != "json_schema":
        return None
    return {"type": "json_schema", "json_schema": {"schema": form.get("schema")}}


class ResponsesFormat:
    """One answer's form. `named`: its stream ends with an event of its own."""

    named = True

    def __init__(self, ask: Ask, body: dict[str, Any], most: int, reply: Reply) -> None:
        self.ask = ask
        self._body = body
        self._most = most
        self._reply = reply
        self._usage: dict[str, Any] | None = None
        self._number = 1  # of the last event; the two of the opening are asked for when the others are made

    def opening(self, index: int) -> bytes:  # noqa: ARG002 - there is one choice
        started = self._object("in_progress", [])
        first = event("response.created", response=started, sequence_number=0)
        return first + event("response.in_progress", response=started, sequence_number=1)

    def events(self, reply: Reply, index: int) -> list[bytes]:  # noqa: ARG002
        return joined((list(self._item(item, at)) for at, item in enumerate(self._items(reply))), b"", reply)

    def _item(self, item: dict[str, Any], at: int) -> Iterator[bytes]:
        """The pieces of one item of the output, each a token."""
        texts = item.pop("pieces")
        kind = item["type"]
        where = {"output_index": at, "item_id": item["id"]}
        lead = self._event("response.output_item.added", output_index=at, item={**item, "status": "in_progress"})
        name = "response.function_call_arguments" if kind == "function_call" else "response.output_text"
        if kind == "reasoning":
            name = "response.reasoning_text"
        if kind == "function_call":
            yield lead
            lead = b""
        else:
            where["content_index"] = 0
            part = {"type": "reasoning_text", "text": ""} if kind == "reasoning" else _EMPTY
            lead += self._event("response.content_part.added", **where, part=part)
        for text in texts[:-1]:
            yield lead + self._event(f"{name}.delta", **where, delta=text)
            lead = b""
        last = self._event(f"{name}.delta", **where, delta=texts[-1]) if texts else b""
        said = {"arguments" if kind == "function_call" else "text": "".join(texts)}
        done = self._event(f"{name}.done", **where, **said)
        if kind != "function_call":
            done += self._event("response.content_part.done", **where, part=item["content"][0])
        yield lead + last + done + self._event("response.output_item.done", output_index=at, item=item)

    def aborted(self, index: int) -> bytes:  # noqa: ARG002
        return b""

    def usage_event(self, total: int, cached: int, reasoning: int) -> bytes:
        self._usage = self._counted(total, cached, reasoning)
        return b""

    def ended(self) -> bytes:
        items = self._items(self._reply)
        for item in items:
            del item["pieces"]
        return self._event("response.completed", response=self._object(self._status(), items))

    def failed(self, error: VLLMError) -> bytes:
        return self._event("error", code=str(error.status), message=error.message, param=error.param)

    def whole(self, replies: Sequence[Reply], total: int, cached: int) -> dict[str, Any]:
        items = self._items(replies[0])
        for item in items:
            del item["pieces"]
        self._usage = self._counted(total, cached, len(replies[0].reasoning))
        return self._object(self._status(), items)

    def _status(self) -> str:
        return "incomplete" if self._reply.finish == "length" else "completed"

    def _items(self, reply: Reply) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        if reply.reasoning:
            thought = [{"type": "reasoning_text", "text": "".join(reply.reasoning)}]
            found.append({"id": f"rs_{self.ask.id}", "type": "reasoning", "summary": [], "content": thought,
                          "pieces": reply.reasoning})  # fmt: skip
        if reply.content or not reply.calls:
            said: list[dict[str, Any]] = [
                {"type": "output_text", "text": "".join(reply.content), "annotations": [], "logprobs": None}
            ]
            found.append({"id": f"msg_{self.ask.id}", "type": "message", "role": "assistant", "status": "completed",
                          "content": said, "phase": None, "pieces": reply.content})  # fmt: skip
        return found + [self._call(call) for call in reply.calls]

    def _call(self, call: Call) -> dict[str, Any]:
        return {"id": f"fc_{call.id}", "type": "function_call", "call_id": call.id, "name": call.name,
                "arguments": "".join(call.arguments), "status": "completed", "pieces": call.arguments}  # fmt: skip

    def _counted(self, total: int, cached: int, reasoning: int) -> dict[str, Any]:
        prompt = self.ask.prompt_tokens
        told = {"cached_tokens": cached, "cache_write_tokens": 0, "input_tokens_per_turn": [], "cached_tokens_per_turn": []}
        made = {"reasoning_tokens": reasoning, "tool_output_tokens": 0, "output_tokens_per_turn": []}
        return {"input_tokens": prompt, "input_tokens_details": told, "output_tokens": total, "output_tokens_details": made,
                "total_tokens": prompt + total}  # fmt: skip

    def _object(self, status: str, output: list[dict[str, Any]]) -> dict[str, Any]:
        body, ask = self._body, self.ask
        short = {"reason": "max_output_tokens"} if status == "incomplete" else None
        return {
            "id": ask.id, "created_at": ask.created, "incomplete_details": short, "model": ask.model, "object": "response",
            **{name: body.get(name, default) for name, default in _ECHOED.items()},
            "output": output, "tools": body.get("tools") or [], "temperature": body.get("temperature", 1.0),
            "top_p": body.get("top_p", 1.0), "background": False, "max_output_tokens": self._most, "max_tool_calls": None,
            "previous_response_id": None, "prompt": None, "reasoning": None, "service_tier": "auto", "status": status,
            "text": None, "top_logprobs": 0, "truncation": "disabled", "usage": self._usage,
        }  # fmt: skip

    def _event(self, name: str, **fields: Any) -> bytes:
        self._number += 1
        return event(name, **fields, sequence_number=self._number)
