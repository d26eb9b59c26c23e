"""From the command line to the document."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from gateway.config import ConfigError
from gateway.config import load as load_config
from gateway.lab.progress import Progress
from gateway.lab.routing import litellm
from gateway.lab.routing.answers import Question, load_answers
from gateway.lab.routing.cascade import cascades
from gateway.lab.routing.data import drawn, load
from gateway.lab.routing.outcomes import Outcomes, outcomes
from gateway.lab.routing.replay import Trio
from gateway.lab.routing.scored import SHIPPED, Judge, by
from gateway.lab.routing.settings import BUDGETS, LABELS, PROTOCOLS, Settings
from gateway.lab.routing.study import Study
from gateway.lab.routing.table import table
from routing.learned.classifier import Learned
from routing.learned.policy import Policy
from routing.rules import Rules

__all__ = ["evaluate", "table"]


def evaluate(args: argparse.Namespace, progress: Progress) -> dict[str, Any]:
    """Raises ValueError, OSError."""
    if not args.data and args.cascade is None:
        raise ValueError("name files of outcomes, or answers with --cascade")
    sets = sets_of(args)
    questions = None if args.cascade is None else load_answers(args.cascade)
    with ExitStack() as stack:
        routers = routers_of(args, progress, stack)
        document = Study(sets, routers, settings_of(args), progress).document(parameters_of(args))
    document["cascades"] = [] if questions is None else list(_cascades(args, questions, sets))
    return document


def _cascades(args: argparse.Namespace, questions: Sequence[Question], sets: Sequence[Outcomes]) -> Iterator[dict[str, Any]]:
    trios = [Trio(*models) for models in args.trio]
    return cascades(questions, sets, trios, draws=args.draws, seed=args.seed)


def sets_of(args: argparse.Namespace) -> list[Outcomes]:
    pairs = [(weak, strong) for weak, strong in args.pair]
    sets = [outcomes(drawn(load(path), args.rows, args.seed), pairs) for path in args.data]
    names = [rows.name for rows in sets]
    if len(set(names)) < len(names):
        raise ValueError(f"two files are called {next(name for name in names if names.count(name) > 1)}; rename one")
    return sets


def routers_of(args: argparse.Namespace, progress: Progress, stack: ExitStack) -> dict[str, Judge]:
    found: dict[str, Judge] = {"rules": by(Rules())}
    ready = _shipped()
    if ready is not None:
        found[SHIPPED] = by(Learned(ready))
    if args.policy is not None:
        found[f"policy {args.policy.name}"] = by(Learned(Policy.load(args.policy)))
    if args.config is not None:
        found[args.config.name] = _configured(args.config, stack)
    try:
        peers = litellm.scorers()
    except ImportError as error:
        peers = {}
        progress.say(f"without LiteLLM's scorers: {error}")
    return {**found, **peers}


def _shipped() -> Policy | None:
    """None where no policy ships."""
    try:
        from routing.learned.shipped import shipped  # noqa: PLC0415 - as above
    except ImportError:
        return None
    return shipped()


def _configured(path: Path, stack: ExitStack) -> Judge:
    """Raises ValueError."""
    from gateway.build.learning import following_of  # noqa: PLC0415 - all of the gateway, which only this option needs
    from gateway.build.requests import classifier_of  # noqa: PLC0415 - as above

    try:
        config = load_config(path)
    except ConfigError as error:
        raise ValueError(error.errors[0]) from None
    from gateway.lab.routing.asked import Awaited, asked_of  # noqa: PLC0415 - as above

    asked = asked_of(config)
    if asked is not None:
        return stack.enter_context(closing(Awaited(asked)))
    classifier = classifier_of(config)
    following_of(config, classifier, _nobody_listens)
    return by(classifier)


def _nobody_listens() -> None:
    """It has the policy that is in force, and is asked from then on."""


def settings_of(args: argparse.Namespace) -> Settings:
    return Settings(
        protocols=() if args.untrained else tuple(args.protocol or PROTOCOLS),
        labels=tuple(args.labels or LABELS),
        default=args.default,
        draws=args.draws,
        seed=args.seed,
        jobs=args.jobs,
        base=_shipped() if args.policy is None else Policy.load(args.policy),
        base_ships=args.policy is None,
        budgets=tuple(args.budget or BUDGETS) if args.stream else (),
    )


def parameters_of(args: argparse.Namespace) -> dict[str, Any]:
    left_out = {"command", "data", "json", "png", "jobs"}
    asked = {name: value for name, value in sorted(vars(args).items()) if name not in left_out}
    told = {name: str(value) if isinstance(value, Path) else value for name, value in asked.items()}
    ready = _shipped()
    return {**told, "litellm": litellm.version(), "shipped": None if ready is None else ready.version}
