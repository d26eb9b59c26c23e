"""One load's turn at one gateway, and what it took: the loads that `bench.workers` has, and what is counted of each."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

from bench.arrivals import Mix, Pace, Sender, Took
from bench.processes import Running
from bench.tree import Spent, connections, spent
from bench.upstream import TOKENS

_QUIET = 0.05  # seconds after which all has been said that was to be said of earlier requests
LOADS: dict[str, tuple[Mix, Pace]] = {
    "low": (Mix(), Pace(32, 100)),
    "mid": (Mix(), Pace(64, 1000)),
    "closed 32": (Mix(), Pace(32)),
    "closed 64": (Mix(), Pace(64)),
    "streams": (Mix(streamed=1.0), Pace(32)),
    "hits": (Mix(again=1.0), Pace(32)),
    "mixed": (Mix(streamed=0.1, again=0.2), Pace(64, 300)),
}
TOLD = {
    "low": "100 unstreamed requests a second, at random",
    "mid": "1,000 of them a second",
    "closed 32": "each of 32 connections asks again as soon as it is answered",
    "closed 64": "each of 64",
    "streams": f"32 connections, streams of {TOKENS} tokens 10 ms apart",
    "hits": "32 connections, answers that are in the exact cache",
    "mixed": "300 a second, one in ten streamed, one in five in the cache",
}


@dataclass(slots=True)
class Cell:
    """One load's turn at one entrant. Microseconds of CPU, milliseconds of time."""

    requests: int
    request_us: float
    dispatcher_us: float  # of it
    token_us: float | None
    whole: list[float]
    first: list[float]
    late_ms: float
    a_second: float


@dataclass(slots=True)
class Entrant:
    running: Running
    sender: Sender
    workers: int
    idle: list[float] = field(default_factory=list)  # CPU milliseconds a second
    shares: list[float] = field(default_factory=list)  # of the connections of each turn, the fullest worker's
    cells: dict[str, list[Cell]] = field(default_factory=dict)

    def spent(self) -> Spent:
        return spent(self.running.tree())


async def turn(entrant: Entrant, load: str, seconds: float) -> Cell:
    mix, pace = LOADS[load]
    await entrant.sender.open(pace.connections)
    try:
        held = connections(entrant.running.tree(), entrant.running.target.port)
        entrant.shares.append(max(held.values(), default=0) / pace.connections)
        await asyncio.sleep(_QUIET)
        before, began = entrant.spent(), time.perf_counter()
        took = await entrant.sender.send(mix, pace, seconds)
        await asyncio.sleep(_QUIET)
        return _cell(mix, took, before, entrant.spent(), time.perf_counter() - began - _QUIET)
    finally:
        entrant.sender.close()


def _cell(mix: Mix, took: Took, before: Spent, after: Spent, seconds: float) -> Cell:
    each = 1e6 / took.requests
    whole = (after.whole - before.whole) * each
    others = list(after.running)[1:]  # the supervisor starts the dispatcher first
    dispatcher = (after.running[others[0]] - before.running.get(others[0], 0.0)) * each if others else 0.0
    token = whole / TOKENS if mix.streamed == 1.0 else None
    return Cell(took.requests, whole, dispatcher, token, took.whole, took.first, took.late * 1e3, took.requests / seconds)
