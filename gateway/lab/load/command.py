"""`tiergate load`: probe, run, tell.

Exit codes: 0; 1 when the goodput is under --fail-under or no request succeeded; 2 for a mistake of the user's, a wrong
address or key included; 130 after Ctrl-C, which prints what was measured so far.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import uvloop

from backends.errors import UpstreamError
from gateway.lab.load import arguments, plots
from gateway.lab.load.histogram import Histogram
from gateway.lab.load.measures import Measures
from gateway.lab.load.plan import Plan, plan_of
from gateway.lab.load.probe import ProbeFailed
from gateway.lab.load.report import Course, document
from gateway.lab.load.runner import run as run_plan
from gateway.lab.load.table import table

NEEDS = "it needs hdrhistogram: pip install 'tiergate[load]'"

add_arguments = arguments.add_arguments


def run(args: argparse.Namespace) -> int:
    try:
        Histogram()
        file = _file(args.out) if args.out is not None else None
        plan = plan_of(args, os.environ)
        measures = Measures(plan.slo)
        started = datetime.now(UTC).isoformat(timespec="seconds")
        ran = uvloop.run(run_plan(plan, measures, _say))
    except ImportError:
        return _mistake(NEEDS)
    except UpstreamError as error:
        return _mistake(f"no answer from {args.url}: {error}")
    except (ValueError, OSError, ProbeFailed) as error:
        return _mistake(str(error))
    course = Course(plan.parameters, started, ran.wall, ran.cpu, ran.interrupted, plan.fail_under)
    told = document(measures, course)
    _tell(told, as_json=args.json)
    if file is not None:
        _write(file, measures, told)
    return _code(plan, measures, interrupted=ran.interrupted)


def _code(plan: Plan, measures: Measures, *, interrupted: bool) -> int:
    if interrupted:
        return 130
    if plan.fail_under is not None and (measures.goodput or 0.0) < plan.fail_under:
        _say(f"the goodput is under {plan.fail_under:.2%}")
        return 1
    return 0 if measures.ok else 1


def _tell(told: dict[str, Any], *, as_json: bool) -> None:
    if not as_json:
        print(table(told), flush=True)
        return
    print(json.dumps(told), flush=True)
    for warning in told["warnings"]:
        _say(f"WARNING: {warning}")


def _file(out: Path) -> Path:
    """Where the JSON goes; looked at now, so that a long run is not lost to a path that cannot be written."""
    file = out if out.suffix == ".json" else out / "load.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    if file.is_dir() or not os.access(file if file.exists() else file.parent, os.W_OK):
        raise ValueError(f"{file} cannot be written")
    return file


def _write(file: Path, measures: Measures, told: dict[str, Any]) -> None:
    picture = file.with_suffix(".png")
    try:
        file.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
        _say(f"wrote {file}")
        plots.draw(picture, measures, told)
        _say(f"wrote {picture}")
    except ImportError:
        _say(plots.MISSING)
    except OSError as error:
        _say(f"cannot write: {error}")


def _mistake(text: str) -> int:
    _say(text)
    return 2


def _say(text: str) -> None:
    print(f"tiergate load: {text}", file=sys.stderr, flush=True)
