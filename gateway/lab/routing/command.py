"""`tiergate route-eval`: read the outcomes, score the routers, tell.

Exit codes: 0; 2 for a mistake of the user's; 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gateway.lab.progress import Progress
from gateway.lab.routing.arguments import add_arguments

__all__ = ["add_arguments", "run"]

NAME = "tiergate route-eval"
_LAB = frozenset({"gateway", "routing"})


def run(args: argparse.Namespace) -> int:
    progress = Progress(sys.stderr, NAME)
    try:
        from gateway.lab.routing import running  # noqa: PLC0415 - numpy, which only this command needs
    except ImportError as error:
        if (error.name or "").partition(".")[0] in _LAB:
            raise  # a mistake of ours, which no package mends
        progress.say(f"it needs {error.name}: pip install 'tiergate[semantic]'")
        return 2
    try:
        if args.png is not None:
            _look(args.png)
        document = running.evaluate(args, progress)
    except (ValueError, OSError) as error:
        progress.say(str(error))
        return 2
    print(json.dumps(document, ensure_ascii=False) if args.json else running.table(document), flush=True)
    return 0 if args.png is None else _draw(args.png, document, progress)


def _look(picture: Path) -> None:
    """Now, so that a long run is not lost to a path that cannot be written."""
    if picture.is_dir() or not picture.parent.is_dir():
        raise ValueError(f"{picture} cannot be written")


def _draw(picture: Path, document: Mapping[str, Any], progress: Progress) -> int:
    from gateway.lab.routing import plots  # noqa: PLC0415 - only where a picture is asked for

    try:
        plots.draw(picture, document)
    except ImportError:
        progress.say(plots.MISSING)
    except OSError as error:
        progress.say(f"cannot write: {error}")
        return 2
    else:
        progress.say(f"wrote {picture}")
    return 0
