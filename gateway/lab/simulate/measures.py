"""What a run tells: how long requests waited for a slot, in seconds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from gateway.lab.simulate.workload import Job

SHORT, LONG = 100, 1000  # tokens of an answer: at most, at least


class Waits(NamedTuple):
    """Seconds. None where there was no such request."""

    mean: float
    short_p95: float | None
    long_p99: float | None
    worst: float


def waits_of(jobs: Sequence[Job], waits: Sequence[float]) -> Waits:
    short = [wait for job, wait in zip(jobs, waits, strict=True) if job.length.output <= SHORT]
    long = [wait for job, wait in zip(jobs, waits, strict=True) if job.length.output >= LONG]
    return Waits(sum(waits) / max(1, len(waits)), quantile(short, 0.95), quantile(long, 0.99), max(waits, default=0.0))


class TenantWaits(NamedTuple):
    """Seconds that one tenant's requests waited, and which share of them was refused."""

    mean: float | None
    p99: float | None
    refused: float


def by_tenant(jobs: Sequence[Job], waits: Sequence[float]) -> dict[str, TenantWaits]:
    """A wait that is NaN is a refusal."""
    several: dict[str, list[float]] = {}
    for job, wait in zip(jobs, waits, strict=True):
        several.setdefault(job.length.tenant, []).append(wait)
    return {tenant: _of(own) for tenant, own in sorted(several.items())}


def _of(waits: Sequence[float]) -> TenantWaits:
    served = [wait for wait in waits if not math.isnan(wait)]
    return TenantWaits(mean(served), quantile(served, 0.99), 1 - len(served) / len(waits))


def quantile(values: Sequence[float], share: float) -> float | None:
    """The least of the values that so many are not above."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None


def mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def ratio(value: float | None, of: float | None) -> float | None:
    return value / of if value is not None and of else None


def ranked(predicted: Sequence[int], true: Sequence[int], near: int = 500) -> float | None:
    """How often, of two requests that came near one another, the longer is the one that was thought to be; a tie counts half.

    0.5 is chance, 1 is perfect. Kendall's tau is twice this, less one. Pairs are a fixed sample of those whose lengths differ.
    """
    right = pairs = 0.0
    for place in range(len(true)):
        for step in (1, 7, 31, 127, near - 1):
            other = place + step
            if other < len(true) and true[place] != true[other]:
                pairs += 1
                lower = predicted[place] < predicted[other]
                right += 0.5 if predicted[place] == predicted[other] else lower == (true[place] < true[other])
    return right / pairs if pairs else None
