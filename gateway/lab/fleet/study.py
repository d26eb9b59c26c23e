"""Speeds x policies x seeds. Paired: with one seed and speed, every policy serves the same requests at the same times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from gateway.lab.fleet.costs import Setting
from gateway.lab.fleet.fleet import Fleet
from gateway.lab.fleet.job import Job
from gateway.lab.fleet.measures import Result, result_of
from gateway.lab.fleet.policies import Policy
from gateway.lab.simulate.measures import mean, ratio

Json = dict[str, Any]
Draw = Callable[[int], list[Job]]
_SETTING = Setting()


@dataclass(frozen=True, slots=True)
class Study:
    """`draw` gives a seed's jobs at the source's pace; `speeds` are multiples of that. Policies are compared with the first."""

    name: str
    draw: Draw
    policies: Sequence[Policy]
    speeds: Sequence[float]
    seeds: Sequence[int]
    setting: Setting = _SETTING
    goal: float = 2.0


def run(study: Study, say: Callable[[str], None] = lambda _: None) -> Json:
    """The document."""
    results, requests = [], 0
    drawn = {seed: study.draw(seed) for seed in study.seeds}
    for speed in study.speeds:
        runs: dict[str, list[Result]] = {policy.name: [] for policy in study.policies}
        for seed, jobs in drawn.items():
            requests = len(jobs)
            faster = [job._replace(at=job.at / speed) for job in jobs]
            for policy in study.policies:
                say(f"{study.name}, speed {speed:g}, seed {seed}, {policy.name}")
                fleet = Fleet(faster, policy, study.setting, seed)
                fleet.run()
                runs[policy.name].append(result_of(fleet, study.goal))
        first = runs[study.policies[0].name]
        results.append({"speed": speed, "policies": [_of(policy, runs[policy.name], first) for policy in study.policies]})
    return {"source": study.name, "requests": requests, "seeds": list(study.seeds), "goal_s": study.goal,
            "setting": asdict(study.setting), "results": results}  # fmt: skip


def _of(policy: Policy, runs: Sequence[Result], first: Sequence[Result]) -> Json:
    """Means over the seeds, and their range. `ttft_ratio`: the mean TTFT beside the first policy's, and that of single seeds."""
    fields: Json = {}
    for name in Result._fields:
        values = [getattr(run, name) for run in runs]
        known = [value for value in values if value is not None]
        fields[name] = {"mean": mean(values), "range": [min(known), max(known)] if known else None}
    pairs = [ratio(run.ttft_mean, base.ttft_mean) for run, base in zip(runs, first, strict=True)]
    own, base = mean([run.ttft_mean for run in runs]), mean([run.ttft_mean for run in first])
    known = [pair for pair in pairs if pair is not None]
    fields["ttft_ratio"] = {"mean": ratio(own, base), "range": [min(known), max(known)] if known else None}
    return {"policy": policy.name, "about": policy.about, **fields}
