"""`POST /v1/messages` and `/v1/messages/count_tokens`: Anthropic's API as vLLM 0.32 has it, with its own shape of errors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from gateway.lab.fake import checks, fields
from gateway.lab.fake.chat import identity, last_user, limit, refuse_overflow, render
from gateway.lab.fake.errors import VLLMError, invalid
from gateway.lab.fake.exchange import Exchange, parse_json
from gateway.lab.fake.generate import answer, job
from gateway.lab.fake.named import event, function, joined, text_of
from gateway.lab.fake.reply import Call, Reply, Wish
from gateway.lab.fake.style import Ask
from gateway.lab.fake.text import count

if TYPE_CHECKING:
    from gateway.lab.fake.server import App

_STOPS = {"length": "max_tokens", "tool_calls": "tool_use"}


async def messages(app: App, x: Exchange, raw: bytes) -> None:
    body = x.parse(raw)
    fields.check(body, fields.MESSAGES, "messages")
    if "max_tokens" not in body:
        raise invalid([{"type": "missing", "loc": "body.max_tokens", "msg": "Field required", "input": body}])
    try:
        await _answer(app, x, body)
    except VLLMError as error:
        await x.json(error.status, _error(error))


async def count_tokens(app: App, x: Exchange, raw: bytes) -> None:
    body = x.parse(raw)
    fields.check(body, fields.MESSAGES, "messages")
    try:
        app.model(body.get("model"))
    except VLLMError as error:
        await x.json(error.status, _error(error))
        return
    tokens = count(render(_as_chat(body)))
    await x.json(200, {"input_tokens": tokens, "context_management": {"original_input_tokens": tokens}})


async def _answer(app: App, x: Exchange, body: dict[str, Any]) -> None:
    checks.salt(body.get("cache_salt"))
    model, adapter = app.model(body.get("model"))
    refuse_overflow(app, 1)
    chat = _as_chat(body)
    prompt = render(chat)
    details = app.options.enable_prompt_tokens_details
    ask = Ask(identity(app, x, body, "chatcmpl-"), model, 0, bool(body.get("stream")), include_usage=True, prompt=prompt,
              prompt_tokens=count(prompt), details=details)  # fmt: skip
    most = checks.room(ask.prompt_tokens, body["max_tokens"], "max_tokens", app.options.max_model_len)
    checks.sampling(chat, most)
    replies = app.author.replies(Wish(last_user(chat["messages"]), prompt, chat, most, chat=True), 1)
    limit(replies, chat, most)
    work = job(ask, {"cache_salt": body.get("cache_salt")}, replies, x, adapter)
    await answer(x, app.engine, MessagesFormat(ask, replies[0]), replies, work)


def _as_chat(body: dict[str, Any]) -> dict[str, Any]:
    system = text_of(body.get("system"))
    messages: list[dict[str, Any]] = [{"role": "system", "content": system}] if system else []
    messages += [said for message in body["messages"] if isinstance(message, dict) for said in _turns(message)]
    tools = [function(tool.get("name"), tool.get("input_schema")) for tool in body.get("tools") or () if isinstance(tool, dict)]
    choice = body.get("tool_choice") or {}
    chosen: Any = {"any": "required", "none": "none"}.get(str(choice.get("type")), "auto")
    if choice.get("type") == "tool":
        chosen = {"type": "function", "function": {"name": choice.get("name")}}
    sampling = {name: body.get(name) for name in ("temperature", "top_p", "top_k")}
    return {**sampling, "messages": messages, "tools": tools, "tool_choice": chosen, "stop": body.get("stop_sequences")}


def _turns(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A message as chat has it: each result of a tool is a message by itself, before what else there is."""
    content = message.get("content")
    parts = content if isinstance(content, list) else []
    results = [part for part in parts if isinstance(part, dict) and part.get("type") == "tool_result"]
    yield from ({"role": "tool", "content": text_of(result.get("content"))} for result in results)
    rest = [part for part in parts if part not in results]
    if rest or not results:
        yield {"role": message.get("role"), "content": rest or text_of(content)}


