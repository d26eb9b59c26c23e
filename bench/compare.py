"""tiergate and its peers before the same upstream, in turns: `make bench`. Writes docs/benchmarks.md, .json and pictures.

    make bench
    make bench ARGS="--quick --peers tiergate,smg"
    make bench ARGS="--stages base,tenants"

Each gateway gets an environment of its own below .venv-bench/, made at the first run. One that cannot be installed or started
here is in the tables with the reason. On a busy machine the command refuses (exit code 3), since its figures would be the
neighbours'.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt
import os
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from bench import environments, machine, stages
from bench.peers import PEERS
from bench.pinned import split
from bench.records import DIRECT, OURS, PeerRecord, Result
from bench.report import report
from bench.rounds import Plan
from bench.stages import ROOT, Field, Scale

BUSY = 3
INTERRUPTED = 130
STAGES = ("base", "streams", "tenants", "replicas")
_FILES = 65_536  # that may be open at once: a thousand streams need as many connections, twice
_CHARTS = {"image": "benchmarks.png", "scale_image": "benchmarks-scale.png"}


@dataclass(frozen=True, slots=True)
class Length:
    """What a run takes: of the base, and of the three others, which have longer cells or more processes."""

    base: Plan
    others: Plan
    scale: Scale


FULL = Length(Plan(budget=420.0), Plan(rounds=3, budget=240.0), Scale())
QUICK = Length(
    Plan(rounds=2, seconds=0.3, most=1_000, budget=60.0),
    Plan(rounds=2, seconds=0.3, most=1_000, budget=30.0),
    Scale(streams=(16, 256), writes=30, tenants=(1, 1_000), replicas=(2, 64)),
)


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
    open_files()
    those = installed(args.peers)
    after = machine.objections(machine.mood(after_work=True))
    if after and not args.force:
        print(f"the machine has become busy: {'; '.join(after)}. Wait, or --force", file=sys.stderr)
        return BUSY
    result = run(those, length(args), args.stages, list(dict.fromkeys([*before, *after])), repeated(args))
    write(result, args.out)
    return 0 if any(record.rounds for record in gateways(result)) else 1


def gateways(result: Result) -> Iterator[PeerRecord]:
    """All that ran, or were to run, in any of the setups."""
    for group in (result.peers, result.crowds, *result.tenants.values(), *result.replicas.values()):
        yield from (record for name, record in group.items() if name != DIRECT)


def end_at_sigterm() -> None:
    """As an exception, like Ctrl-C, so that what was started is ended."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def open_files() -> None:
    """As many as the system lets us; what is started inherits it."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource  # noqa: PLC0415 - not everywhere

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = _FILES if hard == resource.RLIM_INFINITY else min(_FILES, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=chosen, default=list(PEERS), help=f"some of {','.join(PEERS)}; default: all")
    parser.add_argument("--stages", type=staged, default=list(STAGES), help=f"some of {','.join(STAGES)}; default: all")
    parser.add_argument("--rounds", type=int, help="of everything; default: 5 and 3, with --quick 2")
    parser.add_argument("--quick", action="store_true", help="under five minutes: to see that it works, not to quote")
    parser.add_argument("--force", action="store_true", help="run on a busy machine; the report says so")
    parser.add_argument("--out", type=Path, help="where to write; default: docs, with --quick data/bench")
    args = parser.parse_args(argv)
    args.out = args.out or ROOT / ("data/bench" if args.quick else "docs")
    if args.rounds is not None and args.rounds < 1:
        parser.error("--rounds must be at least 1")
    return args


def chosen(text: str) -> list[str]:
    names = _named(text, PEERS, "peer")
    return [name for name in PEERS if name in names or name == OURS]  # ours is what the others are compared with


def staged(text: str) -> list[str]:
    names = _named(text, STAGES, "stage")
    return [name for name in STAGES if name in names]


def _named(text: str, known: Collection[str], what: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if unknown := [name for name in names if name not in known]:
        raise argparse.ArgumentTypeError(f"no {what} is called {unknown[0]}; there are {', '.join(known)}")
    return names


def length(args: argparse.Namespace) -> Length:
    """With a number of rounds of its own a run takes what these take."""
    usual = QUICK if args.quick else FULL
    if not args.rounds:
        return usual
    base, others = (replace(plan, rounds=args.rounds, budget=3600.0) for plan in (usual.base, usual.others))
    return Length(base, others, usual.scale)


def installed(names: Sequence[str]) -> Field:
    """Each gateway's environment, or the reason why it has none."""
    places: dict[str, Path] = {}
    failures: dict[str, str] = {}
    absent = set()
    for name in names:
        try:
            places[name] = environments.ready(name, PEERS[name], ROOT)
        except environments.AbsentError as error:
            failures[name], places[name] = str(error), ROOT
            absent.add(name)
        except environments.NotInstalledError as error:
            failures[name], places[name] = f"not installed: {error}", ROOT
    return Field({name: PEERS[name] for name in names}, places, failures, frozenset(absent))


