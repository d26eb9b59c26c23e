"""Requests to simulate: when they come, whose they are, how long their prompts and answers. Pure: seeds make them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gateway.lab.load.arrivals import Arrival


class Length(NamedTuple):
    """What a request is. `most`: the maximum that its client named."""

    tenant: str
    form: str
    prompt: int
    output: int
    most: int | None


class Job(NamedTuple):
    """One request: `at` is when it comes, in seconds."""

    at: float
    length: Length


@dataclass(frozen=True, slots=True)
class Use:
    """What a kind of client does: its share of all requests, medians and spreads (sigma) of lognormal lengths."""

    share: float
    prompt: tuple[float, float]
    output: tuple[float, float]
    form: str
    most: int | None


USES = {
    "labels": Use(0.22, (350, 0.5), (10, 0.6), "chat+json", 32),
    "extraction": Use(0.14, (1500, 0.6), (90, 0.5), "chat+json", 512),
    "chat": Use(0.26, (700, 1.0), (190, 0.9), "chat+stream", None),
    "support": Use(0.12, (1200, 0.6), (130, 0.6), "chat+stream", 1024),
    "agent": Use(0.14, (3000, 0.7), (70, 0.8), "chat+stream+tools", None),
    "code": Use(0.08, (1800, 0.8), (480, 0.8), "chat+stream", 4096),
    "reports": Use(0.04, (2500, 0.7), (1300, 0.45), "chat", 4096),
}
_LONGEST = 4096
TRACE = "trace"  # the tenant of all its requests


def synthetic(rng: random.Random, tenants: Sequence[str] = ()) -> Iterator[Length]:
    """A mix of uses: most answers are short, some are very long. Each tenant has all uses; no `tenants`: each use is one's."""
    names = list(USES)
    shares = [USES[name].share for name in names]
    while True:
        name = rng.choices(names, shares)[0]
        use = USES[name]
        prompt, output = (max(1, round(median * rng.lognormvariate(0, sigma))) for median, sigma in (use.prompt, use.output))
        yield Length(rng.choice(tenants) if tenants else name, use.form, prompt, min(output, use.most or _LONGEST), use.most)


def of_trace(rows: Sequence[Arrival], rng: random.Random) -> Iterator[Length]:
    """The lengths of a trace in its order, from a place in it that the seed chooses, around and around. One tenant."""
    place = rng.randrange(len(rows))
    while True:
        row = rows[place % len(rows)]
        yield Length(TRACE, "chat", row.prompt_tokens or 1, row.output_tokens or 1, None)
        place += 1


@dataclass(frozen=True, slots=True)
class Pace:
    """How much comes, as a share of what the fleet can serve. Every `every` seconds `times` as much, for `lasting` seconds."""

    name: str
    load: float
    times: float = 1.0
    every: float = 120.0
    lasting: float = 20.0

    def factor(self, at: float) -> float:
        return self.times if at % self.every < self.lasting else 1.0


PACES = (Pace("0.7", 0.7), Pace("0.95", 0.95), Pace("bursts", 0.65, times=3.0))


def arrive(lengths: Sequence[Length], rate: float, pace: Pace, rng: random.Random) -> list[Job]:
    """Poisson arrivals; `rate` requests a second are all that the fleet can serve."""
    jobs, at, fastest = [], 0.0, rate * pace.load * max(1.0, pace.times)
    for length in lengths:
        while True:
            at += rng.expovariate(fastest)
            if rng.random() * max(1.0, pace.times) < pace.factor(at):
                break
        jobs.append(Job(at, length))
    return jobs
