"""The order in which things are measured: cell by cell, and in each cell the gateways in turn.

So that a mood of the machine meets all of them alike, a round goes through its cells once, every gateway has its turn in each
cell, and the one that begins changes from round to round. How much is sent was found out beforehand for each gateway, so that a
cell takes about as long with a slow one as with a fast one. One gateway's failure is noted and costs the others nothing.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import psutil

from bench.load import CONNECTIONS, Bodies, Load, Target, drive
from bench.processes import Running
from bench.records import PeerRecord, Round

_BROKEN = (OSError, RuntimeError, TimeoutError, psutil.Error)
_CELL_TIMEOUT = 40.0
_WARMING = 10.0  # seconds
_SLICE = 3 * CONNECTIONS
_STRIKES = 3  # failed cells after which a gateway is left out


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
    """`budget`: seconds after which no further round of one setup is begun."""

    rounds: int = 5
    seconds: float = 1.5  # of a cell
    most: int = 6_000  # requests of a cell
    budget: float = 480.0
    idle: float = 2.0  # seconds in which nobody asks anything


class Cell(Protocol):
    """One figure, or some that are had together."""

    async def fit(self, entrant: Entrant, bodies: Bodies, plan: Plan) -> Load | None:
        """How much of it this gateway carries in the time of a cell; None: it is not for this one."""

    async def run(self, entrant: Entrant, bodies: Bodies, load: Load, into: Round) -> None: ...


Cells = Mapping[str, Cell]


async def measure(entrants: Mapping[str, Entrant], plan: Plan, cells: Cells, *, warm: int = 6 * CONNECTIONS) -> None:
    """Fill the entrants' records. `warm`: requests that each answers before anything is measured."""
    bodies = Bodies()
    for name, entrant in entrants.items():
        if not entrant.out():
            _say(f"probing {name}")
            await _probe(entrant, bodies, plan, cells, warm)
    until = time.monotonic() + plan.budget
    for number in range(plan.rounds):
        if time.monotonic() > until:
            _say(f"no time is left for a round {number + 1}")
            break
        _say(f"round {number + 1} of {plan.rounds}")
        await _round(number, entrants, cells, bodies)
    for entrant in entrants.values():
        if entrant.running and entrant.running.alive():
            entrant.record.rss_after_mib = entrant.running.rss()


async def _probe(entrant: Entrant, bodies: Bodies, plan: Plan, cells: Cells, warm: int) -> None:
    """One that cannot even be warmed up is out."""

    async def fit(name: str, cell: Cell) -> None:
        if (load := await cell.fit(entrant, bodies, plan)) is not None:
            entrant.loads[name] = load

    await _attempt(entrant, "probe", _warmed(entrant.target, bodies, warm))
    if entrant.record.errors and not entrant.out():
        entrant.record.failure = entrant.record.errors[-1]
    for name, cell in cells.items():
        if not entrant.out():
            await _attempt(entrant, f"probe, {name}", fit(name, cell))
    entrant.record.counts = {name: load.requests for name, load in entrant.loads.items()}


async def _warmed(target: Target, bodies: Bodies, requests: int) -> None:
    """So many, or fewer where they take long."""
    until = time.monotonic() + _WARMING
    for _ in range(0, requests, _SLICE):
        await drive(target, bodies, Load(_SLICE))
        if time.monotonic() > until:
            break


async def _round(number: int, entrants: Mapping[str, Entrant], cells: Cells, bodies: Bodies) -> None:
    fresh = {name: Round() for name, entrant in entrants.items() if not entrant.out()}
    for cell, what in cells.items():
        for name in rotated(list(fresh), number):
            entrant = entrants[name]
            if not entrant.out() and cell in entrant.loads:
                run = what.run(entrant, bodies, entrant.loads[cell], fresh[name])
                await _attempt(entrant, f"round {number + 1}, {cell}", run)
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


def fitted(rate: float, seconds: float, step: int, most: int) -> int:
    """Requests for so many seconds at this rate: a multiple of `step`, at least one step."""
    return max(step, min(most, int(rate * seconds)) // step * step)


async def took(target: Target, bodies: Bodies, load: Load) -> float:
    """Seconds."""
    began = time.perf_counter()
    await drive(target, bodies, load)
    return time.perf_counter() - began


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
