"""`tiergate calibrate [LOG…]`: learn a routing policy from own traffic, and put it in force where it is better.

Exit codes: 0, whether or not a new policy took over; 2, a mistake; 3, too few labels to tell; 4, the time of `--seconds` was up.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import signal
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from gateway.config import ConfigError, load
from gateway.config.doubts import UNUSED
from gateway.lab.progress import Progress
from gateway.learning.versions import BadVersions, Made, Versions

if TYPE_CHECKING:  # else numpy would be loaded with the command line
    from gateway.lab.calibrate.samples import Gathered
    from gateway.lab.calibrate.study import Study
    from routing.learned.policy import Policy

NAME = "tiergate calibrate"
MISTAKE, TOO_FEW, LATE = 2, 3, 4
SHIPPED = "shipped"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "log", nargs="*", type=Path, metavar="LOG", help="files or folders of lines; default: those of the config"
    )
    parser.add_argument("--config", default="config.yaml", help="the config whose routing.learning.path counts (config.yaml)")
    parser.add_argument("--policies", type=Path, metavar="DIR", help="folder of the policies; default: that of the config")
    parser.add_argument(
        "--base", type=Path, metavar="FILE", help="the policy to begin with; default: the config's, or what ships"
    )
    parser.add_argument("--dry-run", action="store_true", help="measure, and change nothing")
    parser.add_argument("--rollback", action="store_true", help="put the policy in force that was before this one, and end")
    parser.add_argument("--seed", type=int, default=0, help="of the draws (0)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--brief", action="store_true", help="print one line")
    parser.add_argument("--seconds", type=int, default=0, metavar="N", help="end after so many seconds, done or not")
    parser.add_argument("--nice", type=int, default=0, metavar="N", help="give way to others, as nice(1) does")


def run(args: argparse.Namespace) -> int:
    if args.seconds > 0:
        signal.signal(signal.SIGALRM, partial(_late, args.seconds))
        signal.alarm(args.seconds)
    if args.nice > 0:
        os.nice(args.nice)
    try:
        logs, versions, args.kind = _places(args)
        return _roll_back(args, versions) if args.rollback else _calibrate(args, logs, versions)
    except ConfigError as error:
        print(error, file=sys.stderr)
    except (BadVersions, ValueError) as error:
        print(f"{NAME}: {error}", file=sys.stderr)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print(f"{NAME}: {where}{error.strerror or error}", file=sys.stderr)
    return MISTAKE


def _late(seconds: int, *_: object) -> NoReturn:
    print(
        f"{NAME}: not done after {seconds} s, and ended; nothing was changed. Call it with more --seconds, or without",
        file=sys.stderr, flush=True,
    )  # fmt: skip
    os._exit(LATE)


def _places(args: argparse.Namespace) -> tuple[list[Path], Versions, str | None]:
    """And the classifier of the gateway, where its config was read. Raises ConfigError where that is needed and is none."""
    if args.policies is not None and (args.log or args.rollback):
        return args.log, Versions(args.policies), None
    routing = load(args.config).routing
    path, args.base = routing.learning.path, args.base or routing.classifier.policy
    return args.log or [path / "log"], Versions(args.policies or path / "policies"), routing.classifier.kind


def _roll_back(args: argparse.Namespace, versions: Versions) -> int:
    now = versions.roll_back() or SHIPPED
    print(json.dumps({"current": now, "classifier": args.kind}) if args.json else f"The policy {now} is in force.{_unused(args)}")
    return 0


def _calibrate(args: argparse.Namespace, logs: list[Path], versions: Versions) -> int:
    from gateway.lab.calibrate import report  # noqa: PLC0415 - numpy is loaded when it is needed
    from gateway.lab.calibrate.measure import BLOCKS  # noqa: PLC0415 - as above
    from gateway.lab.calibrate.samples import gather  # noqa: PLC0415 - as above
    from gateway.lab.calibrate.study import TooFewLabels, study  # noqa: PLC0415 - as above

    first = _base(args.base)
    current, since = _in_force(versions, first)
    found = gather(logs)
    told = {} if args.brief else {"told": Progress(sys.stderr, NAME).step("policies made and measured", BLOCKS + 1)}
    try:
        result = study(found.samples, shipped=first, current=current, since=since, seed=args.seed, **told)
    except TooFewLabels as error:
        refused = {"error": "too_few_labels", "message": str(error), "classifier": args.kind}
        print(json.dumps(refused) if args.json else f"{NAME}: {error}.{_unused(args)}")
        return TOO_FEW
    if result.new.policy.version in versions.manifest().refused:
        back = replace(result.new.ruling, swap=False, why="it was rolled back")
        result = replace(result, tried=(replace(result.new, ruling=back),))
    signal.alarm(0)  # it is decided: what is said is true, and what is written is whole
    swap = result.new.ruling.swap and not args.dry_run
    if swap:
        _put_in_force(versions, result, found, current.version)
    if args.json:
        print(json.dumps({**report.plain(found, result, current.version, swapped=swap), "classifier": args.kind}, indent=2))
    else:
        print((report.brief if args.brief else report.table)(found, result, current.version, swapped=swap) + _unused(args))
    return 0


def _unused(args: argparse.Namespace) -> str:
    """That nobody judges by any policy, where that is known."""
    if args.kind in (None, "learned"):
        return ""
    return f" But {UNUSED.format(args.kind)}."


def _base(path: Path | None) -> Policy:
    """Raises BadVersions and OSError."""
    from routing.learned.file import BadPolicy  # noqa: PLC0415 - loaded when it is needed
    from routing.learned.policy import Policy  # noqa: PLC0415 - as above
    from routing.learned.shipped import shipped  # noqa: PLC0415 - as above

    try:
        return shipped() if path is None else Policy.load(path)
    except BadPolicy as error:
        raise BadVersions(f"{path}: {error}") from None


def _in_force(versions: Versions, first: Policy) -> tuple[Policy, float]:
    """The policy, and when its newest label was written; `first` where no other is. Raises BadVersions."""
    from routing.learned.file import BadPolicy, read_policy  # noqa: PLC0415 - loaded when it is needed

    manifest = versions.manifest()
    made = manifest.find(manifest.current)
    if made is None:
        return first, 0.0
    try:
        return read_policy(versions.data(made)), made.until
    except BadPolicy as error:
        raise BadVersions(str(error)) from None


def _put_in_force(versions: Versions, result: Study, found: Gathered, base: str) -> None:
    from gateway.lab.calibrate import report  # noqa: PLC0415 - loaded when it is needed
    from routing.learned.file import write_policy  # noqa: PLC0415 - as above

    data = write_policy(result.new.policy)
    made = Made(
        version=result.new.policy.version,
        at=time.time(),
        sha256=hashlib.sha256(data).hexdigest(),
        base=base,
        labels=found.paired,
        until=max(sample.at for sample in found.samples),
        figures=report.figures(result.new.figures),
    )
    versions.add(made, data)
