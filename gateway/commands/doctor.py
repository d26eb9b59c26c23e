"""`tiergate doctor`: what is wrong between this config and the world, and how to mend it.

Exit code: 0 nothing failed (warnings may be there), 1 something did, 2 the config cannot be read at all.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys

import msgspec

from gateway.config import ConfigError, examine
from gateway.doctor.diagnosis import Line, Options, diagnose
from gateway.doctor.machine import this_machine

_COLOURS = {"ok": "32", "warn": "33", "fail": "31"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", default="config.yaml", help="the config file (default: config.yaml)")
    parser.add_argument("--timeout", type=float, default=5.0, metavar="S", help="seconds for each question (default: 5)")
    parser.add_argument("--total", type=float, default=20.0, metavar="S", help="seconds for all of them (default: 20)")
    parser.add_argument("--deep", action="store_true", help="also send a request of one token to each replica's model")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    import uvloop  # noqa: PLC0415 - as in `serve`: what is reached must be reached as the gateway would

    if not (0 < args.timeout <= 600 and 0 < args.total <= 3600):
        print("tiergate doctor: --timeout must be above 0 and at most 600, --total at most 3600", file=sys.stderr)
        return 2
    try:
        reading = examine(args.config)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 2
    logging.getLogger("tiergate").addHandler(logging.NullHandler())  # what goes wrong is a finding, and told once
    lines = uvloop.run(diagnose(reading, Options(args.timeout, args.total, args.deep), this_machine()))
    failed = any(line.severity == "fail" for line in lines)
    if args.json:
        print(json.dumps({"ok": not failed, "findings": msgspec.to_builtins(lines)}, indent=2))
    else:
        print(text(args.config, lines, colour=sys.stdout.isatty() and not os.environ.get("NO_COLOR")))
    return 1 if failed else 0


def text(config: str, lines: list[Line], *, colour: bool) -> str:
    """Each finding as a line, and how to mend it below."""
    told = []
    for line in lines:
        word = f"\x1b[{_COLOURS[line.severity]}m{line.severity:4}\x1b[0m" if colour else f"{line.severity:4}"
        place = (f"{config}:{line.line}: " if line.line else "") + (f"{line.key}: " if line.key else "")
        told.append(f"{word}  {place}{line.what}")
        if line.mend:
            told.append(f"      {line.mend}")
    counts = {severity: sum(line.severity == severity for line in lines) for severity in _COLOURS}
    told.append(f"\n{counts['fail']} failed, {counts['warn']} to look at, {counts['ok']} fine")
    return "\n".join(told)
