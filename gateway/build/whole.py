"""One process that does everything."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from backends.health import HealthMonitor
from caches.flight import Flights
from caches.semantic.types import OwnedSemantic
from caches.types import ExactStore
from gateway.admin import Admin, Application, Loaded
from gateway.admin.desk import Desk
from gateway.behind import Behind
from gateway.between.share import Share
from gateway.budgets import BudgetDesk
from gateway.build.learning import Keeps, Learns, Runs
from gateway.build.owner import Ears, Owner, build_owner
from gateway.build.requests import Understanding, build_edge, build_pipeline, draw_secret
from gateway.config import Config
from gateway.discovery.watch import Watch
from gateway.dispatch import precise
from gateway.dispatch.types import Lane
from gateway.edge import Edge
from gateway.fleet import Fleet
from gateway.keyfile import KeyFile
from gateway.keys import KeyRing
from gateway.loads import LocalLoads
from gateway.logs import RequestLog
from gateway.metrics import Metrics
from gateway.pipeline import Pipeline
from gateway.status import Status
from gateway.tally import register
from limits.types import LastingLimiter
from routing import cascade, table


@dataclass(frozen=True, slots=True)
class Parts:
    """What the process starts, watches and stops."""

    edge: Edge
    admin: Admin
    pipeline: Pipeline
    lanes: dict[str, Lane]
    fleet: Fleet
    watches: list[Watch]
    monitor: HealthMonitor
    ring: KeyRing
    exact: ExactStore
    semantic: OwnedSemantic
    flights: Flights
    behind: Behind
    limiter: LastingLimiter
    metrics: Metrics
    ears: Ears
    share: Share
    journal: Keeps
    schedule: Runs
    following: Runs


def build(config: Config, log: RequestLog, secret: bytes | None = None) -> Parts:
    """Wire a gateway. The config has been validated: a ValueError here is a gap in the validation.

    `secret`: of cache keys; else the config's, the one that is kept beside the answers, or one that is made and kept there.
    """
    clock, wall = time.monotonic, time.time
    secret, metrics = secret or draw_secret(config), Metrics()
    owner = build_owner(config, clock, wall, secret)
    own = build_pipeline(
        config, owner.local, owner.semantic, owner.both, owner.warmings.hear,
        lambda _: Learns(owner.journal.note), owner.rates, LocalLoads(owner.lanes), bytearray(table.SIZE),
        bytearray(cascade.SIZE), metrics, secret, clock, wall,
    )  # fmt: skip
    status = Status(owner.lanes, owner.exact, owner.semantic, owner.limiter, owner.share)
    status.register(metrics)
    precise.register(metrics, owner.ears.placings)
    register(metrics, workers=lambda: 1, restarts=lambda: {"dispatcher": 0, "worker": 0})
    admin = Admin(config.admin.key.reveal(), build_calls(config, owner, own, status, refreshing(own.ring)))
    edge = build_edge(config, own, admin, LocalFace(status, metrics), log, clock)
    return Parts(
        edge, admin, own.pipeline, owner.lanes, owner.fleet, owner.watches, owner.monitor, own.ring, owner.exact,
        owner.semantic, own.flights, own.behind, owner.limiter, metrics, owner.ears, owner.share,
        owner.journal, owner.schedule, own.following,
    )  # fmt: skip


def build_calls(
    config: Config, owner: Owner, own: Understanding, status: Status, keys_changed: Callable[[], Awaitable[object]]
) -> Loaded:
    """The admin calls, where the state is."""
    budgets = BudgetDesk(owner.limiter, own.pipeline.authenticator.tenants)
    budgets.register(own.metrics)
    desk = Desk(
        config, status.report, status.queues, owner.exact, owner.semantic, owner.both, owner.limiter, budgets, own.pipeline,
        owner.lanes, owner.fleet, KeyFile(config.keys.path), keys_changed, time.time,
    )  # fmt: skip
    return Loaded(lambda: _admin_calls(desk))


def refreshing(ring: KeyRing) -> Callable[[], Awaitable[object]]:
    async def refresh() -> None:
        ring.refresh()

    return refresh


class LocalFace:
    """What a process that is alone says of itself."""

    def __init__(self, status: Status, metrics: Metrics) -> None:
        self._status = status
        self._metrics = metrics

    async def ready(self) -> dict[str, object]:
        return self._status.ready()

    async def page(self) -> bytes:
        return self._metrics.exposition()


def _admin_calls(desk: Desk) -> Application:
    from gateway.admin.api import application  # noqa: PLC0415 - FastAPI is loaded only where there is an admin

    return application(desk)