def repeated(args: argparse.Namespace) -> str:
    """The command that makes this again; where it is written to does not matter to anybody."""
    told = ["--quick"] if args.quick else []
    told += ["--peers", ",".join(args.peers)] if args.peers != list(PEERS) else []
    told += ["--stages", ",".join(args.stages)] if args.stages != list(STAGES) else []
    told += ["--rounds", str(args.rounds)] if args.rounds else []
    told += ["--force"] if args.force else []
    return "make bench" + (f' ARGS="{" ".join(told)}"' if told else "")


def run(those: Field, plans: Length, wanted: Collection[str], forced: list[str], command: str) -> Result:
    began, steal, load = time.perf_counter(), machine.Steal(), os.getloadavg()[0]
    ours, node = machine.installed(those.places[OURS], ("uvloop", "httptools", "msgspec")), stages.output(["node", "--version"])
    result = Result(
        date=dt.datetime.now(dt.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        command=command,
        commit=stages.checkout_version(),
        forced=forced,
        machine=machine.describe(ours | ({"node": node} if node else {})),
        rounds=plans.base.rounds,
        other_rounds=plans.others.rounds,
        load=[load],
        pinned=split() is not None,
    )
    if "base" in wanted:
        result.peers = stages.base(those, plans.base, plans.scale.sizes)
    if "streams" in wanted:
        result.crowds = stages.crowds(those, plans.others, plans.scale)
    if "tenants" in wanted:
        result.tenants = stages.tenants(those, plans.others, plans.scale)
    if "replicas" in wanted:
        result.replicas = stages.replicas(those, plans.others, plans.scale)
    result.seconds, result.steal_percent = time.perf_counter() - began, steal.percent()
    result.load.append(os.getloadavg()[0])
    return result


def write(result: Result, folder: Path) -> None:
    """The raw figures first: the rest can be made of them again."""
    folder.mkdir(parents=True, exist_ok=True)
    data = folder / "benchmarks.json"
    data.write_bytes(_json(result))
    try:
        chart = environments.pip("chart", environments.CHART, ROOT)
        made = [str(folder / name) for name in _CHARTS.values()]
        subprocess.run([str(chart / "bin/python"), str(ROOT / "bench/chart.py"), str(data), *made], check=True)
        for name, file in _CHARTS.items():
            setattr(result, name, file if (folder / file).is_file() else None)
        data.write_bytes(_json(result))
    except (environments.NotInstalledError, OSError, subprocess.CalledProcessError) as error:
        print(f"no picture: {error}", file=sys.stderr)
    (folder / "benchmarks.md").write_text(report(result), encoding="utf-8")
    print(f"wrote {folder / 'benchmarks.md'}", file=sys.stderr)


def _json(result: Result) -> bytes:
    return msgspec.json.format(msgspec.json.encode(result), indent=1) + b"\n"


if __name__ == "__main__":
    sys.exit(main())
