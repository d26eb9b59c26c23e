"""What a request would find at each replica of a pool now, and cost there, where the balance asks what is cached."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from backends.balance.rendezvous import Rendezvous, point_of
from backends.balance.work_cost import WorkCost
from gateway.dispatch.types import Lane, WorkAsk
from gateway.explanation import Cost, Foretold


def costs_of(lane: Lane, work: WorkAsk) -> Mapping[str, Cost]:
    """By replica, for those that may be asked. Looking touches nothing."""
    balance, replicas = lane.pool.balance, lane.pool.ready()
    if not balance.wants_prefix or not replicas:
        return {}
    ask = lane.placing.look(work.prefix, work.session, work.prompt_tokens)
    costs: Sequence[float | None] = [None] * len(replicas)
    home = None
    if isinstance(balance, WorkCost):
        costs = balance.costs(replicas, ask)
        home = None if work.session is None else Rendezvous().home(replicas, point_of(work.session))
    return {
        replica.name: Cost(
            None if cost is None else round(cost, 1),
            replica.pending + replica.others_pending,
            ask.uncached(replica.name),
            replica.inflight + replica.others_inflight,
            round(replica.speed, 2),
            replica is home,
        )
        for replica, cost in zip(replicas, costs, strict=True)
    }


def foretold(lane: Lane) -> Foretold | None:
    """How far its index can be believed."""
    told = lane.placing.told
    return Foretold(told.expected, told.delivered) if told.expected or told.delivered else None
