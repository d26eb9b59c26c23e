"""How a replica stands, for reports: read when somebody asks."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

from backends.replica import Replica

_STALE = 10.0  # seconds after which what a server said of its own queue is not told any more


@dataclass(frozen=True, slots=True)
class ReplicaStats:
    """`held_for`: seconds for which it is still left alone; `refusals`: answers for which it was. None: not known."""

    name: str
    ready: bool
    up: bool
    draining: bool
    inflight: int
    max_inflight: int
    slots: int
    slots_reason: str
    tokens: int
    max_tokens: int | None
    breaker: str
    held_for: float
    refusals: int
    latency: float | None
    waiting: float | None


def stats_of(replica: Replica, now: float) -> ReplicaStats:
    return ReplicaStats(
        name=replica.name,
        ready=replica.ready,
        up=replica.up,
        draining=replica.draining,
        inflight=replica.inflight,
        max_inflight=replica.max_inflight,
        slots=replica.slots,
        slots_reason=replica.governor.reason,
        tokens=replica.tokens,
        max_tokens=int(replica.most_tokens) if isfinite(replica.most_tokens) else None,
        breaker=replica.breaker.state(now).value,
        held_for=round(max(0.0, replica.hold.until - now), 3),
        refusals=replica.hold.refusals,
        latency=replica.latency if isfinite(replica.latency_at) else None,
        waiting=replica.waiting if now - replica.waiting_at <= _STALE else None,
    )
