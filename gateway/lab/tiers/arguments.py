"""What `tiergate simulate TRACE --route LABELS` is asked: the part of the command line that is about two tiers."""

from __future__ import annotations

import argparse
from pathlib import Path

from gateway.lab.numbers import number, whole
from gateway.lab.tiers.world import Fleet

_FLEET = Fleet()
MODELS = "llama-3.1-8b-instruct,llama-3.1-nemotron-51b-instruct"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    tiers = parser.add_argument_group(
        "tiers: two pools, and what goes where", "docs/routing-load.md says what each --policy is; an unknown one lists them"
    )
    tiers.add_argument(
        "--route", type=Path, metavar="LABELS",
        help="give the requests of each TRACE prompts with outcomes of two models: lines of JSON with `prompt` and `scores`",
    )  # fmt: skip
    tiers.add_argument("--models", type=_two, default=MODELS, metavar="SMALL,LARGE", help="of those outcomes (%(default)s)")
    tiers.add_argument("--classifier", choices=("learned", "rules"), default="learned",
                       help="`learned` is trained on half of the prompts, the others are sent (%(default)s)")  # fmt: skip
    tiers.add_argument("--share", type=_share, default=0.3, metavar="X", help="of the requests may go up (%(default)s)")
    tiers.add_argument("--follow-ups", type=_share, default=0.3, metavar="X",
                       help="of later turns whose own words look easy (%(default)s)")  # fmt: skip
    tiers.add_argument("--small", type=_count, default=_FLEET.small, metavar="N", help="cheap replicas (%(default)s)")
    tiers.add_argument("--large", type=_count, default=_FLEET.large, metavar="N", help="dear replicas (%(default)s)")
    tiers.add_argument("--dear", type=_factor, default=_FLEET.dear, metavar="X", help="times as slow as cheap ones (%(default)g)")
    tiers.add_argument("--tier-slots", type=_count, default=_FLEET.slots, metavar="N", help="of a replica (%(default)s)")


def _two(text: str) -> str:
    if text.count(",") != 1 or not all(text.split(",")):
        raise argparse.ArgumentTypeError(f"{text!r} is not SMALL,LARGE")
    return text


def _share(text: str) -> float:
    return number(text, lambda value: 0 <= value <= 1, "a share from 0 to 1")


def _factor(text: str) -> float:
    return number(text, lambda value: 1e-3 <= value <= 1e3, "a number above 0")


def _count(text: str) -> int:
    return whole(text, 10_000)
