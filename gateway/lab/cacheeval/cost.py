"""CPU of one lookup: a sentence embedded alone, two texts held against each other, a pair that is verified.

Told, never judged: machines differ.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from statistics import mean, quantiles

from caches.embed.types import Model
from gateway.lab.cacheeval.judge import CrossEncoderJudge
from gateway.lab.cacheeval.policies import Policy

SAMPLE = 100
_WARM = 5


@dataclass(frozen=True, slots=True)
class Cost:
    """Milliseconds of CPU, of the whole process."""

    count: int
    mean: float
    p50: float
    p95: float


def of_embedding(model: Model, texts: Sequence[str], seed: int, clock: Callable[[], float] = time.process_time) -> Cost:
    sample = _sample(texts, seed)
    for text in sample[:_WARM]:
        model.embed([text])
    return _cost([_timed(partial(model.embed, [text]), clock) for text in sample])


def of_decision(
    policy: Policy, pairs: Sequence[tuple[str, str]], seed: int, clock: Callable[[], float] = time.process_time
) -> Cost:
    """Of an asked text that is new and a stored one that was read before, as the cache keeps the readings of those."""
    sample = Random(seed).sample(pairs, min(SAMPLE, len(pairs)))
    for stored, _ in sample:
        policy.decide(1.0, stored, stored)
    return _cost([_timed(partial(policy.decide, 1.0, asked, stored), clock) for stored, asked in sample])


def of_verification(
    judge: CrossEncoderJudge, pairs: Sequence[tuple[str, str]], seed: int, clock: Callable[[], float] = time.process_time
) -> Cost:
    """Of a pair that it was not asked about before."""
    sample = Random(seed).sample(pairs, min(SAMPLE, len(pairs)))
    for stored, asked in sample[:_WARM]:
        judge.score(asked, stored)
    return _cost([_timed(partial(judge.score, asked, stored), clock) for stored, asked in sample])


def _sample(texts: Sequence[str], seed: int) -> list[str]:
    ordered = sorted(set(texts))
    return Random(seed).sample(ordered, min(SAMPLE, len(ordered)))


def _timed(call: Callable[[], object], clock: Callable[[], float]) -> float:
    begun = clock()
    call()
    return (clock() - begun) * 1e3


def _cost(times: Sequence[float]) -> Cost:
    if not times:
        return Cost(0, 0.0, 0.0, 0.0)
    cuts = quantiles(times, n=20, method="inclusive") if len(times) > 1 else [times[0]] * 19
    return Cost(len(times), mean(times), cuts[9], cuts[18])
