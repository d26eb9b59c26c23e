"""The result of a run as one JSON document. `SCHEMA` changes when a name or a meaning does.

Nothing secret is in it: of keys their number, of extra headers their names, of the target its address.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gateway import __version__
from gateway.lab.load.doubts import doubts
from gateway.lab.load.measures import Measures, Second

SCHEMA = "tiergate.load/1"
MAX_BUCKETS = 600


@dataclass(frozen=True, slots=True)
class Course:
    """How the run itself went."""

    parameters: Mapping[str, Any]
    started_at: str  # ISO 8601, UTC
    wall: float  # seconds, warm-up included
    cpu: float  # seconds, user and system
    interrupted: bool
    goodput_wanted: float | None = None

    @property
    def cpu_share(self) -> float:
        return self.cpu / self.wall if self.wall > 0 else 0.0


def document(measures: Measures, course: Course) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "started_at": course.started_at,
        "parameters": dict(course.parameters),
        "interrupted": course.interrupted,
        "requests": _requests(measures),
        "rates_per_s": dict(measures.rates()),
        "span_s": round(measures.span, 3),
        "goodput": _goodput(measures, course),
        "latency_ms": {name: histogram.summary() for name, histogram in measures.histograms.items()},
        "tokens": {"prompt": measures.prompt_tokens, "output": measures.output_tokens, "cached": measures.cached_tokens},
        "statuses": dict(measures.statuses.most_common()),
        "errors": dict(measures.codes.most_common()),
        "tiergate": {name: dict(counter.most_common()) for name, counter in sorted(measures.labels.items())},
        "generator": {"cpu_s": round(course.cpu, 3), "cpu_share": round(course.cpu_share, 4), "wall_s": round(course.wall, 3)},
        "warnings": doubts(measures, course.cpu_share),
        "series": _series(measures),
        "histograms": {name: histogram.encoded() for name, histogram in measures.histograms.items()},
        "machine": _machine(),
    }


def _requests(measures: Measures) -> dict[str, Any]:
    return {
        "arrivals": measures.arrivals,
        "dropped": measures.dropped,
        "dropped_in_warmup": measures.dropped_in_warmup,
        "ok": measures.ok,
        "failed": {outcome.value: count for outcome, count in measures.outcomes.most_common() if outcome != "ok"},
    }


def _goodput(measures: Measures, course: Course) -> dict[str, Any] | None:
    if measures.slo is None or measures.goodput is None:
        return None
    wanted = course.goodput_wanted
    met = None if wanted is None else measures.goodput >= wanted
    rate = measures.rates()["good"]
    return {"slo": measures.slo.text, "good": measures.good, "share": round(measures.goodput, 6), "per_s": rate,
            "wanted_share": wanted, "met": met}  # fmt: skip


def _series(measures: Measures) -> dict[str, Any]:
    """By when requests were due; several seconds a bucket where the run was long."""
    width = 1 + max(measures.seconds, default=0) // MAX_BUCKETS
    buckets: dict[int, Second] = {}
    for second, part in sorted(measures.seconds.items()):
        whole = buckets.setdefault(second // width, Second())
        whole.arrivals += part.arrivals
        whole.ok += part.ok
        whole.failed += part.failed
        whole.dropped += part.dropped
        whole.ttft_sum += part.ttft_sum
        whole.ttft_count += part.ttft_count
        whole.ttft_max = max(whole.ttft_max, part.ttft_max)
    return {"bucket_s": width, "buckets": [_bucket(number * width, bucket) for number, bucket in sorted(buckets.items())]}


def _bucket(at: int, bucket: Second) -> dict[str, Any]:
    mean = round(bucket.ttft_sum / bucket.ttft_count * 1e3, 3) if bucket.ttft_count else None
    return {
        "at_s": at,
        "arrivals": bucket.arrivals,
        "ok": bucket.ok,
        "failed": bucket.failed,
        "dropped": bucket.dropped,
        "ttft_mean_ms": mean,
        "ttft_max_ms": round(bucket.ttft_max * 1e3, 3) if bucket.ttft_count else None,
    }


def _machine() -> dict[str, Any]:
    versions = {name: importlib.metadata.version(name) for name in ("uvloop", "httptools", "msgspec", "hdrhistogram")}
    return {
        "system": f"{platform.system()} {platform.release()}",
        "architecture": platform.machine(),
        "cores": os.cpu_count(),
        "load_average": [round(load, 2) for load in os.getloadavg()],
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "versions": {"tiergate": __version__, **versions},
    }
