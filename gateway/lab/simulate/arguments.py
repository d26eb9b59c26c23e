"""The command line of `tiergate simulate`."""

from __future__ import annotations

import argparse
from pathlib import Path

from gateway.lab.fleet import arguments as replicas
from gateway.lab.numbers import number, whole
from gateway.lab.simulate.halves import half
from gateway.lab.simulate.policies import CAP, PER_TOKEN
from gateway.lab.simulate.terms import KEYS
from gateway.lab.simulate.workload import PACES
from gateway.lab.tiers import arguments as tiers
from gateway.units import parse_duration

REPLICAS, QUEUE = "replicas", "queue"
MIXES = ("one", "eight", "uses")
REQUESTS = 12_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "With a TRACE, or --made, it compares ways to choose a replica; with --route, too, ways to choose between two tiers; "
        "without, orders of the queue in front of a model's slots."
    )
    both = parser.add_argument_group("both")
    both.add_argument("--requests", type=_count, metavar="N", help=f"in each run (a trace's own, {replicas.REQUESTS:,} made up, "
                      f"{REQUESTS:,} in queues)")  # fmt: skip
    both.add_argument("--seeds", type=_seeds, default=5, metavar="N", help="runs of each policy at each load (%(default)s)")
    both.add_argument("--policy", action="append", metavar="NAME",
                      help="may be repeated, the first is what others are compared with (all but `longest`)")  # fmt: skip
    both.add_argument("--json", action="store_true",
                      help="print JSON: also the range over the seeds, [least, most], and each tenant's waits")  # fmt: skip
    both.add_argument("--png", type=Path, metavar="FILE", help="draw it; needs tiergate[plots]")
    with half(parser, REPLICAS):
        replicas.add_arguments(parser)
    tiers.add_arguments(parser)
    with half(parser, QUEUE):
        _add_queue(parser)


def _add_queue(parser: argparse.ArgumentParser) -> None:
    work = parser.add_argument_group("queue: requests")
    work.add_argument(
        "--trace", type=Path, action="append", default=[], metavar="FILE",
        help="take the lengths of a public trace, as `tiergate load` reads them; may be repeated",
    )  # fmt: skip
    work.add_argument(
        "--mix", choices=MIXES, action="append",
        help="made up instead: of one tenant, of eight alike, or a tenant for each use; may be repeated (all)",
    )  # fmt: skip
    work.add_argument("--load", choices=[pace.name for pace in PACES], action="append", help="may be repeated (all)")
    work.add_argument("--tpm", type=_count, metavar="N", help="tokens a minute of each tenant, by the product's limiter")
    work.add_argument(
        "--tenant", action="append", default=[], metavar="NAME:KEY=VALUE,…",
        help=f"what one tenant does and may, with keys {KEYS}; `times`: it sends so many times as much; may be repeated",
    )  # fmt: skip
    fleet = parser.add_argument_group("queue: slots")
    fleet.add_argument("--slots", type=_slots, default=64, metavar="N", help="(%(default)s)")
    fleet.add_argument("--base", type=_seconds, default=0.3, metavar="TIME", help="of service before the first token (300ms)")
    fleet.add_argument("--token", type=_seconds, default=0.02, metavar="TIME", help="for each token of the answer (20ms)")
    order = parser.add_argument_group("queue: order")
    order.add_argument(
        "--order-token", type=_seconds, default=PER_TOKEN, metavar="TIME", help="queue.order.per_token of `ours` (30ms)"
    )
    order.add_argument("--cap", type=_count, default=CAP, metavar="N", help="queue.order.cap of `ours` (%(default)s)")


def _count(text: str) -> int:
    return whole(text, 100_000_000)


def _seeds(text: str) -> int:
    return whole(text, 1000)


def _slots(text: str) -> int:
    return whole(text, 100_000)


def _seconds(text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError:
        return number(text, lambda value: 0 <= value <= 3600, "a duration such as 20ms")
