"""When requests are due. Pure: randomness comes in as a seeded generator, time is seconds from the start."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Iterator
from typing import NamedTuple


class Arrival(NamedTuple):
    """One request: when it is due and, where a trace knows, its lengths in tokens and the blocks of its prompt."""

    at: float
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    blocks: tuple[int, ...] = ()


def poisson(rate: float, rng: random.Random) -> Iterator[Arrival]:
    """Independent users: gaps are exponential, so that as many requests come within any second as chance will have it."""
    at = 0.0
    while True:
        at += rng.expovariate(rate)
        yield Arrival(at)


def constant(rate: float) -> Iterator[Arrival]:
    for number in itertools.count():
        yield Arrival(number / rate)


def replay(rows: Iterable[Arrival], *, speed: float) -> Iterator[Arrival]:
    """A trace from its first request on, `speed` times as fast."""
    first: float | None = None
    for row in rows:
        first = row.at if first is None else first
        yield row._replace(at=(row.at - first) / speed)


def bounded(arrivals: Iterable[Arrival], *, warmup: float, seconds: float | None, requests: int | None) -> Iterator[Arrival]:
    """All of the warm-up, and after it so many seconds or so many requests, whichever ends first."""
    measured = 0
    for arrival in arrivals:
        if arrival.at >= warmup:
            if seconds is not None and arrival.at >= warmup + seconds:
                return
            measured += 1
        yield arrival
        if requests is not None and measured >= requests:
            return
