"""What is measured, and in which order: cell by cell, and in each cell the gateways in turn.

So that a mood of the machine meets all of them alike, a round goes through its cells once, every gateway has its turn in each
cell, and the one that begins changes from round to round. How much is sent was found out beforehand for each gateway, so that a
cell takes about as long with a slow one as with a fast one. One gateway's failure is noted and costs the others nothing.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

import psutil

from bench.figures import tail
from bench.load import CONNECTIONS, Bodies, Load, Taken, Target, drive
from bench.processes import Running
from bench.records import SIZES, PeerRecord, Round
from bench.upstream import PACE, TOKENS

_BROKEN = (OSError, RuntimeError, TimeoutError, psutil.Error)
_CELL_TIMEOUT = 90.0
_STRIKES = 3  # failed cells after which a gateway is left out
_SIZE_CONNECTIONS = 8


@dataclass(slots=True)
class Entrant:
    """A gateway in the race; the direct way is one without a process."""

    target: Target
    record: PeerRecord
    running: Running | None = None
    loads: dict[str, Load] = field(default_factory=dict)

    def out(self) -> bool:
        return self.record.failure is not None


@dataclass(frozen=True, slots=True)
class Plan:
    rounds: int = 5
    seconds: float = 1.5  # of a cell
    most: int = 6_000  # requests of a cell
    sizes: Mapping[str, int] = field(default_factory=lambda: SIZES)


async def _requests(entrant: Entrant, bodies: Bodies, into: Round) -> None:
    load = entrant.loads["requests"]
    spent, taken = await _weighed(entrant, bodies, load)
    into.request_us = None if spent is None else spent / load.requests * 1e6
    into.many = tail(taken.whole)


async def _single(entrant: Entrant, bodies: Bodies, into: Round) -> None:
    into.one = tail((await drive(entrant.target, bodies, entrant.loads["single"])).whole)


async def _streams(entrant: Entrant, bodies: Bodies, into: Round) -> None:
    load = entrant.loads["streams"]
    spent, taken = await _weighed(entrant, bodies, load)
    into.token_us = None if spent is None else spent / (load.requests * TOKENS) * 1e6
    into.ttft = tail(taken.first)


def _size(name: str) -> Callable[[Entrant, Bodies, Round], Awaitable[None]]:
    async def cell(entrant: Entrant, bodies: Bodies, into: Round) -> None:
        load = entrant.loads[name]
        spent, _ = await _weighed(entrant, bodies, load)
        if spent is not None:
            into.sizes[name] = spent / load.requests * 1e6

    return cell


async def _weighed(entrant: Entrant, bodies: Bodies, load: Load) -> tuple[float | None, Taken]:
    """CPU seconds of the gateway while it carries the load (the direct way has none), and how long the answers took."""
    before = entrant.running.cpu() if entrant.running else 0.0
    taken = await drive(entrant.target, bodies, load)
    return (entrant.running.cpu() - before if entrant.running else None), taken


async def measure(entrants: Mapping[str, Entrant], plan: Plan) -> None:
    """Fill the entrants' records."""
    bodies = Bodies()
    for name, entrant in entrants.items():
        if not entrant.out():
            _say(f"probing {name}")
            await _attempt(entrant, "probe", _probe(entrant, bodies, plan))
            if entrant.record.errors and not entrant.out():
                entrant.record.failure = entrant.record.errors[-1]
    cells: dict[str, Callable[[Entrant, Bodies, Round], Awaitable[None]]] = {
        "requests": _requests, "single": _single, "streams": _streams, **{name: _size(name) for name in plan.sizes},
    }  # fmt: skip
    for number in range(plan.rounds):
        _say(f"round {number + 1} of {plan.rounds}")
        await _round(number, entrants, cells, bodies)
    for entrant in entrants.values():
        if entrant.running and entrant.running.alive():
            entrant.record.rss_after_mib = entrant.running.rss()


async def _round(
    number: int,
    entrants: Mapping[str, Entrant],
    cells: Mapping[str, Callable[[Entrant, Bodies, Round], Awaitable[None]]],
    bodies: Bodies,
) -> None:
    fresh = {name: Round() for name, entrant in entrants.items() if not entrant.out()}
    for cell, run in cells.items():
        for name in rotated(list(fresh), number):
            entrant = entrants[name]
            if not entrant.out():
                await _attempt(entrant, f"round {number + 1}, {cell}", run(entrant, bodies, fresh[name]))
    for name, one in fresh.items():
        entrants[name].record.rounds.append(one)


def rotated(names: list[str], by: int) -> list[str]:
    shift = by % len(names) if names else 0
    return names[shift:] + names[:shift]


async def _attempt(entrant: Entrant, what: str, work: Awaitable[None]) -> None:
    """One cell of one gateway. Its failure is its own: noted, and after some of them the gateway is out."""
    record = entrant.record
    try:
        async with asyncio.timeout(_CELL_TIMEOUT):
            await work
    except _BROKEN as error:
        record.errors.append(f"{what}: {str(error) or 'it took too long'}")
        if entrant.running and not entrant.running.alive():
            record.failure = f"{what}: it {entrant.running.end()}"
        elif len(record.errors) >= _STRIKES:
            record.failure = record.errors[-1]


async def _probe(entrant: Entrant, bodies: Bodies, plan: Plan) -> None:
    """Warm it up, and find how much it carries in the time of a cell."""
    seconds, target, loads = plan.seconds, entrant.target, entrant.loads
    await _took(target, bodies, Load(2 * CONNECTIONS))
    rate = 4 * CONNECTIONS / await _took(target, bodies, Load(4 * CONNECTIONS))
    loads["requests"] = Load(fitted(rate, seconds, CONNECTIONS, plan.most))
    rate = 16 / await _took(target, bodies, Load(16, 1))
    loads["single"] = Load(fitted(rate, seconds / 2, 16, plan.most), 1)
    length = TOKENS * PACE
    took = await _took(target, bodies, Load(CONNECTIONS, stream=True, spread=length))
    turns = max(1, min(3, round(2 * seconds / took)))
    loads["streams"] = Load(CONNECTIONS * turns, stream=True, spread=length)
    for name, size in plan.sizes.items():
        rate = _SIZE_CONNECTIONS / await _took(target, bodies, Load(_SIZE_CONNECTIONS, _SIZE_CONNECTIONS, size=size))
        loads[name] = Load(fitted(rate, seconds / 2, _SIZE_CONNECTIONS, plan.most), _SIZE_CONNECTIONS, size=size)
    entrant.record.counts = {name: load.requests for name, load in loads.items()}


def fitted(rate: float, seconds: float, step: int, most: int) -> int:
    """Requests for so many seconds at this rate: a multiple of `step`, at least one step."""
    return max(step, min(most, int(rate * seconds)) // step * step)


async def _took(target: Target, bodies: Bodies, load: Load) -> float:
    began = time.perf_counter()
    await drive(target, bodies, load)
    return time.perf_counter() - began


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
