"""Loads x policies x seeds. Paired: with one seed and load, every policy gets the same requests with the same outcomes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from gateway.lab.fleet.job import Job
from gateway.lab.simulate.measures import mean, quantile
from gateway.lab.tiers.labels import Labels
from gateway.lab.tiers.work import pieces_of
from gateway.lab.tiers.world import Fleet, Policy, World
from routing.load import LoadRules
from routing.sessions import Sticky

Json = dict[str, Any]
ON = LoadRules(band=0.5, idle=0.25)
POLICIES = (
    Policy("text"),
    Policy("load", ON),
    Policy("spill", ON._replace(idle=1.0)),
    Policy("borrow", ON._replace(band=0.0)),
    Policy("band 0.25", ON._replace(band=0.25)),
    Policy("band 1", ON._replace(band=1.0)),
    Policy("by chance", ON, chance=True),
    Policy("no sessions", sticky=None),
    Policy("load without sessions", ON, sticky=None),
    Policy("sessions at any cost", sticky=Sticky(3, 1 << 30)),
    Policy("all large", tier="large"),
    Policy("all small", tier="small"),
)
_FLEET = Fleet()
BY_NAME = {policy.name: policy for policy in POLICIES}


@dataclass(frozen=True, slots=True)
class Study:
    """`draw` gives a seed's jobs, `label` a seed's labels. The first policy is what the others are compared with.

    `share` of the requests may go to the large pool. Seconds: a `wait` for a slot, and a first token (`goal`), that are in time.
    """

    name: str
    draw: Callable[[int], list[Job]]
    label: Callable[[int], Labels]
    policies: Sequence[Policy]
    speeds: Sequence[float]
    seeds: Sequence[int]
    share: float = 0.3
    follow_ups: float = 0.3
    fleet: Fleet = _FLEET
    wait: float = 1.0
    goal: float = 5.0


class Result(NamedTuple):
    """Shares of all requests, but for `quality`, the mean outcome, seconds, and `large_load`, the share of the dear slots in use.

    `hard_quality` is of the requests whose large answer is good and whose small one is not as good.
    """

    quality: float
    hard_quality: float | None
    in_time: float
    good: float
    ttft_mean: float | None
    ttft_p99: float | None
    large: float
    spilled: float
    borrowed: float
    kept: float
    large_load: float


def run(study: Study, say: Callable[[str], None] = lambda _: None) -> Json:
    """The document."""
    results, requests = [], 0
    labelled = {seed: study.label(seed) for seed in study.seeds}
    drawn = {seed: study.draw(seed) for seed in study.seeds}
    for speed in study.speeds:
        runs: dict[str, list[Result]] = {policy.name: [] for policy in study.policies}
        for seed, jobs in drawn.items():
            requests = len(jobs)
            pieces = pieces_of(
                [job._replace(at=job.at / speed) for job in jobs], labelled[seed], study.follow_ups, seed
            )  # fmt: skip
            for policy in study.policies:
                say(f"{study.name}, speed {speed:g}, seed {seed}, {policy.name}")
                world = World(pieces, policy, study.fleet, study.share, labelled[seed].prior, seed)
                world.run()
                runs[policy.name].append(result_of(world, study))
        first = runs[study.policies[0].name]
        results.append({"speed": speed, "policies": [_of(policy, runs[policy.name], first) for policy in study.policies]})
    return {
        "source": study.name, "requests": requests, "seeds": list(study.seeds), "wait_s": study.wait, "goal_s": study.goal,
        "share": study.share, "follow_ups": study.follow_ups, "small": study.fleet.small, "large": study.fleet.large,
        "slots": study.fleet.slots, "dear": study.fleet.dear, "results": results,
    }  # fmt: skip


def result_of(world: World, study: Study) -> Result:
    served = [(piece, decision) for piece, decision in zip(world.pieces, world.decisions, strict=True) if decision is not None]
    count = max(1, len(served))
    outcomes = [piece.label.large if d.target.name == "large" else piece.label.small for piece, d in served]
    hard = [outcome for outcome, (piece, _) in zip(outcomes, served, strict=True) if piece.label.large > piece.label.small]
    waits = [world.begins[piece.job.number] - piece.job.at for piece, _ in served]
    ttft = [world.first[piece.job.number] - piece.job.at for piece, _ in served]
    pool = world.pools["large"]
    lasted = world.over * max(1, pool.scheduler.capacity)
    return Result(
        quality=sum(outcomes) / count,
        hard_quality=mean(hard),
        in_time=sum(wait <= study.wait for wait in waits) / count,
        good=sum(seconds <= study.goal for seconds in ttft) / count,
        ttft_mean=mean(ttft),
        ttft_p99=quantile(ttft, 0.99),
        large=sum(d.target.name == "large" for _, d in served) / count,
        spilled=sum(d.move == "spilled" for _, d in served) / count,
        borrowed=sum(d.move == "borrowed" for _, d in served) / count,
        kept=sum(d.turned == "kept" for _, d in served) / count,
        large_load=pool.busy / lasted if lasted else 0.0,
    )


def _of(policy: Policy, runs: Sequence[Result], first: Sequence[Result]) -> Json:
    """Means over the seeds; `against`: of the differences from the first policy, seed by seed, the mean and the range."""
    fields: Json = {}
    for name in Result._fields:
        own, base = ([getattr(run, name) for run in several] for several in (runs, first))
        apart = [a - b for a, b in zip(own, base, strict=True) if a is not None and b is not None]
        fields[name] = {"mean": mean(own), "against": [mean(apart), min(apart), max(apart)] if apart else None}
    return {"policy": policy.name, **fields}
