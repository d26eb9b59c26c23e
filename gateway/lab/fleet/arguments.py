"""What `tiergate simulate TRACE` is asked: the part of the command line that is about replicas."""

from __future__ import annotations

import argparse
from pathlib import Path

from gateway.lab.fleet.costs import Costs, Shape
from gateway.lab.fleet.made import KINDS
from gateway.lab.numbers import number, whole
from gateway.units import parse_duration

_SHAPE, _COSTS = Shape(), Costs()
REQUESTS = 10_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    _work(parser.add_argument_group("replicas: what is sent"))
    _fleet(parser.add_argument_group("replicas: the fleet"))


def _work(work: argparse._ArgumentGroup) -> None:
    work.add_argument(
        "traces", type=Path, nargs="*", metavar="TRACE",
        help="replay it over replicas: Mooncake, Azure, BurstGPT, your own, as `tiergate load` reads them; archives of ServeGen",
    )  # fmt: skip
    work.add_argument("--made", choices=list(KINDS), action="append", default=[],
                      help="made up: conversations, nothing shared, one beginning for all, agents; may be repeated")  # fmt: skip
    work.add_argument("--agents", type=_count, default=3, metavar="N", help="in what is made up of them (%(default)s)")
    work.add_argument("--beginning", type=_count, default=16_384, metavar="N", help="tokens of an agent's (%(default)s)")
    work.add_argument(
        "--shift", type=_interval, metavar="TIME", help="for which one agent is asked for alone, each in turn (all)"
    )
    work.add_argument("--speed", type=_factor, action="append", metavar="X",
                      help="times as fast as the trace; may be repeated, for curves (1)")  # fmt: skip
    work.add_argument("--rate", type=_factor, metavar="R", help="requests a second on average at speed 1, whatever the trace has")
    work.add_argument("--spread", type=_seconds, metavar="TIME",
                      help="requests come up to so much later, at random, for coarse clocks (found out)")  # fmt: skip
    work.add_argument(
        "--half", choices=("first", "second"), help="of each trace, to choose settings on one and to judge on the other"
    )
    work.add_argument("--sessions", action="store_true", help="made-up conversations name their session")
    work.add_argument("--goal", type=_seconds, default=2.0, metavar="TIME", help="a first token in time (2s)")


def _fleet(fleet: argparse._ArgumentGroup) -> None:
    fleet.add_argument("--replicas", type=_count, default=12, metavar="N", help="(%(default)s)")
    fleet.add_argument("--max-inflight", type=_count, default=256, metavar="N", help="requests on a replica (%(default)s)")
    fleet.add_argument("--chunk", type=_count, default=_SHAPE.chunk, metavar="N", help="tokens of a step (%(default)s)")
    fleet.add_argument("--seats", type=_count, default=_SHAPE.seats, metavar="N", help="requests in a step (%(default)s)")
    fleet.add_argument("--blocks", type=_count, default=_SHAPE.blocks, metavar="N", help="of KV memory (%(default)s)")
    fleet.add_argument("--block", type=_count, default=_SHAPE.block, metavar="N", help="tokens of a block (%(default)s)")
    fleet.add_argument("--prefill", type=_costs, metavar="A,B,C",
                       default=(_COSTS.prefill, 1e3 * _COSTS.token, 1e6 * _COSTS.square),
                       help="seconds of a prompt, of 1,000 tokens, of 1,000 tokens squared (0.066,0.057,0.0044)")  # fmt: skip
    fleet.add_argument("--decode", type=_costs, default=(_COSTS.step, _COSTS.request, _COSTS.context), metavar="A,B,C",
                       help="seconds of a step, of a request in it, of a token of context (0.0106,0.00042,1.42e-7)")  # fmt: skip
    fleet.add_argument("--gateways", type=_count, default=1, metavar="N",
                       help="that share the requests at random (%(default)s); with POLICY@apart they do not hear each other, "
                       "with POLICY@floor they know that they do not, POLICY@one is one for all")  # fmt: skip
    fleet.add_argument("--tell", type=_interval, metavar="TIME", help="after which several gateways know of each other (50ms)")
    fleet.add_argument("--error", type=_sigma, default=0.0, metavar="SIGMA", help="lognormal error of the estimate of tokens (0)")
    fleet.add_argument(
        "--index", type=_factor, default=1.0, metavar="X", help="room of the prefix index, of what an engine has (1)"
    )


def _count(text: str) -> int:
    return whole(text, 100_000_000)


def _factor(text: str) -> float:
    return number(text, lambda value: 1e-6 <= value <= 1e6, "a number above 0")


def _interval(text: str) -> float:
    return number(str(_seconds(text)), lambda value: value >= 1e-3, "a duration of 1ms at least")


def _sigma(text: str) -> float:
    return number(text, lambda value: 0 <= value <= 10, "a number from 0 to 10")


def _costs(text: str) -> tuple[float, float, float]:
    cells = [number(cell, lambda value: 0 <= value <= 1e6, "a number of seconds") for cell in text.split(",")]
    if len(cells) != 3:
        raise argparse.ArgumentTypeError(f"{text!r} is not three numbers of seconds, A,B,C")
    return cells[0], cells[1], cells[2]


def _seconds(text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError:
        return number(text, lambda value: 0 <= value <= 3600, "a duration such as 2s")
