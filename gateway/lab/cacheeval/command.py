"""`tiergate cache eval`: read the data, embed it, tell.

Exit codes: 0; 2 for a mistake of the user's: data that cannot be read, an embedder that is not there; 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from gateway.lab.cacheeval import plots
from gateway.lab.cacheeval.arguments import PRESETS, judge_of
from gateway.lab.cacheeval.drawing import Plan
from gateway.lab.cacheeval.embedders import DEFAULT, open_embedder
from gateway.lab.cacheeval.evaluation import Evaluation, whole
from gateway.lab.cacheeval.formats import load
from gateway.lab.cacheeval.guarded import Asking, ProductGuards
from gateway.lab.cacheeval.settings import Opened, Settings
from gateway.lab.cacheeval.table import table
from gateway.lab.progress import Progress

NAME = "tiergate cache eval"


def run(args: argparse.Namespace) -> int:
    progress = Progress(sys.stderr, NAME)
    try:
        settings = settings_of(args)
        opened = [open_embedder(name) for name in args.embedder or [DEFAULT]]
        guards = ProductGuards(asking_of(args), all_eligible=args.all_eligible)
        document = evaluate(settings, opened, guards, progress, parameters_of(args))
    except (ValueError, OSError) as error:
        progress.say(str(error))
        return 2
    print(json.dumps(document, ensure_ascii=False) if args.json else table(document), flush=True)
    return 0 if args.png is None else _draw(args.png, document, progress)


def settings_of(args: argparse.Namespace) -> Settings:
    """Raises ValueError."""
    if args.png is not None:
        _look(args.png)
    if args.shadow is not None and args.stream is None:
        raise ValueError("--shadow needs --stream: what is learned is learned from a stream")
    if args.calibrate and args.stream is not None:
        raise ValueError("--stream or --calibrate: one at a time")
    if args.stream is not None and (args.grey is not None or args.judge_asks != "grey"):
        raise ValueError("--grey and --judge-asks are for pairs: in a stream the judge is asked as the product asks")
    if args.stream is not None and args.all_eligible:
        raise ValueError("--all-eligible is for pairs: a stream goes through the product, which looks at what may be looked up")
    plan = Plan(args.stream, args.zipf, args.seed, args.shuffle) if args.stream is not None else None
    return Settings(
        data=tuple(load(path) for path in args.data),
        presets=tuple(args.preset or PRESETS),
        thresholds=tuple(args.threshold),
        guards=args.guards,
        judge=judge_of(args),
        seed=args.seed,
        max_error=args.max_error,
        calibrate=args.calibrate,
        stream=plan,
        shadow=args.shadow,
        shadow_share=args.shadow_share,
    )


def asking_of(args: argparse.Namespace) -> Asking | None:
    if args.judge is None and args.verifier is None:
        return None
    return Asking(grey=args.grey, vetoed=args.judge_asks in {"vetoed", "all"}, served=args.judge_asks == "all")


def evaluate(
    settings: Settings, embedders: list[Opened], guards: ProductGuards, progress: Progress, parameters: dict[str, Any]
) -> dict[str, Any]:
    """The document. Raises ValueError."""
    parts, told = [], []
    for opened in embedders:
        evaluation = Evaluation(settings, opened, guards, progress)
        parts += [evaluation.of(data) for data in settings.data]
        model = opened.model
        about = {"name": opened.name, "fingerprint": model.fingerprint, "dimension": model.dimension}
        told.append({**about, "max_tokens": model.max_tokens, "cost": evaluation.cost()})
    return whole(settings, parts, told, parameters)


def parameters_of(args: argparse.Namespace) -> dict[str, Any]:
    left_out = {"command", "action", "data", "json", "png"}
    told = {name: value for name, value in sorted(vars(args).items()) if name not in left_out}
    return {name: str(value) if isinstance(value, Path) else value for name, value in told.items()}


def _look(picture: Path) -> None:
    """Now, so that a long run is not lost to a path that cannot be written."""
    if picture.is_dir() or not picture.parent.is_dir():
        raise ValueError(f"{picture} cannot be written")


def _draw(picture: Path, document: dict[str, Any], progress: Progress) -> int:
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
