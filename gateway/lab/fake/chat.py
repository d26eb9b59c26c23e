"""`POST /v1/chat/completions`: the conversation as a prompt, the checks in vLLM's order, the answer."""

from __future__ import annotations

import time
import zlib
from typing import TYPE_CHECKING, Any

from gateway.lab.fake import checks, fields
from gateway.lab.fake.chat_format import ChatFormat
from gateway.lab.fake.errors import bad, overflow
from gateway.lab.fake.exchange import Exchange, encode
from gateway.lab.fake.generate import answer, job
from gateway.lab.fake.reply import Reply, Wish
from gateway.lab.fake.style import Ask
from gateway.lab.fake.text import count

if TYPE_CHECKING:
    from gateway.lab.fake.server import App

_MEDIA_BYTES = 256  # what an image or a sound costs in the prompt: 64 tokens


async def chat(app: App, x: Exchange, raw: bytes) -> None:
    body = x.parse(raw)
    checks.chat(body)
    fields.check(body, fields.CHAT, "messages")
    fields.conversation(body)
    model, adapter = app.model(body.get("model"))
    n = body.get("n") or 1
    refuse_overflow(app, n)
    refuse_priority(app, body)
    checks.conversation(body)
    fields.parts(body)
    checks.truncation(body, app.options.max_model_len)
    prompt = render(body)
    ask = _ask(app, x, body, model, prompt)
    name = "max_tokens" if body.get("max_completion_tokens") is None else "max_completion_tokens"
    most = checks.room(ask.prompt_tokens, body.get(name), name, app.options.max_model_len)
    checks.sampling(body, most)
    replies = app.author.replies(Wish(last_user(body["messages"]), prompt, body, most, chat=True), n)
    limit(replies, body, most)
    await answer(x, app.engine, ChatFormat(ask), replies, job(ask, body, replies, x, adapter))


def refuse_overflow(app: App, n: int) -> None:
    if app.engine.overflows(n):
        app.metrics.rejections += 1
        raise overflow()


def refuse_priority(app: App, body: dict[str, Any]) -> None:
    """A priority under fcfs is ignored by vLLM 0.32, whatever its documentation says; older ones and `strict_priority` refuse."""
    value = body.get("priority")
    if value and app.options.strict_priority and app.options.scheduling_policy != "priority":
        raise bad(f"Got priority {value} but Priority scheduling is not enabled.", "priority", value)


def limit(replies: list[Reply], body: dict[str, Any], most: int) -> None:
    stops = checks.stops(body)
    for reply in replies:
        if stops:
            reply.stop_at(stops, body.get("min_tokens") or 0, include=bool(body.get("include_stop_str_in_output")))
        reply.shorten(most)


def identity(app: App, x: Exchange, body: dict[str, Any], prefix: str) -> str:
    """A client's `X-Request-Id` names the answer, then the body's `request_id`, then chance."""
    header = x.header(b"x-request-id")
    return prefix + (header.decode("latin-1") if header is not None else body.get("request_id") or app.author.identifier())


def _ask(app: App, x: Exchange, body: dict[str, Any], model: str, prompt: bytes) -> Ask:
    options = body.get("stream_options") or {}
    include = bool(options.get("include_usage"))
    return Ask(
        id=identity(app, x, body, "chatcmpl-"),
        model=model,
        created=int(time.time()),
        stream=bool(body.get("stream")),
        n=body.get("n") or 1,
        include_usage=include,
        continuous=include and bool(options.get("continuous_usage_stats")),
        logprobs=(body.get("top_logprobs") or 0) if body.get("logprobs") else None,
        token_ids=bool(body.get("return_token_ids")),
        details=app.options.enable_prompt_tokens_details,
        block_size=app.options.block_size,
        parsed=app.options.tool_call_parser is not None,
        prompt=prompt,
        prompt_tokens=count(prompt),
    )


def render(body: dict[str, Any]) -> bytes:
    """A chat template of the plainest kind: tools first, then each message between its marks, then the assistant's turn."""
    parts = []
    if body.get("tools") and body.get("tool_choice") != "none":
        parts.append("<|im_start|>tools\n" + encode(body["tools"]).decode() + "<|im_end|>\n")
    for message in body["messages"]:
        if not isinstance(message, dict):
            continue
        calls = message.get("tool_calls")
        called = encode(calls).decode() if calls else ""
        parts.append(f"<|im_start|>{message.get('role')}\n{said(message.get('content'))}{called}<|im_end|>\n")
    if body.get("add_generation_prompt", True):
        parts.append("<|im_start|>assistant\n")
    return "".join(parts).encode("utf-8", "replace")


def said(content: Any) -> str:
    """The text of a message; what is not text stands as a fixed number of bytes made from what it is."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    found = []
    for part in content:
        if isinstance(part, str):
            found.append(part)
        elif isinstance(part, dict) and isinstance(part.get("text"), str):
            found.append(part["text"])
        else:
            found.append(f"{zlib.crc32(encode(part)):08x}" * (_MEDIA_BYTES // 8))
    return "".join(found)


def last_user(messages: list[Any]) -> str:
    for message in reversed(messages):
        if isinstance(message, dict) and message.get("role") == "user":
            return said(message.get("content"))
    return ""
