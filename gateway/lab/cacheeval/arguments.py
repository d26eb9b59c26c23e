"""The command line of `tiergate cache eval`. Light: nothing that computes is imported here."""

from __future__ import annotations

import argparse
from pathlib import Path

from gateway.lab.cacheeval.drawing import ZIPF
from gateway.lab.cacheeval.judge import CrossEncoderJudge, Judge, ScriptedJudge
from gateway.lab.cacheeval.shadow import SHARE
from gateway.lab.numbers import number, whole

PRESETS = ("strict", "balanced")
MAX_ASKS = 1_000_000
DESCRIPTION = """\
Score the semantic cache on labelled pairs: of the pairs that one answer serves how many are served, and of the traps.
Data are told apart by what is in them, gzipped or not; a folder is read whole:
  JSON lines or an array of {a, b, same_answer} (texts or conversations; category, ambiguous), {text_a, text_b, label},
  or {origin, similar} (all origins are stored, each similar one is looked up);
  lines of text TAB text TAB 0|1, with or without a header that names sentence1, sentence2 and label."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = DESCRIPTION
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("data", nargs="+", type=Path, metavar="DATA", help="files or folders; each is scored by itself")
    _policies(parser.add_argument_group("policies"))
    _stream(parser.add_argument_group("a stream of questions instead of pairs"))
    _calibration(parser.add_argument_group("calibration instead of scores"))
    _results(parser.add_argument_group("results"))


def _policies(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--preset", action="append", choices=PRESETS, help="may be repeated (both)")
    group.add_argument(
        "--threshold", action="append", default=[], type=_score, metavar="X", help="also a cut on the cosine; may be repeated"
    )
    group.add_argument(
        "--guards", action=argparse.BooleanOptionalAction, help="the cuts of --threshold with guards, or without (both ways)"
    )
    group.add_argument(
        "--embedder",
        action="append",
        metavar="NAME",
        help="may be repeated: minilm (which comes along), a folder, sentence-transformers:NAME",
    )
    group.add_argument(
        "--judge", metavar="RIGHT/WRONG", help="a scripted verifier that approves so many right pairs and traps: 0.98/0.01"
    )
    group.add_argument("--verifier", type=Path, metavar="DIR", help="the same by a cross-encoder: a folder, as in verifier.path")
    group.add_argument(
        "--verifier-threshold", type=_share, metavar="X", help="from which score on it approves (as its verifier.json has it)"
    )
    group.add_argument(
        "--grey", type=_score, metavar="X", help="the verifier is asked from this cosine on (as the preset has it)"
    )
    group.add_argument(
        "--judge-asks", choices=("grey", "vetoed", "all"), default="grey",
        help="grey: what is nearly served; vetoed: also what a guard refused; all: also what would be served",
    )  # fmt: skip
    group.add_argument(
        "--all-eligible",
        action="store_true",
        help="the decision alone: also of questions that the cache never looks up (today, …)",
    )
    group.add_argument("--seed", type=int, default=0, metavar="N", help="of all that is drawn (%(default)s)")


def _stream(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--stream", type=_count, metavar="N", help="draw N questions from clusters of right pairs")
    group.add_argument("--zipf", type=_exponent, default=ZIPF, metavar="S", help="exponent of the clusters' ranks (%(default)s)")
    group.add_argument("--shuffle", action="store_true", help="rank the clusters by the seed, not as the data names them")
    group.add_argument("--shadow", type=_count, metavar="N", help="learn from N shadow verifications, under --max-error")
    group.add_argument(
        "--shadow-share", type=_share, default=SHARE, metavar="SHARE", help="of hits that are verified (%(default)s)"
    )


def _calibration(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--calibrate", action="store_true", help="choose a cut on one half of the data, tell it on the other")
    group.add_argument(
        "--max-error", type=_share, default=0.02, metavar="SHARE", help="of what is served, at most so much wrong (%(default)s)"
    )


def _results(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--json", action="store_true", help="print JSON: all counts, digests of the data, examples of errors")
    group.add_argument("--png", type=Path, metavar="FILE", help="draw curves and categories")


def judge_of(args: argparse.Namespace) -> Judge | None:
    """Raises ValueError."""
    if args.judge is not None and args.verifier is not None:
        raise ValueError("--judge or --verifier: one at a time")
    if args.verifier is None and args.verifier_threshold is not None:
        raise ValueError("--verifier-threshold needs --verifier")
    if args.verifier is not None:
        return CrossEncoderJudge(args.verifier, args.verifier_threshold)
    return ScriptedJudge.parse(args.judge, args.seed) if args.judge is not None else None


def _score(text: str) -> float:
    return number(text, lambda value: -1 <= value <= 1, "a number from -1 to 1")


def _share(text: str) -> float:
    return number(text, lambda value: 0 < value <= 1, "a share above 0, and at most 1")


def _exponent(text: str) -> float:
    return number(text, lambda value: 0 <= value <= 10, "an exponent from 0 to 10")


def _count(text: str) -> int:
    return whole(text, MAX_ASKS)
