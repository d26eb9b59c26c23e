"""From labelled requests to a ruling, and to the policy that would take over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gateway.lab.calibrate.measure import Figures, Outcomes, Told, held_out, measure
from gateway.lab.calibrate.rule import Ruling, rule
from gateway.lab.calibrate.samples import Sample
from gateway.lab.routing.metrics import Resamples
from routing.learned.policy import Policy
from routing.learned.train import train

LEAST_LABELS = 100  # of both tiers
LEAST_HELD_OUT = 30


class TooFewLabels(Exception):  # noqa: N818 - it says what was met
    """The message says how many there are, and what is wanted."""


@dataclass(frozen=True, slots=True)
class Study:
    held_out: int
    gap: float  # of the mean quality, large less small, on the held-out requests
    old: Figures
    new: Figures
    ruling: Ruling
    policy: Policy  # trained on all of them


def study(samples: Sequence[Sample], *, shipped: Policy, current: Policy, since: float, seed: int) -> Study:
    """`since`: when the newest label was written that `current` was trained on. Raises TooFewLabels.

    Always trained from the policy that ships: what the current one knows of this traffic is in the samples.
    """
    paired = sum(sample.paired for sample in samples)
    if paired < LEAST_LABELS:
        alone = f"; {len(samples) - paired} more tell of one tier alone" if len(samples) > paired else ""
        raise TooFewLabels(f"{paired} requests have a label of both tiers{alone}: {LEAST_LABELS} are wanted")

    def make(part: Sequence[Sample]) -> Policy:
        return train([one.row() for one in part], base=shipped, seed=seed, read=[one.grams for one in part])

    tested, judged = held_out(samples, make, since)
    if len(tested) < LEAST_HELD_OUT:
        newer = " newer than what the policy in force was trained on" if since else ""
        raise TooFewLabels(f"{len(tested)} requests can be held out{newer}: {LEAST_HELD_OUT} are wanted")
    was, resamples = Outcomes.of(tested), Resamples(len(tested), seed=seed)
    new, new_draws = measure(Told.of(judged), was, resamples)
    old, old_draws = measure(Told.of([current.judge_grams(one.grams) for one in tested]), was, resamples)
    gap = float((was.large - was.small).mean())
    return Study(len(tested), gap, old, new, rule(new, new_draws, old_draws, _agreeing(samples)), make(samples))


def _agreeing(samples: Sequence[Sample]) -> float | None:
    """The share whose answers agree, where agreement is what most labels come from."""
    seen = [one.agreed for one in samples if one.paired and one.agreed is not None]
    return sum(seen) / len(seen) if 2 * len(seen) > sum(one.paired for one in samples) else None
