"""What a request would cost each replica of a pool now, where its balance counts that."""

from __future__ import annotations

from collections.abc import Mapping

from backends.balance.work_cost import WorkCost
from gateway.dispatch.types import Lane, WorkAsk
from gateway.explanation import Cost, Foretold


def costs_of(lane: Lane, work: WorkAsk) -> Mapping[str, Cost]:
    """By replica, for those that may be asked. Looking touches nothing."""
    balance, replicas = lane.pool.balance, lane.pool.ready()
    if not isinstance(balance, WorkCost) or not replicas:
        return {}
    ask = lane.placing.look(work.prefix, work.session, work.prompt_tokens)
    return {
        replica.name: Cost(
            round(cost, 1),
            replica.pending + replica.others_pending,
            ask.uncached(replica.name),
            replica.inflight + replica.others_inflight,
            round(replica.speed, 2),
        )
        for replica, cost in zip(replicas, balance.costs(replicas, ask), strict=True)
    }


def foretold(lane: Lane) -> Foretold | None:
    """How far its index can be believed."""
    told = lane.placing.told
    return Foretold(told.expected, told.delivered) if told.expected or told.delivered else None
