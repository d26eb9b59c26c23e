"""`/score` and `/rerank`, with `/v1` (and `/v2/rerank`) in front or not: texts that share words are near to each other."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from gateway.lab.fake import checks, fields
from gateway.lab.fake.chat import identity, refuse_overflow
from gateway.lab.fake.embeddings import vector
from gateway.lab.fake.engine import Job
from gateway.lab.fake.errors import bad, invalid
from gateway.lab.fake.exchange import Exchange, hang
from gateway.lab.fake.text import count

if TYPE_CHECKING:
    from gateway.lab.fake.server import App

_PAIRS = (("queries", "documents"), ("queries", "items"), ("data_1", "data_2"), ("text_1", "text_2"))
_WIDTH = 64
_MOST_PROMPT = 1_048_576


async def rerank(app: App, x: Exchange, raw: bytes) -> None:
    body = _body(x, raw)
    for name in ("query", "documents"):
        if name not in body:
            raise invalid([{"type": "missing", "loc": f"body.{name}", "msg": "Field required", "input": body}])
    model, _ = app.model(body.get("model"))
    query, documents = _texts(body["query"]), _texts(body["documents"])
    scores, tokens = await _scored(app, x, query * len(documents), documents, body)
    order = sorted(range(len(documents)), key=lambda at: -scores[at])
    top = body.get("top_n") or len(documents)
    results = [{"index": at, "document": {"text": documents[at], "multi_modal": None}, "relevance_score": scores[at]}
               for at in order[:top]]  # fmt: skip
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    await _send(x, {"id": x.entry.request_id, "model": model, "usage": usage, "results": results})


async def score(app: App, x: Exchange, raw: bytes) -> None:
    body = _body(x, raw)
    pair = next((pair for pair in _PAIRS if pair[0] in body and pair[1] in body), None)
    if pair is None:
        raise invalid([{"type": "missing", "loc": "body.queries", "msg": "Field required", "input": body}])
    model, _ = app.model(body.get("model"))
    left, right = _texts(body[pair[0]]), _texts(body[pair[1]])
    if len(left) not in (1, len(right)):
        raise bad("Input lengths must be either 1:1, 1:N or N:N")
    scores, tokens = await _scored(app, x, left * (len(right) if len(left) == 1 else 1), right, body)
    data = [{"index": at, "object": "score", "score": value} for at, value in enumerate(scores)]
    usage = {"prompt_tokens": tokens, "total_tokens": tokens, "completion_tokens": 0, "prompt_tokens_details": None}
    made = int(time.time())
    await _send(x, {"id": x.entry.request_id, "object": "list", "created": made, "model": model, "data": data, "usage": usage})


def _body(x: Exchange, raw: bytes) -> dict[str, Any]:
    body = x.parse(raw)
    checks.salt(body.get("cache_salt"))
    fields.check(body, fields.SCORING)
    return body


def _texts(value: Any) -> list[str]:
    items = value if isinstance(value, list) else [value]
    if not items:
        raise bad("At least one text element must be given")
    return [str(item.get("text", item.get("content", ""))) if isinstance(item, dict) else str(item) for item in items]


async def _scored(app: App, x: Exchange, left: list[str], right: list[str], body: dict[str, Any]) -> tuple[list[float], int]:
    refuse_overflow(app, 1)
    pairs = [(one.encode("utf-8", "replace"), two.encode("utf-8", "replace")) for one, two in zip(left, right, strict=True)]
    tokens = sum(count(one) + count(two) for one, two in pairs)
    for one, two in pairs:
        checks.room(count(one) + count(two), None, "max_tokens", app.options.max_model_len)
    x.entry.request_id, x.entry.prompt_tokens = identity(app, x, body, "score-"), tokens
    fault = x.fault
    async with app.engine.lease(Job(_prompt(pairs), 0, slow=fault.slow if fault else 0.0)) as lease:
        await hang(fault.hang_before_first_token if fault else False)
        await lease.token(0)
        lease.finish = "stop"
    x.first_token()
    return [sum(a * b for a, b in zip(vector(one, _WIDTH), vector(two, _WIDTH), strict=True)) for one, two in pairs], tokens


def _prompt(pairs: list[tuple[bytes, bytes]]) -> bytes:
    """What the prefix cache is told: the pairs one after the other, but no more than a long query before many texts makes."""
    pieces, size = [], 0
    for one, two in pairs:
        if size > _MOST_PROMPT:
            break
        pieces.append(one + two)
        size += len(one) + len(two)
    return b"".join(pieces)


async def _send(x: Exchange, answer: dict[str, Any]) -> None:
    if x.fault is not None and x.fault.usage_missing:
        del answer["usage"]
    await x.json(200, answer)
