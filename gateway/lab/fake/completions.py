"""`POST /v1/completions`: one prompt or many, as text or as token ids, `echo`, and the older form of `logprobs`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from gateway.lab.fake import checks, fields, refined
from gateway.lab.fake.chat import identity, limit, refuse_overflow, refuse_priority
from gateway.lab.fake.completion_format import CompletionFormat
from gateway.lab.fake.errors import VLLMError, bad, invalid
from gateway.lab.fake.exchange import Exchange
from gateway.lab.fake.generate import answer, job
from gateway.lab.fake.reply import Reply, Wish
from gateway.lab.fake.style import Ask
from gateway.lab.fake.text import count, decode, token_bytes

if TYPE_CHECKING:
    from gateway.lab.fake.server import App

_DEFAULT_MAX_TOKENS = 16


async def completions(app: App, x: Exchange, raw: bytes) -> None:
    body = x.parse(raw)
    if body.get("max_tokens") is None:
        body["max_tokens"] = _DEFAULT_MAX_TOKENS
    checks.completions(body)
    fields.check(body, fields.COMPLETIONS)
    if wrong := list(refined.prompt(body["prompt"])):
        raise invalid(wrong)
    model, adapter = app.model(body.get("model"))
    n = 1 if body.get("n") is None else body["n"]
    refuse_overflow(app, max(n, 1))
    refuse_priority(app, body)
    _refuse(body)
    prompts = prompts_of(body["prompt"])
    echo_only = bool(body.get("echo")) and body["max_tokens"] == 0
    ask = _ask(app, x, body, model, prompts)
    replies: list[Reply] = []
    for prompt in prompts:
        most = checks.room(count(prompt), body["max_tokens"], "max_tokens", app.options.max_model_len)
        checks.sampling(body, 1 if echo_only else most)
        wish = Wish(prompt.decode("utf-8", "replace"), prompt, body, 1 if echo_only else most, chat=False)
        replies += app.author.replies(wish, n)
    limit(replies, body, 1 if echo_only else body["max_tokens"])
    if echo_only:
        for reply in replies:
            reply.content, reply.quoted = [""], None
    await answer(x, app.engine, CompletionFormat(ask), replies, job(ask, body, replies, x, adapter))


def _refuse(body: dict[str, Any]) -> None:
    """What vLLM finds out last: nothing to complete, and a text to come after what few models can write before."""
    if body.get("suffix") is not None:
        message = "suffix is only supported for models with FIM completion rendering"
        raise VLLMError(400, "BadRequestError", message, "suffix")
    if body["prompt"] == []:
        raise bad("You must pass at least one prompt")
    if isinstance(body["prompt"], list) and any(item in ("", []) for item in body["prompt"]):
        raise bad("The decoder prompt cannot be empty")


def prompts_of(prompt: Any) -> list[bytes]:
    """Every form a prompt may have, as bytes each; a 400 for any other."""
    if isinstance(prompt, str):
        return [prompt.encode("utf-8", "replace")]
    if isinstance(prompt, list) and prompt:
        if all(isinstance(token, int) and token >= 0 for token in prompt):
            return [b"".join(map(token_bytes, prompt))]
        if all(isinstance(item, (str, list)) for item in prompt):
            return [data for item in prompt for data in prompts_of(item)]
    raise invalid([{"type": "list_type", "loc": "body.prompt", "msg": "Input should be a valid list", "input": prompt}])


def _ask(app: App, x: Exchange, body: dict[str, Any], model: str, prompts: list[bytes]) -> Ask:
    options = body.get("stream_options") or {}
    include = bool(options.get("include_usage"))
    whole = b"".join(prompts)
    return Ask(
        id=identity(app, x, body, "cmpl-"),
        model=model,
        created=int(time.time()),
        stream=bool(body.get("stream")),
        n=body.get("n") or 1,
        include_usage=include,
        continuous=include and bool(options.get("continuous_usage_stats")),
        logprobs=body.get("logprobs"),
        token_ids=bool(body.get("return_token_ids")),
        details=app.options.enable_prompt_tokens_details,
        prompt=whole,
        prompt_tokens=sum(map(count, prompts)),
        echo=_echo(body["prompt"], prompts) if body.get("echo") else "",
    )


def _echo(prompt: Any, prompts: list[bytes]) -> str:
    """The prompt to give back; of several prompts the first (the fake does not tell them apart here)."""
    return decode(prompt) if isinstance(prompt, list) and isinstance(prompt[0], int) else prompts[0].decode("utf-8", "replace")
