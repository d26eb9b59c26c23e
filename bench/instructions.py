"""Thousand instructions a request, in user space: tiergate under callgrind, one connection, one request after the other.

    make bench-instructions
    python -m bench.instructions [--kinds auto,token] [--against CHECKOUT] [--python PYTHON] [--replicas 256] [--json]

It needs valgrind, and no quiet machine: a figure moves by about one percent from run to run. `--against` puts another checkout
beside this one, `--python` another interpreter (of an environment that has the packages); both may be given more than once.

What timers take (health checks, reports, sums) is measured first, while nobody asks, and taken off; the table tells it apart.
The kernel's work is not counted, nor how fast an instruction is: time is what `make bench` tells.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import uvloop

from bench import callgrind
from bench.callgrind import Counter
from bench.compare import INTERRUPTED, end_at_sigterm
from bench.load import Bodies, Caller, Same, Target
from bench.peers import Place, serve_tiergate
from bench.processes import NotReadyError, Running, free_port, upstream
from bench.stages import ROOT, until_terminated
from bench.tables import spread, table
from bench.upstream import MODEL, Paced

OURS = "this checkout"
_READY = 300.0  # seconds that a start under callgrind may take
_WARM = 20  # requests of each kind before the first that counts: the interpreter has specialised its code
_IDLE = 10.0  # seconds in which nobody asks anything
_APART = Paced(ms=40)  # so slow that every token is read, and written, by itself under callgrind too
# One thread, and dictionaries alike in each run.
_ENV = {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


@dataclass(frozen=True, slots=True)
class Kind:
    told: str
    model: str = "auto"
    classifier: str = "rules"
    again: bool = False  # the same request each time
    stream: Paced | None = None

    def requests(self, wanted: int) -> int:
        """A stream has many tokens, so that fewer do."""
        return max(1, wanted // 20) if self.stream else wanted

    def units(self, requests: int) -> int:
        return requests * (self.stream.tokens if self.stream else 1)


KINDS = {
    "auto": Kind("a request of `auto`, judged by the rules"),
    "learned": Kind("one of `auto`, judged by the learned policy", classifier="learned"),
    "named": Kind("one that names its model", f"{MODEL}-small"),
    "hit": Kind("an answer from the exact cache", again=True),
    "token": Kind("a streamed token, its share of its request included", f"{MODEL}-small", stream=_APART),
}


@dataclass(frozen=True, slots=True)
class Entrant:
    checkout: Path
    python: str


@dataclass(slots=True)
class Figures:
    """Thousand instructions: `idle` a second, by classifier; `kinds` for each request or token, by round."""

    idle: dict[str, float] = field(default_factory=dict)
    kinds: dict[str, list[float]] = field(default_factory=dict)


def main(argv: Sequence[str] | None = None) -> int:
    args = arguments(argv)
    end_at_sigterm()
    try:
        told = {name: counted(name, entrant, args) for name, entrant in args.entrants.items()}
    except KeyboardInterrupt:
        return INTERRUPTED
    except (callgrind.AbsentError, callgrind.CountError, NotReadyError, OSError, RuntimeError) as error:
        print(error, file=sys.stderr)
        return 1
    print(json.dumps({name: asdict(figures) for name, figures in told.items()}) if args.json else report(told))
    return 0


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", default=",".join(KINDS), help=f"some of {', '.join(KINDS)}")
    parser.add_argument("--against", type=Path, action="append", default=[], metavar="CHECKOUT", help="another one beside this")
    parser.add_argument("--python", action="append", default=[], help="another interpreter beside this")
    parser.add_argument("--replicas", type=int, default=2, help="of each of the two models")
    parser.add_argument("--requests", type=int, default=60, help="of a kind in a round; a stream counts as twenty")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(argv)
    args.kinds = [word.strip() for word in args.kinds.split(",") if word.strip()]
    if unknown := [word for word in args.kinds if word not in KINDS]:
        parser.error(f"no such kind: {unknown[0]}; there are {', '.join(KINDS)}")
    if not args.kinds:
        parser.error("no kind to count")
    for checkout in args.against:
        if not (checkout / "gateway/cli.py").is_file():
            parser.error(f"no checkout of tiergate: {checkout}")
    for python in args.python:
        if shutil.which(python) is None:
            parser.error(f"no such program: {python}")
    args.entrants = {
        OURS: Entrant(ROOT, sys.executable),
        **{str(checkout): Entrant(checkout.resolve(), sys.executable) for checkout in args.against},
        **{_version(python): Entrant(ROOT, str(Path(python).absolute())) for python in args.python},
    }
    return args


def _version(python: str) -> str:
    said = subprocess.run([python, "--version"], capture_output=True, text=True, check=True, timeout=30).stdout.strip()
    return f"{said}, {python}"


# -- what is measured


def counted(name: str, entrant: Entrant, args: argparse.Namespace) -> Figures:
    """A gateway for each classifier, one after the other."""
    figures = Figures()
    for classifier in dict.fromkeys(KINDS[kind].classifier for kind in args.kinds):
        print(f"counting {name}, {classifier}", file=sys.stderr)
        with contextlib.ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tiergate-bench-")))
            ports = stack.enter_context(upstream(ROOT, args.replicas))
            place = Place(entrant.checkout, folder, free_port(), ports, classifier=classifier)
            command = callgrind.command(_serve(entrant.python, place), folder)
            running = Running(command, Target(place.port, "auto"), folder / "log", {**_ENV, "PYTHONPATH": str(entrant.checkout)})
            stack.callback(running.stop)
            running.wait(_READY)
            kinds = [kind for kind in args.kinds if KINDS[kind].classifier == classifier]
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(until_terminated(_measure(running, Counter(running.process.pid, folder), kinds, args, figures)))
    return figures


def _serve(python: str, place: Place) -> list[str]:
    """With as many health checks a second as two replicas have: those of 256 would take all of a core under callgrind."""
    command = serve_tiergate(python, place)
    with Path(command[-1]).open("a", encoding="utf-8") as config:
        config.write(f"health: {{interval: {len(place.upstreams)}s}}\n")
    return command


async def _measure(running: Running, counter: Counter, kinds: Sequence[str], args: argparse.Namespace, figures: Figures) -> None:
    port = running.target.port
    _, caller = await asyncio.get_running_loop().create_connection(Caller, "127.0.0.1", port)
    askers = {name: Asker(KINDS[name], port, caller) for name in kinds}
    for name in kinds:
        await askers[name].ask(KINDS[name].requests(_WARM))
    counter.on()
    await asyncio.sleep(_IDLE / 10)  # what is done once counting begins
    counter.zero()
    before = _wanted(running)
    await asyncio.sleep(_IDLE)
    if _wanted(running) - before > 0.9 * _IDLE:
        raise callgrind.CountError("under callgrind the timers alone take all of a core, so nothing can be told: fewer replicas")
    idle = counter.count().a_second
    figures.idle[KINDS[kinds[0]].classifier] = idle / 1e3
    for _ in range(args.rounds):
        for name in kinds:
            kind, requests = KINDS[name], KINDS[name].requests(args.requests)
            await askers[name].ask(1)
            counter.zero()
            await askers[name].ask(requests)
            figures.kinds.setdefault(name, []).append(counter.count().each(kind.units(requests), idle))
    caller.transport.abort()


def _wanted(running: Running) -> float:
    """Seconds in which its first thread ran, or could have run and another program did."""
    ran, waited, _ = Path(f"/proc/{running.process.pid}/schedstat").read_text(encoding="ascii").split()
    return (int(ran) + int(waited)) / 1e9


class Asker:
    """Requests of one kind, one after the other."""

    def __init__(self, kind: Kind, port: int, caller: Caller) -> None:
        self._kind, self._caller = kind, caller
        self._bodies = Same() if kind.again else Bodies()
        self._head = Target(port, kind.model).head()

    async def ask(self, requests: int) -> None:
        for _ in range(requests):
            body = self._bodies.next(self._kind.model, stream=self._kind.stream)
            await self._caller.call(self._head, body, stream=self._kind.stream)


# -- what is told


def report(told: dict[str, Figures]) -> str:
    """A column for each entrant, and how many times the first one's the others are: medians, ranges in parentheses."""
    first, *others = told
    title = ["thousand instructions", first, *(word for name in others for word in (name, "ratio"))]
    kinds = [name for name in KINDS if name in told[first].kinds]
    rows = [_row(KINDS[name].told, [figures.kinds[name] for figures in told.values()]) for name in kinds]
    rows += [
        _row(f"timers, a second ({name}; taken off)", [[figures.idle[name]] for figures in told.values()])
        for name in told[first].idle
    ]
    return table(title, rows)


def _row(told: str, figures: Sequence[Sequence[float]]) -> list[str]:
    medians = [statistics.median(each) for each in figures]
    first, *cells = [spread(each, 1 if medians[0] < 100 else 0) for each in figures]
    ratios = [f"{median / medians[0]:.2f}" for median in medians[1:]]
    return [told, first, *(word for pair in zip(cells, ratios, strict=True) for word in pair)]


if __name__ == "__main__":
    sys.exit(main())
