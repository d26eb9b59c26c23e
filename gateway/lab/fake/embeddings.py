"""`POST /v1/embeddings`: vectors made from the text's bytes, so that the same text has the same vector, and of length one.

Texts that share words are nearer to each other than texts that do not: each word adds its own direction.
"""

from __future__ import annotations

import base64
import math
import random
import struct
import time
import zlib
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from gateway.lab.fake import checks, fields
from gateway.lab.fake.chat import identity, refuse_overflow
from gateway.lab.fake.completions import prompts_of
from gateway.lab.fake.engine import Job
from gateway.lab.fake.errors import bad, invalid
from gateway.lab.fake.exchange import Exchange, hang
from gateway.lab.fake.text import count

if TYPE_CHECKING:
    from gateway.lab.fake.server import App


async def embeddings(app: App, x: Exchange, raw: bytes) -> None:
    body = x.parse(raw)
    checks.salt(body.get("cache_salt"))
    fields.check(body, fields.EMBEDDINGS, "input")
    form = body.get("encoding_format") or "float"
    if form not in ("float", "base64"):
        raise invalid(
            [
                {
                    "type": "literal_error",
                    "loc": "body.encoding_format",
                    "msg": "Input should be 'float' or 'base64'",
                    "input": form,
                }
            ]
        )
    model, _ = app.model(body.get("model"))
    refuse_overflow(app, 1)
    texts = prompts_of(body["input"])
    width = _width(body.get("dimensions"), app.options.dimensions)
    for text in texts:
        checks.room(count(text), None, "max_tokens", app.options.max_model_len)
    tokens = sum(map(count, texts))
    x.entry.request_id, x.entry.prompt_tokens = identity(app, x, body, "embd-"), tokens
    fault = x.fault
    async with app.engine.lease(Job(b"".join(texts), 0, slow=fault.slow if fault else 0.0)) as lease:
        await hang(fault.hang_before_first_token if fault else False)
        await lease.token(0)
        lease.finish = "stop"
    x.first_token()
    await x.json(200, _answer(x, model, [vector(text, width) for text in texts], tokens, form))


def _width(wanted: int | None, full: int) -> int:
    if wanted is None:
        return full
    if wanted < 1:
        raise bad("dimensions must be greater than 0", "dimensions", wanted)
    if wanted > full:
        raise bad(f"dimensions must be at most {full}, the size of the model's embeddings", "dimensions", wanted)
    return wanted


def _answer(x: Exchange, model: str, vectors: list[list[float]], tokens: int, form: str) -> dict[str, Any]:
    data = [
        {"index": index, "object": "embedding", "embedding": packed(values) if form == "base64" else values}
        for index, values in enumerate(vectors)
    ]
    counted = {"prompt_tokens": tokens, "total_tokens": tokens, "completion_tokens": 0}
    nothing = {"prompt_tokens_details": None, "completion_tokens_details": None}
    name, made = x.entry.request_id, int(time.time())
    answer = {"id": name, "object": "list", "created": made, "model": model, "data": data, "usage": counted | nothing}
    if x.fault is not None and x.fault.usage_missing:
        del answer["usage"]
    return answer


def packed(values: list[float]) -> str:
    """Base64 of little-endian float32, the form the SDK asks for by default."""
    return base64.b64encode(struct.pack(f"<{len(values)}f", *values)).decode()


def vector(text: bytes, width: int) -> list[float]:
    total = [0.0] * width
    for word in text.lower().split() or [b""]:
        for at, value in enumerate(_direction(zlib.crc32(word), width)):
            total[at] += value
    length = math.sqrt(sum(value * value for value in total)) or 1.0
    return [struct.unpack("f", struct.pack("f", value / length))[0] for value in total]


@lru_cache(maxsize=4096)
def _direction(seed: int, width: int) -> tuple[float, ...]:
    rng = random.Random(seed)
    return tuple(rng.gauss(0.0, 1.0) for _ in range(width))
