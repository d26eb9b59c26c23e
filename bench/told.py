"""What it brings to refuse at once who would wait too long, and how good the estimate is: `python -m bench.told`.

In virtual time, with the product's own queue, as `tiergate simulate` has it: loads beyond what the fleet can serve, with and
without, five seeds, paired. Prints two tables in Markdown.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, product
from typing import NamedTuple

from gateway.lab.simulate.fleet import Fleet, Speed
from gateway.lab.simulate.policies import CAP, PER_TOKEN, ours
from gateway.lab.simulate.study import Source, Study, jobs_of
from gateway.lab.simulate.workload import Job, Length, Pace, synthetic
from limits.entry import Entry
from limits.slots import Scheduler
from limits.waiting import Order, Priority, QueueBounds, QueueFull, SlotAsk

_MOST = 10**9
_SLOTS, _SPEED = 64, Speed()
_OVER = (Pace("1.2", 1.2), Pace("1.5", 1.5))
_CALIBRATED = (Pace("0.95", 0.95), Pace("1.2", 1.2), Pace("bursts", 0.65, times=3.0))
_WAITS = (30.0, 60.0, 240.0)
_LONGEST_RUN = 10  # times the longest wait, so that the beginning of a run weighs little
_CLASSES = {"realtime": Priority.REALTIME, "standard": Priority.STANDARD, "batch": Priority.BATCH}


@dataclass(slots=True)
class Told:
    """What became of the requests of one run: numbers of those refused and of those that waited in vain; what was expected."""

    refused: set[int] = field(default_factory=set)
    late: set[int] = field(default_factory=set)
    expected: dict[int, float] = field(default_factory=dict)


class Queueing(Fleet):
    """A fleet whose queue has an end. `most`: seconds that a request may wait; the tenant's name begins with its class."""

    def __init__(self, jobs: Sequence[Job], order: Order, most: float, *, refuse_early: bool) -> None:
        super().__init__(jobs, ours(order), _SLOTS, _SPEED)
        bounds = QueueBounds(_MOST, _MOST * _MOST, _MOST * _MOST, (most, most, most), refuse_early=refuse_early)
        self.told = Told()
        self.scheduler = Scheduler(bounds, _SLOTS, self.timeline.clock, order, rng=random.Random(0))

    def _ask(self, job: Job) -> SlotAsk:
        ask = super()._ask(job)
        ask.priority = _CLASSES.get(job.length.tenant.partition(" ")[0], Priority.STANDARD)
        return ask

    def _ask_for_a_slot(self, number: int) -> None:
        ask = self._ask(self._jobs[number])
        ask.output = self.scheduler.predictor.predict(ask)
        expected = self.scheduler.expected(ask)
        if expected is not None and self.scheduler.full:
            self.told.expected[number] = expected
        try:
            super()._ask_for_a_slot(number)
        except QueueFull:
            self.told.refused.add(number)

    def begin(self, number: int, entry: Entry) -> None:
        if entry.failure is None:
            super().begin(number, entry)
        else:
            self.told.late.add(number)


def eight(rng: random.Random) -> Iterator[Length]:
    return synthetic(rng, tuple("abcdefgh"))


def flood(rng: random.Random) -> Iterator[Length]:
    """One tenant asks for six times as much as each of ten others."""
    return synthetic(rng, ("flood",) * 6 + tuple("abcdefghij"))


def classes(rng: random.Random) -> Iterator[Length]:
    """Realtime is most of it."""
    return synthetic(rng, ("realtime a",) * 7 + ("standard b", "standard c") + ("batch d",))


SOURCES = (
    Source("one tenant", partial(synthetic, tenants=("all",))),
    Source("eight tenants", eight),
    Source("a flood and ten others", flood),
    Source("three classes", classes),
)


class Part(NamedTuple):
    """Shares of the requests; what was begun while requests came: requests, and tokens of the answers."""

    refused: float
    late: float
    requests: float
    tokens: float


def part_of(fleet: Queueing, jobs: Sequence[Job]) -> Part:
    served = [job for job, begin in zip(jobs, fleet.begins, strict=True) if begin <= jobs[-1].at]  # a NaN is not
    told = fleet.told
    tokens = sum(job.length.output for job in served)
    return Part(len(told.refused) / len(jobs), len(told.late) / len(jobs), len(served), tokens)


def calibrated(fleet: Queueing) -> tuple[list[float], list[float]]:
    """Of waits of a second at least, real or expected: real by expected, each as a second at least, and the error in seconds."""
    ratios, errors = [], []
    for number, expected in fleet.told.expected.items():
        wait = fleet.waits[number]
        if max(wait, expected) >= 1:
            ratios.append(max(wait, 1.0) / max(expected, 1.0))
            errors.append(abs(wait - expected))
    return sorted(ratios), sorted(errors)


def run(jobs: Sequence[Job], order: Order, most: float, *, refuse_early: bool) -> Queueing:
    fleet = Queueing(jobs, order, most, refuse_early=refuse_early)
    fleet.run()
    return fleet


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=12_000)
    args = parser.parse_args()
    seeds, order = range(1, args.seeds + 1), Order(PER_TOKEN, CAP)
    _table("requests", "load", "max_wait", "late without", "late with", "refused with", "answers begun", "their tokens")
    for source, pace, most in product(SOURCES, _OVER, _WAITS):
        requests = max(args.requests, round(most * 10 * _LONGEST_RUN))
        study = Study(source, (), (pace,), seeds, requests, _SLOTS, _SPEED)
        pairs = [_pair(jobs_of(study, pace, seed), order, most) for seed in seeds]
        without, told = (Part(*map(_mean, zip(*side, strict=True))) for side in zip(*pairs, strict=True))
        goodput = [f"{told.requests / without.requests:.3f}", f"{told.tokens / without.tokens:.3f}"]
        _row(source.name, pace.name, f"{most:.0f} s", f"{without.late:.1%}", f"{told.late:.2%}", f"{told.refused:.1%}", *goodput)
    print()
    _table("requests", "load", "real : expected, median", "p10, p90 of that", "p90 of the error")
    for source, pace in product(SOURCES, _CALIBRATED):
        study = Study(source, (), (pace,), seeds, args.requests, _SLOTS, _SPEED)
        found = [calibrated(run(jobs_of(study, pace, seed), order, 60.0, refuse_early=pace.load > 1)) for seed in seeds]
        ratios, errors = (sorted(chain.from_iterable(side)) for side in zip(*found, strict=True))
        spread = f"{_at(ratios, 0.1):.2f}, {_at(ratios, 0.9):.2f}"
        _row(source.name, pace.name, f"{_at(ratios, 0.5):.2f}", spread, f"{_at(errors, 0.9):.1f} s")


def _table(*columns: str) -> None:
    _row(*columns)
    print("|" + "---|" * len(columns))


def _row(*cells: str) -> None:
    print(f"| {' | '.join(cells)} |", flush=True)


def _pair(jobs: Sequence[Job], order: Order, most: float) -> tuple[Part, Part]:
    without, with_ = (part_of(run(jobs, order, most, refuse_early=early), jobs) for early in (False, True))
    return without, with_


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _at(values: Sequence[float], share: float) -> float:
    """Of values in order."""
    return values[int(share * (len(values) - 1))] if values else float("nan")


if __name__ == "__main__":
    main()
