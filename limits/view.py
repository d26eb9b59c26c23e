"""What waits in front of a pool, as an operator looks at it: by class, and by tenant. Looking changes nothing of the order."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass

from limits.slots import Scheduler
from limits.waiting import Priority, ReservedStanding, SlotAsk

MOST_TENANTS = 20


@dataclass(frozen=True, slots=True)
class TenantView:
    """One tenant in one class. `served`: tokens by weight beyond those of who is next, so the least is served first."""

    tenant: str
    waiting: int
    running: int
    served: float


@dataclass(frozen=True, slots=True)
class ClassView:
    """`expected_wait`: seconds until all that waits in the class now has a slot; None: not known yet. `tenants`: those that have
    most waiting, then most running.
    """

    waiting: int
    expected_wait: float | None
    tenants: tuple[TenantView, ...]


@dataclass(frozen=True, slots=True)
class PlaceView:
    """Where a request would stand that asked now: what of its tenant waits and runs in its class, what that was served beyond the
    least of those that wait, its reserved share if it has one. `expected_wait` in seconds, None: not known yet; `max_wait`: as
    long as it may wait.
    """

    capacity: int
    inflight: int
    depth: Mapping[str, int]
    waiting: int
    running: int
    served: float
    expected_wait: float | None
    max_wait: float
    refused: bool
    reserved: ReservedStanding | None


def classes(scheduler: Scheduler, most: int = MOST_TENANTS) -> dict[str, ClassView]:
    return {priority.name.lower(): _class(scheduler, priority, most) for priority in Priority}


def place(scheduler: Scheduler, ask: SlotAsk) -> PlaceView:
    line = scheduler.queue.outlook.lines[ask.priority]
    account = line.account_of(ask.tenant)
    if ask.form:
        ask.output = scheduler.predictor.predict(ask)
    most = scheduler.max_wait(ask)
    return PlaceView(
        capacity=scheduler.capacity,
        inflight=scheduler.inflight,
        depth={priority.name.lower(): scheduler.depth(priority) for priority in Priority},
        waiting=line.waiting_of(ask.tenant),
        running=0 if account is None else account.running,
        served=0.0 if account is None else max(0.0, account.counter - line.least),
        expected_wait=scheduler.expected(ask),
        max_wait=most,
        refused=scheduler.refusal(ask) is not None,
        reserved=next((share for share in scheduler.reserved() if share.tenant == ask.tenant), None),
    )


def _class(scheduler: Scheduler, priority: Priority, most: int) -> ClassView:
    line = scheduler.queue.outlook.lines[priority]
    least = line.least
    chosen = heapq.nlargest(most, line.accounts(), key=lambda it: (it[1], it[2].running))
    tenants = [TenantView(name, waiting, account.running, max(0.0, account.counter - least)) for name, waiting, account in chosen]
    return ClassView(scheduler.depth(priority), scheduler.line_wait(priority), tuple(tenants))
