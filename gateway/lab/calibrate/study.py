"""From labelled requests to a ruling, and to the policy that would take over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gateway.lab.calibrate.measure import Figures, Outcomes, Told, held_out, measure
from gateway.lab.calibrate.recalibrate import recalibrated
from gateway.lab.calibrate.rule import Ruling, rule
from gateway.lab.calibrate.samples import Sample
from gateway.lab.routing.metrics import Resamples
from routing.learned.policy import Policy
from routing.learned.train import train

LEAST_LABELS = 100  # of both tiers
LEAST_HELD_OUT = 30
TRAINED, RECALIBRATED = "trained", "recalibrated"

Make = Callable[[Sequence[Sample]], Policy]
Progress = Callable[[int, int], None]


class TooFewLabels(Exception):  # noqa: N818 - it says what was met
    """The message says how many there are, and what is wanted."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """`policy` is made of all samples; what is measured were its like, made of what came before."""

    kind: str
    figures: Figures
    ruling: Ruling
    policy: Policy


@dataclass(frozen=True, slots=True)
class Study:
    """`tried`: one after the other, until one is to take over."""

    held_out: int
    gap: float  # of the mean quality, large less small, on the held-out requests
    old: Figures
    tried: tuple[Candidate, ...]

    @property
    def new(self) -> Candidate:
        """What is to take over, or the first."""
        return self.tried[-1] if self.tried[-1].ruling.swap else self.tried[0]


def _nobody(_done: int, _of: int) -> None:
    """Nobody wants to know."""


def study(
    samples: Sequence[Sample], *, shipped: Policy, current: Policy, since: float, seed: int, told: Progress = _nobody
) -> Study:
    """`since`: when the newest label was written that `current` was trained on. `told`: of how many policies, how many are made.
    Raises TooFewLabels.

    Always made from the policy that ships: what the current one knows of this traffic is in the samples.
    """
    paired = sum(sample.paired for sample in samples)
    if paired < LEAST_LABELS:
        alone = f"; {len(samples) - paired} more tell of one tier alone" if len(samples) > paired else ""
        raise TooFewLabels(f"{paired} requests have a label of both tiers{alone}: {LEAST_LABELS} are wanted")
    blocks = held_out(samples, since)
    tested = [one for block in blocks for one in block.tested]
    if len(tested) < LEAST_HELD_OUT:
        newer = " newer than what the policy in force was trained on" if since else ""
        raise TooFewLabels(f"{len(tested)} requests can be held out{newer}: {LEAST_HELD_OUT} are wanted")
    was, resamples, sizes = Outcomes.of(tested), Resamples(len(tested), seed=seed), [len(block.tested) for block in blocks]
    old, old_draws = measure(Told.of([current.judge_grams(one.grams) for one in tested], sizes), was, resamples)
    agreeing = _agreeing(samples)

    def tried(kind: str, make: Make) -> Candidate:
        judged = []
        for number, block in enumerate(blocks):
            policy = make(samples[: block.known])
            told(number + 1, len(blocks) + 1)
            judged += [policy.judge_grams(one.grams) for one in block.tested]
        figures, draws = measure(Told.of(judged, sizes), was, resamples)
        policy = make(samples)
        told(len(blocks) + 1, len(blocks) + 1)
        return Candidate(kind, figures, rule(figures, draws, old_draws, agreeing, reorders=kind == TRAINED), policy)

    def trained(part: Sequence[Sample]) -> Policy:
        return train([one.row() for one in part], base=shipped, seed=seed, read=[one.grams for one in part])

    candidates = [tried(TRAINED, trained)]
    if not candidates[0].ruling.swap:
        candidates.append(tried(RECALIBRATED, lambda part: recalibrated(shipped, part)))
    return Study(len(tested), float((was.large - was.small).mean()), old, tuple(candidates))


def _agreeing(samples: Sequence[Sample]) -> float | None:
    """The share whose answers agree, where agreement is what most labels come from."""
    seen = [one.agreed for one in samples if one.paired and one.agreed is not None]
    return sum(seen) / len(seen) if 2 * len(seen) > sum(one.paired for one in samples) else None
