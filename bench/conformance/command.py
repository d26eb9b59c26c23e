"""Clients and suites that others wrote, through tiergate and through its peers: `make conformance`. Writes docs/conformance.md.

    make conformance
    make conformance ARGS="--targets all"
    make conformance ARGS="--suites openai-python-3 --targets tiergate,fake-vllm"

The engines are look-alikes of vLLM that say what they are told to. Run against them directly, a suite shows what is the
engine's own; a failure of tiergate's that the engine has not, and that nobody explained, makes the command end with 1.
What is not run again keeps its result, in docs/conformance.json, of which the page is made.
"""

from __future__ import annotations

import argparse
import datetime as dt
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from bench.compare import INTERRUPTED, end_at_sigterm
from bench.conformance import page, runner, verdict
from bench.conformance.records import DATA, Results, Run
from bench.conformance.suites import FOLDER, SUITES
from bench.conformance.targets import DIRECT, GATEWAYS, OURS, WORKERS, Target, started
from bench.environments import NotInstalledError
from bench.processes import NotReadyError
from bench.stages import checkout_version

ROOT = Path(__file__).resolve().parents[2]


def main(argv: Sequence[str] | None = None) -> int:
    try:
        return conformance(_arguments(argv))
    except KeyboardInterrupt:
        print("ended before all had run: what had is written", file=sys.stderr)
        return INTERRUPTED


def conformance(args: argparse.Namespace) -> int:
    """0 if all ran, and whatever failed is explained."""
    end_at_sigterm()
    data = args.out / DATA
    kept = msgspec.json.decode(data.read_bytes(), type=Results) if data.is_file() else Results()
    results = Results({suite: runs for suite, runs in kept.runs.items() if suite in SUITES})
    if args.page:
        _write(results, args.out)
        return 0
    versions = {name: _version(name) for name in args.targets}  # of the checkout before this writes into it
    commands, missing = _installed(args.suites), list[str]()
    for name in args.targets:
        try:
            with started(name, ROOT) as target:
                for suite, command in commands.items():
                    if name not in SUITES[suite].targets:
                        continue
                    run = _run(suite, command, target, versions[name])
                    results.runs[suite] = {**results.runs.get(suite, {}), name: run}
                    _write(results, args.out)
                    print(f"{suite:24} {name:12} {run.told()}", file=sys.stderr, flush=True)
        except (NotInstalledError, NotReadyError) as error:
            print(f"{name}: {error}", file=sys.stderr)
            missing.append(name)
    ours = verdict.unexplained(results, list(commands), args.targets)
    for line in ours:
        print(f"unexplained: {line}", file=sys.stderr)
    return 1 if ours or missing or len(commands) < len(args.suites) else 0


def _write(results: Results, folder: Path) -> None:
    """After every suite, so that a run that breaks off loses nothing."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / DATA).write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=1) + b"\n")
    (folder / "conformance.md").write_text(page.page(results), encoding="utf-8")


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    def some(known: Sequence[str]) -> Callable[[str], list[str]]:
        def chosen(text: str) -> list[str]:
            names = [name.strip() for name in text.split(",") if name.strip()]
            if names == ["all"]:
                return list(known)
            if unknown := [name for name in names if name not in known]:
                raise argparse.ArgumentTypeError(f"{unknown[0]} is not known; there are {', '.join(known)}")
            return [name for name in known if name in names]

        return chosen

    parser = argparse.ArgumentParser(
        prog="make conformance", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    suites, targets = list(SUITES), list(GATEWAYS)
    parser.add_argument("--suites", type=some(suites), default=suites, help=f"some of {','.join(suites)}; default: all")
    parser.add_argument(
        "--targets", type=some(targets), default=[DIRECT, OURS, WORKERS],
        help=f"some of {','.join(targets)}, or all; default: {DIRECT},{OURS},{WORKERS}",
    )  # fmt: skip
    parser.add_argument("--page", action="store_true", help="run nothing: the page anew from the results that there are")
    parser.add_argument("--out", type=Path, default=ROOT / "docs", help="where to write; default: docs")
    return parser.parse_args(argv)


def _installed(names: Sequence[str]) -> dict[str, list[str]]:
    """The command of each suite whose environment could be made."""
    commands = {}
    for name in names:
        try:
            commands[name] = SUITES[name].ready(name, ROOT)
        except NotInstalledError as error:
            print(f"{name}: not installed: {error}", file=sys.stderr)
    return commands


def _run(name: str, command: Sequence[str], target: Target, version_of_target: str) -> Run:
    begun = time.monotonic()
    found = runner.cases(command, target, ROOT / FOLDER / f"{name}-{target.name}.log")
    return Run.of(
        found,
        version=version_of_target,
        suite=SUITES[name].version(),
        date=dt.datetime.now(dt.UTC).strftime("%Y-%m-%d"),
        seconds=round(time.monotonic() - begun, 1),
    )


def _version(target: str) -> str:
    gateway = GATEWAYS[target]
    return gateway.version if gateway and gateway.peer else checkout_version()