def _error(error: VLLMError) -> dict[str, Any]:
    return {"type": "error", "error": {"type": error.kind, "message": error.message}}


class MessagesFormat:
    """One answer's form. `named`: its stream ends with an event of its own."""

    named = True

    def __init__(self, ask: Ask, reply: Reply) -> None:
        self.ask = ask
        self._reply = reply

    def opening(self, index: int) -> bytes:  # noqa: ARG002 - there is one choice
        message = {"id": self.ask.id, "type": "message", "role": "assistant", "content": [], "model": self.ask.model}
        usage = {"input_tokens": self.ask.prompt_tokens, "output_tokens": 0}
        return event("message_start", message={**message, "stop_reason": None, "stop_sequence": None, "usage": usage})

    def events(self, reply: Reply, index: int) -> list[bytes]:  # noqa: ARG002
        return joined((list(self._block(*block, at)) for at, block in enumerate(_blocks(reply))), b"", reply)

    def _block(self, block: dict[str, Any], kind: str, texts: Sequence[str], at: int) -> Iterator[bytes]:
        lead = event("content_block_start", index=at, content_block=block)
        field = {"text_delta": "text", "thinking_delta": "thinking"}.get(kind, "partial_json")
        if block["type"] == "tool_use":
            yield lead
            lead = b""
        for text in texts[:-1]:
            yield lead + event("content_block_delta", index=at, delta={"type": kind, field: text})
            lead = b""
        last = event("content_block_delta", index=at, delta={"type": kind, field: texts[-1]}) if texts else b""
        yield lead + last + event("content_block_stop", index=at)

    def aborted(self, index: int) -> bytes:  # noqa: ARG002
        return b""

    def usage_event(self, total: int, cached: int, reasoning: int) -> bytes:  # noqa: ARG002
        stop = {"stop_reason": self._stop(), "stop_sequence": self._reply.stop_reason}
        return event("message_delta", delta=stop, usage=self._usage(total, cached))

    def ended(self) -> bytes:
        return event("message_stop")

    def failed(self, error: VLLMError) -> bytes:
        return event("error", error={"type": "internal_error", "message": error.message})

    def whole(self, replies: Sequence[Reply], total: int, cached: int) -> dict[str, Any]:
        content = []
        for block, kind, texts in _blocks(replies[0]):
            said = "".join(texts)
            filled = {"text_delta": {"text": said}, "thinking_delta": {"thinking": said}}.get(kind)
            content.append({**block, **(filled if filled is not None else {"input": parse_json(said.encode())})})
        return {"id": self.ask.id, "type": "message", "role": "assistant", "content": content, "model": self.ask.model,
                "stop_reason": self._stop(), "usage": self._usage(total, cached)}  # fmt: skip

    def _stop(self) -> str:
        if self._reply.stop_reason:
            return "stop_sequence"
        return "tool_use" if self._reply.calls else _STOPS.get(self._reply.finish, "end_turn")

    def _usage(self, total: int, cached: int) -> dict[str, int]:
        """What the prefix cache held is told apart, and not counted twice."""
        prompt = self.ask.prompt_tokens
        if not self.ask.details:
            return {"input_tokens": prompt, "output_tokens": total}
        return {"input_tokens": prompt - cached, "output_tokens": total, "cache_read_input_tokens": cached}


def _blocks(reply: Reply) -> list[tuple[dict[str, Any], str, Sequence[str]]]:
    """(the block as it starts, the type of its deltas, its pieces)."""
    found: list[tuple[dict[str, Any], str, Sequence[str]]] = []
    if reply.reasoning:
        found.append(({"type": "thinking", "thinking": "", "signature": "0" * 32}, "thinking_delta", reply.reasoning))
    if reply.content or not reply.calls:
        found.append(({"type": "text", "text": ""}, "text_delta", reply.content))
    return found + [(_use(call), "input_json_delta", call.arguments) for call in reply.calls]


def _use(call: Call) -> dict[str, Any]:
    return {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}
