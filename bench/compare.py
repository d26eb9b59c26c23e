"""tiergate and its peers before the same upstream, in turns: `make bench`. Writes docs/benchmarks.md, .json and .png.

    make bench
    make bench ARGS="--quick --peers tiergate,smg"

Each gateway gets an environment of its own below .venv-bench/, made at the first run. One that cannot be installed or started
here is in the tables with the reason. On a busy machine the command refuses (exit code 3), since its figures would be the
neighbours'.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import datetime as dt
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Mapping, Sequence
from pathlib import Path

import msgspec
import uvloop

from bench import environments, machine
from bench.load import Target
from bench.peers import PEERS, Peer, Place
from bench.processes import NotReadyError, Running, free_port, upstream
from bench.records import DIRECT, OURS, SIZES, Does, PeerRecord, Result
from bench.report import report
from bench.rounds import Entrant, Plan, measure
from bench.upstream import MODEL

ROOT = Path(__file__).resolve().parent.parent
BUSY = 3
INTERRUPTED = 130
QUICK = Plan(rounds=2, seconds=0.3, most=1_000)


def main(argv: Sequence[str] | None = None) -> int:
    try:
        return compare(arguments(argv))
    except KeyboardInterrupt:
        print("ended before the figures were complete: nothing is written", file=sys.stderr)
        return INTERRUPTED


def compare(args: argparse.Namespace) -> int:
    before = machine.objections(machine.mood())
    if before and not args.force:
        print(f"the machine is busy: {'; '.join(before)}. Wait, or --force", file=sys.stderr)
        return BUSY
    end_at_sigterm()
    places, failures = installed(args.peers)
    after = machine.objections(machine.mood(after_work=True))
    if after and not args.force:
        print(f"the machine has become busy: {'; '.join(after)}. Wait, or --force", file=sys.stderr)
        return BUSY
    plan = QUICK if args.quick else Plan()
    plan = Plan(args.rounds or plan.rounds, plan.seconds, plan.most, SIZES)
    result = run(places, failures, plan, list(dict.fromkeys([*before, *after])), repeated(args))
    write(result, args.out)
    return 0 if any(record.rounds for name, record in result.peers.items() if name != DIRECT) else 1


def end_at_sigterm() -> None:
    """As an exception, like Ctrl-C, so that what was started is ended."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)


async def until_terminated(work: Awaitable[None]) -> None:
    """The same where an event loop runs: an exception out of a signal handler would end in any of its callbacks."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        await work
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=chosen, default=list(PEERS), help=f"some of {','.join(PEERS)}; default: all")
    parser.add_argument("--rounds", type=int, help="default: 5, with --quick 2")
    parser.add_argument("--quick", action="store_true", help="a minute or two: to see that it works, not to quote")
    parser.add_argument("--force", action="store_true", help="run on a busy machine; the report says so")
    parser.add_argument("--out", type=Path, default=ROOT / "docs", help="where to write; default: docs")
    args = parser.parse_args(argv)
    if args.rounds is not None and args.rounds < 1:
        parser.error("--rounds must be at least 1")
    return args


def chosen(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if unknown := [name for name in names if name not in PEERS]:
        raise argparse.ArgumentTypeError(f"no peer is called {unknown[0]}; there are {', '.join(PEERS)}")
    return [name for name in PEERS if name in names or name == OURS]  # ours is what the others are compared with


def installed(names: Sequence[str]) -> tuple[dict[str, Path], dict[str, str]]:
    """Each gateway's environment, or the reason why it has none."""
    places: dict[str, Path] = {}
    failures: dict[str, str] = {}
    for name in names:
        try:
            places[name] = environments.ready(name, PEERS[name], ROOT)
        except environments.NotInstalledError as error:
            failures[name] = f"not installed: {error}"
            places[name] = ROOT
    return places, failures


def repeated(args: argparse.Namespace) -> str:
    """The command that makes this again; where it is written to does not matter to anybody."""
    told = ["--quick"] if args.quick else []
    told += ["--peers", ",".join(args.peers)] if args.peers != list(PEERS) else []
    told += ["--rounds", str(args.rounds)] if args.rounds else []
    told += ["--force"] if args.force else []
    return "make bench" + (f' ARGS="{" ".join(told)}"' if told else "")


def run(places: Mapping[str, Path], failures: Mapping[str, str], plan: Plan, forced: list[str], command: str) -> Result:
    began, steal, load = time.perf_counter(), machine.Steal(), os.getloadavg()[0]
    entrants = raced({name: PEERS[name] for name in places}, places, failures, plan)
    ours = machine.installed(places[OURS], ("uvloop", "httptools", "msgspec"))
    return Result(
        date=dt.datetime.now(dt.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        command=command,
        forced=forced,
        machine=machine.describe(ours | ({"node": node} if (node := node_version()) else {})),
        rounds=plan.rounds,
        seconds=time.perf_counter() - began,
        load=[load, os.getloadavg()[0]],
        steal_percent=steal.percent(),
        peers={name: entrant.record for name, entrant in entrants.items()},
    )


def raced(peers: Mapping[str, Peer], places: Mapping[str, Path], failures: Mapping[str, str], plan: Plan) -> dict[str, Entrant]:
    """Start all, measure all, end all."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tiergate-bench-")))
        ports = stack.enter_context(upstream(ROOT))
        entrants = {DIRECT: Entrant(Target(ports[0], MODEL), PeerRecord(version="-", does=Does()))}
        for name, peer in peers.items():
            place = Place(places[name], folder, free_port(), ports)
            entrants[name] = entrant = entered(peer, place, version(name))
            entrant.record.failure = failures.get(name)
            if not entrant.out():
                print(f"starting {name}", file=sys.stderr)
                start(name, peer, entrant, place, stack)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(until_terminated(measure(entrants, plan)))
    return entrants


def entered(peer: Peer, place: Place, told: str) -> Entrant:
    record = PeerRecord(version=told, does=peer.does, note=peer.note)
    return Entrant(Target(place.port, peer.model, peer.headers(place)), record)


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


def version(name: str) -> str:
    if name != OURS:
        return next(iter(PEERS[name].packages.values()))
    told = _output(["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=10", "--exclude=*"])
    return told or "this checkout"


def node_version() -> str:
    return _output(["node", "--version"])


def _output(command: Sequence[str]) -> str:
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def write(result: Result, folder: Path) -> None:
    """The raw figures first: the rest can be made of them again."""
    folder.mkdir(parents=True, exist_ok=True)
    data, image = folder / "benchmarks.json", folder / "benchmarks.png"
    data.write_bytes(_json(result))
    try:
        chart = environments.pip("chart", environments.CHART, ROOT)
        subprocess.run([str(chart / "bin/python"), str(ROOT / "bench/chart.py"), str(data), str(image)], check=True)
        result.image = image.name
        data.write_bytes(_json(result))
    except (environments.NotInstalledError, OSError, subprocess.CalledProcessError) as error:
        print(f"no chart: {error}", file=sys.stderr)
    (folder / "benchmarks.md").write_text(report(result), encoding="utf-8")
    print(f"wrote {folder / 'benchmarks.md'}", file=sys.stderr)


def _json(result: Result) -> bytes:
    return msgspec.json.format(msgspec.json.encode(result), indent=1) + b"\n"


if __name__ == "__main__":
    sys.exit(main())
