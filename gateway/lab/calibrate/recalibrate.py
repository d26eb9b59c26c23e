"""The policy that ships, with its order as it is and its probabilities set right by what was seen here.

A straight line from the gap that it tells to the gap that was, and one from the mean of both probabilities to the mean that was:
four numbers, which fewer labels can tell than it takes to learn words. Least squares with the slope between LEAST and 1, so
that requests stay in the order of their gaps. Its prior is what it says of the labelled requests: as few numbers are fitted, it
would say the same of others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gateway.lab.calibrate.samples import Sample
from gateway.lab.routing.metrics import Floats
from routing.learned.file import write_policy
from routing.learned.policy import Head, Judged, Policy
from routing.learned.train import evenly

LEAST = 0.1

Line = tuple[float, float]


def recalibrated(policy: Policy, samples: Sequence[Sample]) -> Policy:
    paired = [one for one in samples if one.paired]
    said = [policy.judge_grams(one.grams) for one in paired]
    was = np.array([(one.small, one.large) for one in paired], dtype=float)
    gap = _line(np.array([one.gap for one in said]), was[:, 1] - was[:, 0])
    mean = _line(np.array([one.mean for one in said]), was.mean(axis=1))
    unnamed = replace(
        policy,
        version="",
        gap=_through(policy.gap, gap),
        mean=_through(policy.mean, mean),
        prior=_prior([one for one in said if one.known] or said, gap, mean),
    )
    return replace(unnamed, version=hashlib.sha256(write_policy(unnamed)).hexdigest()[:12])


def _prior(said: Sequence[Judged], gap: Line, mean: Line) -> list[tuple[float, float]]:
    gaps = gap[0] + gap[1] * np.array([one.gap for one in said])
    means = mean[0] + mean[1] * np.array([one.mean for one in said])
    pairs = evenly(np.stack([means - gaps / 2, means + gaps / 2], axis=1), gaps)
    return [(float(small), float(large)) for small, large in np.random.default_rng(0).permutation(pairs)]


def _line(said: Floats, was: Floats) -> Line:
    """(Intercept, slope)."""
    spread = float(((said - said.mean()) ** 2).sum())
    slope = float(((said - said.mean()) * (was - was.mean())).sum()) / spread if spread > 0 else 1.0
    slope = min(1.0, max(LEAST, slope))
    return float(was.mean() - slope * said.mean()), slope


def _through(head: Head, line: Line) -> Head:
    start, slope = line
    return replace(
        head,
        bias=start + slope * head.bias,
        step=slope * head.step,
        amounts=[slope * amount for amount in head.amounts],
        base=slope * head.base,
    )
