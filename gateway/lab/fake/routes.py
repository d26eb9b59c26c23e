"""The small endpoints: models, tokenizer, health, sleep, and the fake's own `/fake/*`."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from gateway.lab.fake import checks, fields
from gateway.lab.fake.audio import transcriptions, translations
from gateway.lab.fake.chat import chat, render
from gateway.lab.fake.completions import completions
from gateway.lab.fake.embeddings import embeddings
from gateway.lab.fake.errors import VLLMError, invalid
from gateway.lab.fake.exchange import Exchange
from gateway.lab.fake.messages import count_tokens, messages
from gateway.lab.fake.refined import error, missing
from gateway.lab.fake.responses import responses
from gateway.lab.fake.scoring import rerank, score
from gateway.lab.fake.style import VERSION
from gateway.lab.fake.text import decode, encode, token_bytes

if TYPE_CHECKING:
    from gateway.lab.fake.server import App

Handler = Callable[["App", Exchange, bytes], Awaitable[None]]
_PLAIN = b"text/plain; version=1.0.0; charset=utf-8"


async def models(app: App, x: Exchange, raw: bytes) -> None:  # noqa: ARG001 - every handler has the same form
    options = app.options
    cards = [_card(name, root=f"models/{options.models[0]}", length=options.max_model_len) for name in options.models]
    adapters = [_card(name, root=f"adapters/{name}", parent=options.models[0]) for name in options.lora_modules]
    await x.json(200, {"object": "list", "data": cards + adapters})


def _card(name: str, *, root: str, parent: str | None = None, length: int | None = None) -> dict[str, Any]:
    """As vLLM makes the cards anew for each listing, `created` is the time of asking."""
    made = int(time.time())
    permission = {
        "id": f"modelperm-{random.getrandbits(64):016x}",
        "object": "model_permission",
        "created": made,
        "allow_create_engine": False,
        "allow_sampling": True,
        "allow_logprobs": True,
        "allow_search_indices": False,
        "allow_view": True,
        "allow_fine_tuning": False,
        "organization": "*",
        "group": None,
        "is_blocking": False,
    }
    return {
        "id": name,
        "object": "model",
        "created": made,
        "owned_by": "vllm",
        "root": root,
        "parent": parent,
        "max_model_len": length,
        "permission": [permission],
    }


async def tokenize(app: App, x: Exchange, raw: bytes) -> None:
    """A text or a conversation: of a body that is neither, both are missed."""
    body = x.parse(raw)
    try:
        fields.check(body, fields.TOKENIZE)
    except VLLMError:
        if "messages" in body:
            raise
        no_text = error("string_type", "prompt", "Input should be a valid string", body.get("prompt"))
        raise invalid([no_text, missing("messages", body)]) from None
    if "prompt" not in body and "messages" not in body:
        raise invalid([missing("prompt", body), missing("messages", body)])
    app.model(body.get("model"))
    if "prompt" not in body:
        checks.conversation(body)
    tokens = encode(body["prompt"].encode("utf-8", "replace") if "prompt" in body else render(body))
    strings = [token_bytes(token).decode("utf-8", "replace") for token in tokens] if body.get("return_token_strs") else None
    answer = {"count": len(tokens), "max_model_len": app.options.max_model_len, "tokens": tokens, "token_strs": strings}
    await x.json(200, answer)


async def detokenize(app: App, x: Exchange, raw: bytes) -> None:
    body = x.parse(raw)
    fields.check(body, fields.DETOKENIZE, "tokens")
    app.model(body.get("model"))
    await x.json(200, {"prompt": decode(body["tokens"])})


async def health(app: App, x: Exchange, raw: bytes) -> None:  # noqa: ARG001
    """Asleep or busy it is well all the same; only the fault `unhealthy` makes it 503."""
    await x.empty(503 if x.fault is not None and x.fault.unhealthy else 200)


async def version(app: App, x: Exchange, raw: bytes) -> None:  # noqa: ARG001
    await x.json(200, {"version": VERSION})


async def load(app: App, x: Exchange, raw: bytes) -> None:  # noqa: ARG001
    await x.json(200, {"server_load": app.engine.running + app.engine.waiting})


async def metrics(app: App, x: Exchange, raw: bytes) -> None:  # noqa: ARG001
    await x.text(200, app.metrics.exposition(app.engine), _PLAIN)


async def sleep(app: App, x: Exchange, raw: bytes) -> None:  # noqa: ARG001
    query = parse_qs(x.scope["query_string"].decode("latin-1"))
    app.engine.sleep(query.get("mode", ["abort"])[0])
    level = query.get("level", ["1"])[0]
    await x.json(200, {"status": "sleeping", "level": int(level) if level.isdigit() else 1})


async def wake_up(app: App, x: Exchange, raw: bytes) -> None:  # noqa: ARG001
    app.engine.wake_up()
    await x.json(200, {"status": "awake", "tags": parse_qs(x.scope["query_string"].decode("latin-1")).get("tags")})


async def is_sleeping(app: App, x: Exchange, raw: bytes) -> None:  # noqa: ARG001
    await x.json(200, {"is_sleeping": app.engine.sleeping})


async def reset_prefix_cache(app: App, x: Exchange, raw: bytes) -> None:  # noqa: ARG001
    await x.json(200, {"success": app.engine.cache.reset()})


async def show_log(app: App, x: Exchange, raw: bytes) -> None:  # noqa: ARG001
    path = parse_qs(x.scope["query_string"].decode("latin-1")).get("path", [""])[0]
    await x.json(200, [entry.shown() for entry in app.log if path in entry.path])


async def clear_log(app: App, x: Exchange, raw: bytes) -> None:  # noqa: ARG001
    app.log.clear()
    await x.json(200, [])


async def show_faults(app: App, x: Exchange, raw: bytes) -> None:  # noqa: ARG001
    await x.json(200, [rule.shown() for rule in app.faults.rules])


async def add_faults(app: App, x: Exchange, raw: bytes) -> None:
    """One rule or a list of rules, added to those there are; nothing is added when one of them is wrong."""
    try:
        rules = json.loads(raw)
        app.faults.extend(rules if isinstance(rules, list) else [rules])
    except (ValueError, TypeError) as error:
        await x.json(400, {"error": str(error)})
        return
    await show_faults(app, x, raw)


async def clear_faults(app: App, x: Exchange, raw: bytes) -> None:
    app.faults.clear()
    await show_faults(app, x, raw)


async def state(app: App, x: Exchange, raw: bytes) -> None:  # noqa: ARG001
    engine = app.engine
    await x.json(
        200,
        {
            "running": engine.running,
            "waiting": engine.waiting,
            "sleeping": engine.sleeping,
            "kv_blocks_used": engine.cache.used,
            "kv_blocks": engine.cache.blocks,
            "prompt_tokens": app.metrics.prompt_tokens,
            "generation_tokens": app.metrics.generation_tokens,
            "connections": app.connections(),
        },
    )


ROUTES: dict[str, dict[str, Handler]] = {
    "/v1/chat/completions": {"POST": chat},
    "/v1/completions": {"POST": completions},
    "/v1/embeddings": {"POST": embeddings},
    "/v1/responses": {"POST": responses},
    "/v1/messages": {"POST": messages},
    "/v1/messages/count_tokens": {"POST": count_tokens},
    "/v1/audio/transcriptions": {"POST": transcriptions},
    "/v1/audio/translations": {"POST": translations},
    "/v1/rerank": {"POST": rerank},
    "/v2/rerank": {"POST": rerank},
    "/rerank": {"POST": rerank},
    "/v1/score": {"POST": score},
    "/score": {"POST": score},
    "/v1/models": {"GET": models},
    "/tokenize": {"POST": tokenize},
    "/detokenize": {"POST": detokenize},
    "/health": {"GET": health},
    "/ping": {"GET": health, "POST": health},
    "/version": {"GET": version},
    "/load": {"GET": load},
    "/metrics": {"GET": metrics},
    "/sleep": {"POST": sleep},
    "/wake_up": {"POST": wake_up},
    "/is_sleeping": {"GET": is_sleeping},
    "/reset_prefix_cache": {"POST": reset_prefix_cache},
    "/fake/log": {"GET": show_log, "DELETE": clear_log},
    "/fake/faults": {"GET": show_faults, "POST": add_faults, "DELETE": clear_faults},
    "/fake/state": {"GET": state},
}
