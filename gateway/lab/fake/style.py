"""What both wire formats share: who the answer is from, its usage, its log probabilities.

Streams are written as bytes put together from parts that were encoded once; the key order is vLLM's.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gateway.lab.fake.text import EOS, EOS_ID, RING, encode

VERSION = "0.32.0"


def fingerprint(model: str) -> str:
    return f"vllm-{VERSION}-{zlib.crc32(model.encode()):08x}"


@dataclass(frozen=True, slots=True)
class Ask:
    """What the request asks of the form of its answer."""

    id: str
    model: str
    created: int
    stream: bool = False
    n: int = 1
    include_usage: bool = False
    continuous: bool = False
    logprobs: int | None = None
    token_ids: bool = False
    details: bool = False
    parsed: bool = False  # the server parses what the model says, which shows in the deltas of a stream
    block_size: int | None = None  # of the prefix cache, where the usage tells how much of the prompt is new in it
    prompt: bytes = b""
    prompt_tokens: int = 0
    echo: str = ""

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.model)


def usage(ask: Ask, completion: int, *, cached: int | None = None, reasoning: int | None = None) -> dict[str, Any]:
    """As `model_dump` writes it, nulls and all."""
    created = None
    if ask.block_size is not None and cached is not None:
        created = max(0, ask.prompt_tokens // ask.block_size * ask.block_size - cached)
    details = {"cached_tokens": cached, "created_cache_tokens": created, "multimodal_tokens": None}
    return {
        "prompt_tokens": ask.prompt_tokens,
        "total_tokens": ask.prompt_tokens + completion,
        "completion_tokens": completion,
        "prompt_tokens_details": details if ask.details and cached is not None else None,
        "completion_tokens_details": {"reasoning_tokens": reasoning} if reasoning else None,
    }


def bare(value: Any) -> Any:
    """Without the nulls, as the usage chunk has it."""
    if isinstance(value, dict):
        return {name: bare(inner) for name, inner in value.items() if inner is not None}
    return value


def compact(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def probability(token: str, place: int) -> float:
    """A number that looks like a log probability, the same for the same token in the same place."""
    return -(zlib.crc32(token.encode("utf-8", "replace"), place) % 4000) / 1000


def alternatives(token: str, place: int, count: int) -> list[tuple[str, float]]:
    """The token itself and the next `count - 1` less likely ones."""
    first = probability(token, place)
    start = zlib.crc32(token.encode("utf-8", "replace")) % len(RING)
    others = [RING[(start + step) % len(RING)] for step in range(1, 4 * count)]
    distinct = list(dict.fromkeys(other for other in others if other != token))
    return [(token, first), *((other, first - step) for step, other in enumerate(distinct, 1))][: max(count, 0)]


def token_ids(text: str) -> list[int]:
    return [EOS_ID] if text == EOS else encode(text.encode("utf-8", "replace")) or [EOS_ID]


def tokens_of(texts: Sequence[str], *, eos: bool) -> list[str]:
    return [*texts, EOS] if eos else list(texts)
