"""The command line of `tiergate route-eval`. Light: nothing that computes is imported here."""

from __future__ import annotations

import argparse
from pathlib import Path

from gateway.lab.numbers import number, whole

MAX_LABELS = 200_000
MAX_DRAWS = 100_000
DESCRIPTION = """\
Score the complexity router on labelled outcomes: prompts that a weak and a strong model were both scored on.
DATA are JSON lines, gzipped or not: {"prompt": …, "scores": {model: number}}; optional id, category, contaminated.
APGR is the gap between the two models that is recovered, over the share sent to the strong one: chance has .50.
CPT(50) is the share that recovers half of the gap (RouteLLM, Ong et al. 2024)."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = DESCRIPTION
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("data", nargs="*", type=Path, metavar="DATA", help="files; each is a set by itself")
    _what(parser.add_argument_group("what is scored"))
    _stream(parser.add_argument_group("a stream besides"))
    _cascade(parser.add_argument_group("cascades besides"))
    _how(parser.add_argument_group("how"))
    results = parser.add_argument_group("results")
    results.add_argument("--json", action="store_true", help="print JSON: all figures, their intervals, digests of the data")
    results.add_argument("--png", type=Path, metavar="FILE", help="draw quality against the share of the strong model")


def _what(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--pair", nargs=2, action="append", default=[], metavar=("WEAK", "STRONG"),
        help="two models of the data; may be repeated: the first that a file has (a known pair, else the worst and the best)",
    )  # fmt: skip
    group.add_argument(
        "--protocol", action="append", choices=("own", "task", "cross"),
        help="how `learned` is trained: on labels of the same set, its other categories, other files; may be repeated (all)",
    )  # fmt: skip
    group.add_argument("--untrained", action="store_true", help="only routers as they are: nothing is trained")
    group.add_argument(
        "--labels", action="append", type=_labels, metavar="N", help="of --protocol own; may be repeated (100, 300, 1500, 5000)"
    )
    group.add_argument("--policy", type=Path, metavar="FILE", help="also a policy of `tiergate calibrate`, as it is")
    group.add_argument(
        "--config", type=Path, metavar="FILE", help="also the classifier that this config has for `auto`, by the policy in force"
    )


def _stream(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--stream", action="store_true", help="a budget on streams that shift from one file to another")
    group.add_argument(
        "--budget",
        action="append",
        type=_share,
        metavar="SHARE",
        help="of requests that may go up; may be repeated (.1, .3, .5)",
    )


def _cascade(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--cascade", type=Path, metavar="ANSWERS",
        help='replay cascades over parsed answers: {"id", "gold", "answers": {model: answer}, "out_chars": {model: number}}',
    )  # fmt: skip
    group.add_argument(
        "--trio", nargs=3, action="append", default=[], metavar=("SMALL", "SMALL", "LARGE"),
        help="two small models, the large one that is asked where they differ; may be repeated (known ones)",
    )  # fmt: skip


def _how(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--default", choices=("small", "large"), default="large", help="where what a router does not know goes (%(default)s)"
    )
    group.add_argument("--rows", type=_labels, metavar="N", help="at most so many of each file, drawn by the seed (all)")
    group.add_argument("--draws", type=_draws, default=1000, metavar="N", help="of the bootstrap, over rows (%(default)s)")
    group.add_argument("--seed", type=int, default=0, metavar="N", help="of all that is drawn (%(default)s)")
    group.add_argument("--jobs", type=_jobs, default=2, metavar="N", help="processes that train at once (%(default)s)")


def _share(text: str) -> float:
    return number(text, lambda value: 0 < value < 1, "a share above 0 and below 1")


def _labels(text: str) -> int:
    return whole(text, MAX_LABELS)


def _draws(text: str) -> int:
    return whole(text, MAX_DRAWS)


def _jobs(text: str) -> int:
    return whole(text, 64)
