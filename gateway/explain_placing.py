"""What a request would cost each replica of a pool now, where its balance counts that."""

from __future__ import annotations

from collections.abc import Mapping

from backends.balance.work_cost import WorkCost
from gateway.dispatch.types import Lane
from gateway.explanation import Cost
from gateway.forward import Station
from gateway.job import Job
from gateway.pipeline import Pipeline


def costs_of(pipeline: Pipeline, lane: Lane, job: Job, station: Station, served_name: str, tokens: int) -> Mapping[str, Cost]:
    """By replica, for those that may be asked. Looking touches nothing."""
    balance, replicas = lane.pool.balance, lane.pool.ready()
    if not isinstance(balance, WorkCost) or not replicas:
        return {}
    ask = lane.placing.look(pipeline.chains.of(job, station, served_name), job.session, tokens)
    return {
        replica.name: Cost(round(cost, 1), replica.pending, ask.uncached(replica.name), replica.inflight, round(replica.speed, 2))
        for replica, cost in zip(replicas, balance.costs(replicas, ask), strict=True)
    }
