"""What several workers cost: `serve --workers N` beside one process without a dispatcher, the same config and upstream.

    make bench-workers
    python -m bench.workers [--workers 2,3] [--rounds 5] [--seconds 2] [--loads closed,mid] [--also PATH/OF/A/CHECKOUT] [--json]

CPU is that of the whole process tree: supervisor, dispatcher and workers. All take turns within a round, and the ratio of a round
is what counts: above 1, a request costs more than in one process. `--also` puts another checkout beside them.
What a node uses when nobody asks it anything is measured by itself, and is in the figures of every load as well.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import uvloop

from bench import machine
from bench.arrivals import Sender
from bench.compare import BUSY, INTERRUPTED, end_at_sigterm
from bench.figures import Spread, percentile
from bench.load import Target
from bench.peers import Place, serve_tiergate
from bench.processes import NotReadyError, Running, free_port, upstream
from bench.rounds import rotated
from bench.stages import ROOT, until_terminated
from bench.turns import LOADS, TOLD, Cell, Entrant, turn

ONE = "one process"


def main(argv: Sequence[str] | None = None) -> int:
    args = arguments(argv)
    objections = machine.objections(machine.mood())
    for objection in objections:
        print(f"the machine is busy: {objection}", file=sys.stderr)
    if objections and not args.force:
        return BUSY
    end_at_sigterm()
    try:
        entrants = raced(args)
    except KeyboardInterrupt:
        return INTERRUPTED
    except (OSError, RuntimeError, BaseExceptionGroup) as errors:
        print(f"a load could not be carried: {_first(errors)}", file=sys.stderr)
        return 1
    print(json.dumps(told(entrants)) if args.json else table(entrants, args))
    return 0


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", default="2", help="numbers of workers, with commas; empty: none")
    parser.add_argument("--loads", default=",".join(LOADS), help=f"some of {', '.join(LOADS)}; the first word is enough")
    parser.add_argument("--also", type=Path, help="another checkout, which has its turns too")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each turn")
    parser.add_argument("--force", action="store_true", help="also on a busy machine, where the figures are the neighbours'")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(argv)
    wanted = [word.strip() for word in args.loads.split(",") if word.strip()]
    args.loads = [name for name in LOADS if any(name.startswith(word) for word in wanted)]
    if not args.loads:
        parser.error(f"no such load; there are {', '.join(LOADS)}")
    args.workers = [int(number) for number in args.workers.split(",") if number.strip()]
    return args


def raced(args: argparse.Namespace) -> dict[str, Entrant]:
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tiergate-bench-")))
        ports = stack.enter_context(upstream(ROOT))
        entrants: dict[str, Entrant] = {}
        for name, checkout, workers in wanted(args):
            entrants[name] = entrant = entered(name, checkout, workers, folder / str(len(entrants)), ports)
            stack.callback(entrant.running.stop)
            try:
                entrant.running.wait()
            except NotReadyError as error:
                print(f"{name}: {error}", file=sys.stderr)
                del entrants[name]
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(until_terminated(measure(entrants, args)))
    return entrants


def wanted(args: argparse.Namespace) -> list[tuple[str, Path, int]]:
    """Names, checkouts and numbers of workers."""
    counts = {ONE: 1, **{f"{number} workers": number for number in args.workers}}
    found = [(name, ROOT, number) for name, number in counts.items()]
    if args.also:
        found += [(f"{name}, {args.also.name}", args.also.resolve(), number) for name, number in counts.items()]
    return found


def entered(name: str, checkout: Path, workers: int, folder: Path, ports: Sequence[int]) -> Entrant:
    folder.mkdir()
    place = Place(checkout, folder, free_port(), ports)
    target = Target(place.port, "auto")
    command = serve_tiergate(sys.executable, place) + (["--workers", str(workers)] if workers > 1 else [])
    print(f"starting {name}", file=sys.stderr)
    running = Running(command, target, folder / "log", {"PYTHONPATH": str(checkout)})
    return Entrant(running, Sender(target), workers)


async def measure(entrants: Mapping[str, Entrant], args: argparse.Namespace) -> None:
    for entrant in entrants.values():
        await turn(entrant, "closed 32", args.seconds / 2)  # warm
    for number in range(args.rounds):
        print(f"round {number + 1} of {args.rounds}", file=sys.stderr)
        await _idle(entrants, args.seconds)
        for load in args.loads:
            for name in rotated(list(entrants), number):
                entrants[name].cells.setdefault(load, []).append(await turn(entrants[name], load, args.seconds))


async def _idle(entrants: Mapping[str, Entrant], seconds: float) -> None:
    """All at once: nobody does anything."""
    before = {name: entrant.spent().whole for name, entrant in entrants.items()}
    await asyncio.sleep(seconds)
    for name, entrant in entrants.items():
        entrant.idle.append((entrant.spent().whole - before[name]) / seconds * 1e3)


def _first(error: BaseException) -> BaseException:
    return _first(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


# -- what is told


def table(entrants: Mapping[str, Entrant], args: argparse.Namespace) -> str:
    parts = [
        f"{args.rounds} rounds, {args.seconds:g} s a turn; load average {os.getloadavg()[0]:.1f}",
        *(f"  {name:10} {TOLD[name]}" for name in args.loads),
        "",
        (
            f"{'load':10} {'':24} {'us of CPU a request':>22}  {'ratio, round by round':>22}  {'us a token':>10}"
            f"  {'dispatcher':>10}  {'a second':>8}  {'p50, p99 ms':>14}  {'TTFT p50, p99':>14}"
        ),
    ]
    for load in args.loads:
        parts += [_line(load, name, entrants) for name in entrants]
    parts += ["", *(f"{name:24} idle {_spread(one.idle)} ms of CPU a second, {_placed(one)}" for name, one in entrants.items())]
    return "\n".join(parts)


def _line(load: str, name: str, entrants: Mapping[str, Entrant]) -> str:
    cells, base = entrants[name].cells[load], entrants[ONE].cells[load]
    ratio = "" if name == ONE else _spread(ratios(cells, base), 2)
    added = (
        "" if name == ONE else _spread([ours.request_us - theirs.request_us for ours, theirs in zip(cells, base, strict=True)])
    )
    tokens = [cell.token_us for cell in cells if cell.token_us is not None]
    dispatcher = _spread([cell.dispatcher_us for cell in cells]).split()[0] if entrants[name].workers > 1 else ""
    each = added.split()[0] if added else ""
    return (
        f"{load:10} {name:24} {_spread([cell.request_us for cell in cells]):>22}  {ratio:>22}  {each:>8}"
        f"  {f'{Spread.of(tokens).median:.1f}' if tokens else '':>10}  {dispatcher:>10}"  # type: ignore[union-attr]
        f"  {_spread([cell.a_second for cell in cells]).split()[0]:>8}"
        f"  {_tail([cell.whole for cell in cells]):>14}  {_tail([cell.first for cell in cells]):>14}"
    )


def ratios(cells: Sequence[Cell], base: Sequence[Cell]) -> list[float]:
    return [ours.request_us / theirs.request_us for ours, theirs in zip(cells, base, strict=True)]


def _tail(rounds: Sequence[Sequence[float]]) -> str:
    """The median of the rounds' percentiles."""
    some = [figures for figures in rounds if figures]
    if not some:
        return ""
    p50, p99 = (Spread.of([percentile(figures, share) for figures in some]) for share in (0.5, 0.99))
    assert p50 is not None
    assert p99 is not None
    return f"{p50.median:.2f}, {p99.median:.2f}"


def _spread(figures: Sequence[float], digits: int = 0) -> str:
    found = Spread.of(figures)
    return f"{found.median:.{digits}f} ({found.low:.{digits}f} to {found.high:.{digits}f})" if found else ""


def _placed(entrant: Entrant) -> str:
    return f"of the connections the fullest process had {_spread([100 * share for share in entrant.shares])} %"


def told(entrants: Mapping[str, Entrant]) -> dict[str, object]:
    """All figures of all rounds, single times left out."""
    return {
        name: {
            "idle_ms_a_second": entrant.idle,
            "fullest_share_of_connections": entrant.shares,
            "loads": {load: [_brief(cell) for cell in cells] for load, cells in entrant.cells.items()},
        }
        for name, entrant in entrants.items()
    }


def _brief(cell: Cell) -> dict[str, object]:
    times = {"whole": cell.whole, "first": cell.first}
    tails = {name: [percentile(each, 0.5), percentile(each, 0.99)] if each else None for name, each in times.items()}
    return asdict(cell) | tails


if __name__ == "__main__":
    sys.exit(main())
