"""What an engine tells of itself at `/metrics`, under vLLM's names. Other engines tell nothing that is understood here."""

from __future__ import annotations

import re
from dataclasses import dataclass

from backends.gauges import WAITING, read_gauge, read_samples

_RUNNING = b"vllm:num_requests_running"
_PREEMPTIONS = b"vllm:num_preemptions_total"
_USAGE = (b"vllm:kv_cache_usage_perc", b"vllm:gpu_cache_usage_perc")  # the second is what older versions say
_CONFIG = b"vllm:cache_config_info"
_TOKENS = re.compile(rb'(?:^|,)kv_cache_size_tokens="(\d{1,12})"')
_BLOCKS = re.compile(rb'(?:^|,)num_gpu_blocks="(\d{1,9})"')
_BLOCK_SIZE = re.compile(rb'(?:^|,)block_size="(\d{1,5})"')


@dataclass(frozen=True, slots=True)
class EngineView:
    """One moment of one server, all its data-parallel engines together. None: it did not say.

    `preemptions` are counted since it started; `usage` is the share of the KV cache that running requests hold, of the
    fullest engine; `kv_tokens` is what that cache holds.
    """

    running: float
    waiting: float
    preemptions: float | None = None
    usage: float | None = None
    kv_tokens: float | None = None


def read_engine(page: bytes) -> EngineView | None:
    """None when it does not tell what runs and what waits."""
    running, waiting = read_gauge(page, _RUNNING), read_gauge(page, WAITING)
    if running is None or waiting is None:
        return None
    usages = [value for name in _USAGE for _, value in read_samples(page, name) if value <= 1.0]
    return EngineView(running, waiting, read_gauge(page, _PREEMPTIONS), max(usages, default=None), _kv_tokens(page))


def _kv_tokens(page: bytes) -> float | None:
    sizes = [_size(labels) for labels, _ in read_samples(page, _CONFIG)]
    return float(sum(sizes)) or None


def _size(labels: bytes) -> int:
    """Of one engine; 0 where it cannot be read."""
    told = _TOKENS.search(labels)
    if told is not None:
        return int(told[1])
    blocks, size = _BLOCKS.search(labels), _BLOCK_SIZE.search(labels)
    return int(blocks[1]) * int(size[1]) if blocks is not None and size is not None else 0
