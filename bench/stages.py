"""The setups that are measured, one after the other: in each, processes of their own, and turns for all of them."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import uvloop

from bench import cells, crowd, nginx
from bench.load import Target
from bench.peers import Peer, Place
from bench.pinned import confined, split
from bench.processes import NotReadyError, Running, free_port, upstream
from bench.records import DIRECT, REPLICAS, SIZES, STREAMS, TENANTS, Does, PeerRecord
from bench.rounds import Cells, Entrant, Plan, measure
from bench.tree import spent
from bench.upstream import MODEL

ROOT = Path(__file__).resolve().parent.parent
_REPLICAS = 2


@dataclass(frozen=True, slots=True)
class Field:
    """Who takes part: `places` are their environments, `failures` the reasons of those that could not be installed."""

    peers: Mapping[str, Peer]
    places: Mapping[str, Path]
    failures: Mapping[str, str] = field(default_factory=dict)
    absent: frozenset[str] = frozenset()  # of the failures, those that are nobody's fault


@dataclass(frozen=True, slots=True)
class Scale:
    """How far the numbers go."""

    sizes: Mapping[str, int] = field(default_factory=lambda: SIZES)
    streams: Sequence[int] = STREAMS
    writes: int = 60  # tokens of one of them
    tenants: Sequence[int] = TENANTS
    replicas: Sequence[int] = REPLICAS


@dataclass(frozen=True, slots=True)
class Setup:
    """One gateway as it is to run."""

    name: str
    peer: Peer
    environment: Path
    failure: str | None = None
    absent: bool = False
    tenants: int = 1
    replicas: int = _REPLICAS


def base(those: Field, plan: Plan, sizes: Mapping[str, int] = SIZES) -> dict[str, PeerRecord]:
    return raced(_setups(those), plan, cells.base(sizes), direct=True)


def crowds(those: Field, plan: Plan, scale: Scale) -> dict[str, PeerRecord]:
    wanted = crowd.cells(scale.streams, scale.writes)
    return raced(_setups(those), plan, wanted, direct=True, pinned=True)


def tenants(those: Field, plan: Plan, scale: Scale) -> dict[str, dict[str, PeerRecord]]:
    """By gateway and number of tenants; each gateway's sizes take turns among themselves."""
    able = [one for one in _setups(those) if one.peer.tenants]
    return {one.name: _sizes([replace(one, tenants=count) for count in scale.tenants], scale.tenants, plan) for one in able}


def replicas(those: Field, plan: Plan, scale: Scale) -> dict[str, dict[str, PeerRecord]]:
    able = [one for one in _setups(those) if one.peer.replicas]
    return {one.name: _sizes([replace(one, replicas=count) for count in scale.replicas], scale.replicas, plan) for one in able}


def _setups(those: Field) -> list[Setup]:
    places, failures, absent = those.places, those.failures, those.absent
    return [Setup(name, peer, places[name], failures.get(name), name in absent) for name, peer in those.peers.items()]


def _sizes(setups: Sequence[Setup], counts: Sequence[int], plan: Plan) -> dict[str, PeerRecord]:
    named = [replace(one, name=f"{one.name}, {count:,}") for one, count in zip(setups, counts, strict=True)]
    met = [max(2 * one.tenants, 4 * one.replicas) for one in named]  # each key and each connection once, more or less
    warm = max(6 * 32, *met)
    found = raced(named, plan, {"requests": cells.Requests()}, warm=warm, idle=True)
    return {str(count): found[one.name] for one, count in zip(named, counts, strict=True)}


def raced(
    setups: Sequence[Setup],
    plan: Plan,
    wanted: Cells,
    *,
    direct: bool = False,
    pinned: bool = False,
    idle: bool = False,
    warm: int = 6 * 32,
) -> dict[str, PeerRecord]:
    """Start all, measure all, end all. `pinned`: each gateway has one core, and the upstream and we have the others."""
    cores = split() if pinned else None
    with contextlib.ExitStack() as stack:
        stack.enter_context(confined(cores.others if cores else None))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tiergate-bench-")))
        ports = stack.enter_context(upstream(ROOT, max(one.replicas for one in setups)))
        entrants = {DIRECT: Entrant(Target(ports[0], MODEL), PeerRecord(version="-", does=Does()))} if direct else {}
        with confined(cores.gateway if cores else None):
            for number, setup in enumerate(setups):
                (own := folder / str(number)).mkdir()
                place = Place(setup.environment, own, free_port(), ports[: setup.replicas], setup.tenants)
                entrants[setup.name] = started(setup, place, stack)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(until_terminated(_measured(entrants, plan, wanted, idle=idle, warm=warm)))
    return {name: entrant.record for name, entrant in entrants.items()}


async def _measured(entrants: Mapping[str, Entrant], plan: Plan, wanted: Cells, *, idle: bool, warm: int) -> None:
    await measure(entrants, plan, wanted, warm=warm)
    if idle:
        await _idle(entrants, plan.idle)


async def _idle(entrants: Mapping[str, Entrant], seconds: float) -> None:
    """All at once: nobody does anything but what he does by himself."""
    before = {name: spent(one.running.tree()).whole for name, one in entrants.items() if one.running and one.running.alive()}
    await asyncio.sleep(seconds)
    for name, had in before.items():
        running = entrants[name].running
        assert running is not None
        entrants[name].record.idle_ms = (spent(running.tree()).whole - had) / seconds * 1e3


def started(setup: Setup, place: Place, stack: contextlib.ExitStack) -> Entrant:
    entrant = entered(setup.peer, place, version(setup.peer, setup.environment))
    entrant.record.failure, entrant.record.absent = setup.failure, setup.absent
    if not entrant.out():
        print(f"starting {setup.name}", file=sys.stderr)
        start(setup.name, setup.peer, entrant, place, stack)
    return entrant


def entered(peer: Peer, place: Place, told: str) -> Entrant:
    record = PeerRecord(version=told, does=peer.does, note=peer.note)
    return Entrant(Target(place.port, peer.model, peer.headers(place), peer.also, place.keys()), record)


def start(name: str, peer: Peer, entrant: Entrant, place: Place, stack: contextlib.ExitStack) -> None:
    """Its failure to come up is its own and goes into the report."""
    record = entrant.record
    try:
        entrant.running = Running(peer.command(place), entrant.target, place.folder / f"{name}.log", peer.env)
        stack.callback(entrant.running.stop)
        record.ready_s = entrant.running.wait()
        record.rss_ready_mib = entrant.running.rss()
    except (OSError, NotReadyError) as error:
        record.failure = f"not started: {error}"
        if entrant.running:
            entrant.running.stop()


async def until_terminated(work: Awaitable[None]) -> None:
    """A signal to end is an exception here: out of its handler it would end in any of the event loop's callbacks."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        await work
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


def version(peer: Peer, environment: Path) -> str:
    if peer.installer == "apt":
        return nginx.version(environment)
    if peer.installer != "checkout":
        return next(iter(peer.packages.values()))
    return checkout_version()


def checkout_version() -> str:
    return output(["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=10", "--exclude=*"]) or "this checkout"


def output(command: Sequence[str]) -> str:
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""
