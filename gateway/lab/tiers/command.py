"""`tiergate simulate TRACE --route LABELS`: what is asked becomes studies."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path

from gateway.lab.fleet.job import Job
from gateway.lab.fleet.traces import Trace
from gateway.lab.tiers.labels import labels_of
from gateway.lab.tiers.study import BY_NAME, POLICIES, Study
from gateway.lab.tiers.world import Fleet


def studies_of(args: argparse.Namespace) -> list[Study]:
    """Raises ValueError, OSError."""
    if not args.traces:
        raise ValueError("--route needs a trace to give its prompts to")
    unknown = set(args.policy or ()) - set(BY_NAME)
    if unknown:
        raise ValueError(f"no policy {min(unknown)!r}; there are {', '.join(BY_NAME)}")
    policies = [BY_NAME[name] for name in dict.fromkeys(args.policy or [policy.name for policy in POLICIES])]
    fleet = Fleet(args.small, args.large, args.tier_slots, args.dear)
    speeds, seeds = sorted(set(args.speed or [1.0])), range(1, args.seeds + 1)
    small, large = args.models.split(",")
    label = partial(labels_of, args.route, small, large, args.classifier)
    rest = label, policies, speeds, seeds, args.share, args.follow_ups, fleet
    return [Study(path.name, _draw(path, args.requests), *rest, goal=args.goal) for path in args.traces]


def _draw(path: Path, requests: int | None) -> Callable[[int], list[Job]]:
    trace = Trace(path)
    return lambda seed: trace.jobs(seed)[:requests]
