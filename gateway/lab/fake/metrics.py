"""`GET /metrics` in vLLM's own names: what dashboards, autoscalers and queue-aware balancers read."""

from __future__ import annotations

import bisect
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gateway.lab.fake.engine import Engine

_TTFT = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0)
_ITL = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0)
_LATENCY = (0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0)
_TOKENS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000)
_REASONS = ("stop", "length", "abort", "error", "repetition")


class Histogram:
    def __init__(self, buckets: Sequence[float]) -> None:
        self._bounds = buckets
        self._counts = [0] * (len(buckets) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect.bisect_left(self._bounds, value)] += 1
        self._sum += value

    def lines(self, name: str, labels: str) -> Iterator[str]:
        yield f"# TYPE {name} histogram"
        total = 0
        for bound, hits in zip([*map(float, self._bounds), "+Inf"], self._counts, strict=True):
            total += hits
            yield f'{name}_bucket{{{labels},le="{bound}"}} {float(total)}'
        yield f"{name}_count{{{labels}}} {float(total)}"
        yield f"{name}_sum{{{labels}}} {self._sum}"


class Metrics:
    """Counted as things happen; written out when asked."""

    def __init__(self, model: str) -> None:
        self.labels = f'engine="0",model_name="{_escape(model)}"'
        self.started = time.time()
        self.prompt_tokens = 0
        self.cached_prompt_tokens = 0
        self.generation_tokens = 0
        self.rejections = 0
        self.success = dict.fromkeys(_REASONS, 0)
        self._ttft = Histogram(_TTFT)
        self._itl = Histogram(_ITL)
        self._e2e = Histogram(_LATENCY)
        self._queue = Histogram(_LATENCY)
        self._prompt = Histogram(_TOKENS)

    def prefilled(self, tokens: int, cached: int, seconds: float) -> None:
        self.prompt_tokens += tokens
        self.cached_prompt_tokens += cached
        self._ttft.observe(seconds)
        self._prompt.observe(tokens)

    def decoded(self, tokens: int, seconds: float) -> None:
        if tokens > 1:
            self._itl.observe(seconds / (tokens - 1))

    def finished(self, reason: str, seconds: float, queued: float) -> None:
        """A reason that is not vLLM's own (a scripted one, `tool_calls`) was a stop to the engine."""
        self.success[reason if reason in self.success else "stop"] += 1
        self._e2e.observe(seconds)
        self._queue.observe(queued)

    def exposition(self, engine: Engine) -> str:
        lines = [*self._gauges(engine), *self._counters(engine), *self._histograms(), *self._process()]
        return "\n".join(lines) + "\n"

    def _gauges(self, engine: Engine) -> Iterator[str]:
        labels, cache = self.labels, engine.cache
        values = {
            "vllm:num_requests_running": float(engine.running),
            "vllm:num_requests_waiting": float(engine.waiting),
            "vllm:kv_cache_usage_perc": cache.used / cache.blocks,
        }
        for name, value in values.items():
            yield f"# TYPE {name} gauge"
            yield f"{name}{{{labels}}} {value}"
        yield "# TYPE vllm:num_requests_waiting_by_reason gauge"
        yield f'vllm:num_requests_waiting_by_reason{{{labels},reason="capacity"}} {float(engine.waiting)}'
        yield f'vllm:num_requests_waiting_by_reason{{{labels},reason="deferred"}} 0.0'
        yield "# TYPE vllm:engine_sleep_state gauge"
        yield f'vllm:engine_sleep_state{{{labels},sleep_state="awake"}} {0.0 if engine.sleeping else 1.0}'
        size = engine.block_size
        yield "# TYPE vllm:cache_config_info gauge"
        yield (
            f'vllm:cache_config_info{{block_size="{size}",cache_dtype="auto",enable_prefix_caching="True",engine="0",'
            f'gpu_memory_utilization="0.9",kv_cache_size_tokens="{cache.blocks * size}",num_gpu_blocks="{cache.blocks}"}} 1.0'
        )

    def _counters(self, engine: Engine) -> Iterator[str]:
        values = {
            "vllm:prefix_cache_queries": engine.cache.queries,
            "vllm:prefix_cache_hits": engine.cache.hits,
            "vllm:num_preemptions": 0,
            "vllm:prompt_tokens": self.prompt_tokens,
            "vllm:prompt_tokens_cached": self.cached_prompt_tokens,
            "vllm:generation_tokens": self.generation_tokens,
        }
        for name, value in values.items():
            yield f"# TYPE {name}_total counter"
            yield f"{name}_total{{{self.labels}}} {float(value)}"
        yield "# TYPE vllm:request_success_total counter"
        for reason, times in self.success.items():
            yield f'vllm:request_success_total{{{self.labels},finished_reason="{reason}"}} {float(times)}'
        model = self.labels.partition(",")[2]
        yield "# TYPE vllm:admission_rejections_total counter"
        yield f'vllm:admission_rejections_total{{{model},reason="max_num_queued_reqs"}} {float(self.rejections)}'

    def _histograms(self) -> Iterable[str]:
        yield from self._ttft.lines("vllm:time_to_first_token_seconds", self.labels)
        yield from self._itl.lines("vllm:request_time_per_output_token_seconds", self.labels)
        yield from self._e2e.lines("vllm:e2e_request_latency_seconds", self.labels)
        yield from self._queue.lines("vllm:request_queue_time_seconds", self.labels)
        yield from self._prompt.lines("vllm:request_prompt_tokens", self.labels)

    def _process(self) -> Iterator[str]:
        yield "# TYPE process_start_time_seconds gauge"
        yield f"process_start_time_seconds {self.started}"
        yield "# TYPE process_cpu_seconds_total counter"
        yield f"process_cpu_seconds_total {time.process_time()}"


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
