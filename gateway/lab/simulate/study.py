"""Loads x policies x seeds. Paired: with one seed and load, every policy serves the same requests at the same times."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

from gateway.lab.simulate.fleet import Fleet, Speed
from gateway.lab.simulate.measures import TenantWaits, Waits, by_tenant, mean, ranked, ratio, waits_of
from gateway.lab.simulate.policies import Policy
from gateway.lab.simulate.terms import Tenants
from gateway.lab.simulate.workload import Job, Length, Pace, arrive

Json = dict[str, Any]
_SPEED = Speed()
_ALIKE = Tenants()
Draw = Callable[[random.Random], Iterator[Length]]


@dataclass(frozen=True, slots=True)
class Source:
    """Where lengths come from."""

    name: str
    draw: Draw


@dataclass(frozen=True, slots=True)
class Study:
    """What is simulated. The first policy is what the others are compared with."""

    source: Source
    policies: Sequence[Policy]
    paces: Sequence[Pace]
    seeds: Sequence[int]
    requests: int = 12_000
    slots: int = 64
    speed: Speed = _SPEED
    tenants: Tenants = _ALIKE


class _Run(NamedTuple):
    waits: Waits
    tenants: dict[str, TenantWaits]
    accuracy: float | None
    refused: float  # of all


def jobs_of(study: Study, pace: Pace, seed: int) -> list[Job]:
    rng = random.Random(f"{seed} {study.source.name}")
    lengths = list(islice(study.source.draw(rng), study.requests))
    busy = sum(study.speed.seconds(length.output) for length in lengths) / len(lengths)
    jobs = arrive(lengths, study.slots / busy, pace, random.Random(f"{seed} {pace.name}"))
    return study.tenants.multiply(jobs, random.Random(f"{seed} {pace.name} more"))


def run(study: Study, say: Callable[[str], None] = lambda _: None) -> Json:
    """The document."""
    results = []
    for pace in study.paces:
        say(f"{study.source.name}, load {pace.name}")
        runs: dict[str, list[_Run]] = {policy.name: [] for policy in study.policies}
        for seed in study.seeds:
            jobs = jobs_of(study, pace, seed)
            for policy in study.policies:
                fleet = Fleet(jobs, policy, study.slots, study.speed, study.tenants)
                fleet.run()
                runs[policy.name].append(_run_of(fleet, policy, jobs))
        first = runs[study.policies[0].name]
        results.append({"load": pace.name, "policies": [_of(policy, runs[policy.name], first) for policy in study.policies]})
    return {
        "source": study.source.name, "tenants": sorted(study.tenants.given), "requests": study.requests, "slots": study.slots,
        "seeds": list(study.seeds), "base_s": study.speed.base, "per_token_s": study.speed.per_token, "results": results,
    }  # fmt: skip


def _run_of(fleet: Fleet, policy: Policy, jobs: Sequence[Job]) -> _Run:
    served = [number for number in range(len(jobs)) if number not in fleet.refused]
    let_in, all_waits = [jobs[number] for number in served], fleet.waits
    waits = [all_waits[number] for number in served]
    lengths, predicted = [job.length.output for job in let_in], [fleet.predicted[number] for number in served]
    accuracy = None if policy.known else ranked(predicted, lengths)
    return _Run(waits_of(let_in, waits), by_tenant(jobs, all_waits), accuracy, len(fleet.refused) / len(jobs))


def _of(policy: Policy, runs: Sequence[_Run], first: Sequence[_Run]) -> Json:
    """Means over the seeds; ratios are of the means, and their range is that of the single seeds."""
    fields: Json = {}
    for name in Waits._fields:
        own, base = ([getattr(run.waits, name) for run in several] for several in (runs, first))
        pairs = [value for value in map(ratio, own, base) if value is not None]
        fields[name] = {"s": mean(own), "ratio": ratio(mean(own), mean(base)),
                        "range": [min(pairs), max(pairs)] if pairs else None}  # fmt: skip
    tenants = {tenant: [run.tenants[tenant] for run in runs if tenant in run.tenants] for tenant in runs[0].tenants}
    fields["rank_accuracy"] = mean([run.accuracy for run in runs])
    fields["refused"] = mean([run.refused for run in runs])
    return {
        "policy": policy.name,
        "about": policy.about,
        **fields,
        "tenants_mean_s": {tenant: mean([one.mean for one in several]) for tenant, several in tenants.items()},
        "tenants_p99_s": {tenant: mean([one.p99 for one in several]) for tenant, several in tenants.items()},
        "tenants_refused": {tenant: mean([one.refused for one in several]) for tenant, several in tenants.items()},
    }
