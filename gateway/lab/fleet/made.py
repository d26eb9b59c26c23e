"""Jobs that are made up: prompts that share their beginnings in a way that is known. Seeds make them.

- `shared`: conversations of several turns. Each begins with one of 64 system prompts, popular by Zipf's law, and each of its
  turns has in it all that was said before; between an answer and the next turn its user thinks.
- `none`: every prompt is another one.
- `common`: all prompts begin with the same 4,096 tokens, and are different behind them.
- `agents`: short questions, each behind the long beginning (system prompt and tools) of one of a few agents.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable, Iterator

from gateway.lab.fleet.job import Job

_GROUPS = 64
_TURNS = 6
_THINK = 30.0  # seconds, mean, from one turn to the next beside 20 ms for each token of the answer
_COMMON = 4096


def _length(rng: random.Random, median: float, sigma: float, most: int = 60_000) -> int:
    return max(1, min(most, round(median * rng.lognormvariate(0.0, sigma))))


def shared(rng: random.Random, rate: float, block: int) -> Iterator[Job]:
    """`rate`: requests a second, once the first conversations have run for a while."""
    weights = [1.0 / (rank + 1) for rank in range(_GROUPS)]
    systems = [_length(rng, 1500, 0.6, 12_000) for _ in range(_GROUPS)]
    fresh = itertools.count(1 << 40)
    due: list[tuple[float, int, int, int, tuple[int, ...]]] = []  # time, session, turn, tokens so far, keys so far
    sessions = itertools.count()
    begin, number = rng.expovariate(rate / _TURNS), 0
    while True:
        if not due or begin <= due[0][0]:
            group = rng.choices(range(_GROUPS), weights)[0]
            keys = tuple(group << 20 | depth for depth in range(systems[group] // block))
            heapq.heappush(due, (begin, next(sessions), 1, systems[group], keys))
            begin += rng.expovariate(rate / _TURNS)
            continue
        at, session, turn, said, keys = heapq.heappop(due)
        prompt = said + _length(rng, 400, 1.2)
        output = _length(rng, 250, 0.8, 4000)
        keys += tuple(next(fresh) for _ in range(prompt // block - len(keys)))
        yield Job(number, at, prompt, output, keys, f"s{session}")
        number += 1
        if turn < _TURNS:
            later = at + 0.02 * output + rng.expovariate(1 / _THINK)
            heapq.heappush(due, (later, session, turn + 1, prompt + output, keys))


def none(rng: random.Random, rate: float, block: int) -> Iterator[Job]:
    return _alone(rng, rate, block, 0)


def common(rng: random.Random, rate: float, block: int) -> Iterator[Job]:
    return _alone(rng, rate, block, _COMMON)


def agents(
    rng: random.Random, rate: float, block: int, count: int = 3, beginning: int = 16_384, shift: float | None = None
) -> Iterator[Job]:
    """`count` agents with `beginning` tokens each. `shift`: seconds for which one of them is asked for alone, each in turn."""
    fresh, at = itertools.count(1 << 40), 0.0
    for number in itertools.count():
        at += rng.expovariate(rate)
        agent = rng.randrange(count) if shift is None else int(at / shift) % count
        prompt = beginning + _length(rng, 200, 0.8, 4000)
        head = tuple(agent << 20 | depth for depth in range(beginning // block))
        keys = head + tuple(next(fresh) for _ in range(prompt // block - len(head)))
        yield Job(number, at, prompt, _length(rng, 250, 0.8, 4000), keys)


def _alone(rng: random.Random, rate: float, block: int, before: int) -> Iterator[Job]:
    head, fresh, at = tuple(range(before // block)), itertools.count(1 << 40), 0.0
    for number in itertools.count():
        at += rng.expovariate(rate)
        prompt = before + _length(rng, 3000, 1.1)
        keys = head + tuple(next(fresh) for _ in range(prompt // block - len(head)))
        yield Job(number, at, prompt, _length(rng, 250, 0.8, 4000), keys)


Kind = Callable[[random.Random, float, int], Iterator[Job]]
KINDS: dict[str, Kind] = {"shared": shared, "none": none, "common": common, "agents": agents}
RATES = {
    "shared": 0.85,
    "none": 0.55,
    "common": 0.5,
    "agents": 0.75,
}
"""Requests a second for each replica, where none is asked for."""
