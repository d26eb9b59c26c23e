"""What a run tells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gateway.lab.fleet.fleet import Fleet
from gateway.lab.simulate.measures import quantile


class Result(NamedTuple):
    """Seconds, and shares of all requests that were served, `hit` of their prompt tokens; None where there is nothing to measure.

    `imbalance`: the largest replica's seconds of prefill over the mean.
    """

    hit: float
    ttft_mean: float | None
    ttft_p50: float | None
    ttft_p99: float | None
    good: float
    itl_p99: float | None
    imbalance: float | None
    refused: float


def result_of(fleet: Fleet, goal: float) -> Result:
    """`goal`: seconds to a first token that are good enough."""
    refused = set(fleet.refused)
    jobs = [job for job in fleet.jobs if job.number not in refused]
    ttft = [fleet.first[job.number] - job.at for job in jobs]
    prompts = sum(job.prompt for job in jobs)
    busy = [engine.prefilling for engine in fleet.engines.values()]
    return Result(
        hit=sum(fleet.cached) / prompts if prompts else 0.0,
        ttft_mean=sum(ttft) / len(ttft) if ttft else None,
        ttft_p50=quantile(ttft, 0.5),
        ttft_p99=quantile(ttft, 0.99),
        good=sum(seconds <= goal for seconds in ttft) / max(1, len(ttft)),
        itl_p99=weighted_quantile(fleet.gaps, 0.99),
        imbalance=max(busy) * len(busy) / sum(busy) if sum(busy) else None,
        refused=len(refused) / max(1, len(fleet.jobs)),
    )


def weighted_quantile(values: Sequence[tuple[float, int]], share: float) -> float | None:
    """The least value that so large a share of the weight is not above."""
    ordered = sorted(values)
    wanted, seen = share * sum(weight for _, weight in ordered), 0
    for value, weight in ordered:
        seen += weight
        if seen >= wanted:
            return value
    return None
