"""Fixed slots beside adaptive ones, before three unlike engines: `python -m bench.slots`. A table in Markdown, in virtual time.

Each engine is offered twice of what it can serve. The best fixed number is found by trying; adaptive slots are told nothing.
In the second half of each row's run the engine has half its seats and half its memory.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import NamedTuple

from gateway.lab.simulate.capacity import ENGINES, LATE, Front, Setting, halved, overload
from gateway.lab.simulate.engine import Build

_FIXED = (8, 12, 16, 20, 24, 32, 48, 64, 96, 128, 192, 256)
_WARM, _PHASE = 60.0, 300.0  # seconds


class Figures(NamedTuple):
    """Of one phase, means over the seeds: output tokens a second, those whose answer began in time, requests that wait inside
    the engine, preemptions a minute, seconds from dispatch to the first token.
    """

    tokens: float
    good: float
    waiting: float
    preemptions: float
    first: float


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.slots", description=__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="runs of each setting (%(default)s)")
    args = parser.parse_args(argv)
    print(f"| engine | slots | tokens/s | of these in time ({LATE:g} s) | wait inside | preemptions/min | first token, s |")
    print("|---|---|---|---|---|---|---|")
    for build in ENGINES:
        for name, small in ((build.name, False), (f"{build.name}, halved", True)):
            for setting, figures in _rows(build, small, args.seeds):
                print(_line(name, setting, figures), flush=True)


def _rows(build: Build, small: bool, seeds: int) -> list[tuple[str, Figures]]:
    print(f"bench.slots: {build.name}{', halved' if small else ''}", file=sys.stderr, flush=True)
    fixed = {slots: measure(build, Setting(str(slots), slots), small, seeds) for slots in _FIXED}
    best = max(fixed, key=lambda slots: fixed[slots].good)
    return [
        ("fixed, 256", fixed[256]),
        (f"fixed, best: {best}", fixed[best]),
        ("adaptive", measure(build, Setting("adaptive"), small, seeds)),
        ("adaptive, no metrics", measure(build, Setting("adaptive", told=False), small, seeds)),
    ]


def measure(build: Build, setting: Setting, small: bool, seeds: int) -> Figures:
    """`small`: of the second half, when the engine has half of what it had."""
    runs = [_run(build, setting, small, seed) for seed in range(1, seeds + 1)]
    return Figures(*(sum(values) / seeds for values in zip(*runs, strict=True)))


def _run(build: Build, setting: Setting, small: bool, seed: int) -> Figures:
    end = 2 * _PHASE if small else _PHASE
    front = Front(setting, [build], overload(build, end, seed), end, _WARM + (_PHASE if small else 0.0))
    if small:
        front.timeline.at(_PHASE, lambda: setattr(front.engines[0], "build", halved(build)))
    it = front.run()
    seconds, answers = it.seconds, max(1, it.answers)
    return Figures(
        it.tokens / seconds, it.good / seconds, it.engine_waited / seconds, it.preemptions / seconds * 60, it.first / answers
    )


def _line(name: str, setting: str, it: Figures) -> str:
    cells = f"{it.tokens:,.0f} | {it.good:,.0f} | {it.waiting:,.1f} | {it.preemptions:.1f} | {it.first:.2f}"
    return f"| {name} | {setting} | {cells} |"


if __name__ == "__main__":
    main()
