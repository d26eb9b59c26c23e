"""What an engine tells of its prefix cache at `/metrics`, under vLLM's names: since when it has it, and how large it is."""

from __future__ import annotations

from dataclasses import dataclass

from backends.engine import read_engine
from backends.gauges import read_gauge, read_samples

_CONFIG = b"vllm:cache_config_info"
_STARTED = b"process_start_time_seconds"
_COUNTED = b"vllm:prompt_tokens_total"
_QUERIES = b"vllm:prefix_cache_queries"
_HITS = b"vllm:prefix_cache_hits"
_SLEEP = b"vllm:engine_sleep_state"
_CLOCK = 1.0  # seconds that a start time may be read differently


@dataclass(frozen=True, slots=True)
class Kept:
    """None: it did not say. `tokens`: room of the cache; 0 where prefixes are not kept."""

    started: float | None = None
    counted: float | None = None  # prompt tokens since then
    asleep: bool = False
    tokens: int | None = None
    queries: float | None = None  # prompt tokens that were looked up in the cache
    hits: float | None = None  # and that were there

    def newer(self, before: Kept) -> bool:
        """It was started anew since."""
        if self.started is not None and before.started is not None and abs(self.started - before.started) > _CLOCK:
            return True
        return self.counted is not None and before.counted is not None and self.counted < before.counted


def asleep(page: bytes) -> bool:
    """It keeps requests until somebody wakes it."""
    awake = [value for labels, value in read_samples(page, _SLEEP) if b'sleep_state="awake"' in labels]
    return bool(awake) and not any(awake)


def read_kept(page: bytes) -> Kept:
    engine = read_engine(page)
    tokens = None if engine is None else engine.kv_tokens
    if any(b'enable_prefix_caching="False"' in labels for labels, _ in read_samples(page, _CONFIG)):
        tokens = 0.0
    return Kept(
        started=read_gauge(page, _STARTED),
        counted=read_gauge(page, _COUNTED),
        asleep=asleep(page),
        tokens=None if tokens is None else int(tokens),
        queries=_count(page, _QUERIES),
        hits=_count(page, _HITS),
    )


def _count(page: bytes, name: bytes) -> float | None:
    """A counter, by either of the names that clients of Prometheus give it."""
    total = read_gauge(page, name + b"_total")
    return read_gauge(page, name) if total is None else total
