"""From the config to a wired gateway: the only place where objects of different packages meet.

Building has no side effects: no socket and no file is opened, no task is started. `gateway.app` does that.
"""

from __future__ import annotations

import hashlib
import hmac
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from os import urandom

from backends.balance import make_balance
from backends.breaker import Breaker, BreakerRules
from backends.client import Client, Origin
from backends.health import HealthMonitor
from backends.litellm.client import Deployment, LiteLLMClient
from backends.litellm.library import Library
from backends.pool import Pool
from backends.replica import Replica
from caches.flight import Flights
from caches.memory import MemoryStore
from caches.null import NullStore
from caches.policy import ExactPolicy
from caches.types import ExactStore
from gateway.accounts import Accounts
from gateway.admin import Admin
from gateway.auth import Authenticator
from gateway.config import Config
from gateway.config.schema import Model as ModelConfig
from gateway.edge import Edge
from gateway.forward import Forwarder, Station
from gateway.keys import KeyRing
from gateway.logs import RequestLog
from gateway.metrics import Metrics
from gateway.models import ModelList
from gateway.pipeline import Pipeline, RoutingRules
from gateway.refusals import PERSONAL
from gateway.status import Status
from limits.memory import MemoryLimiter
from limits.slots import Scheduler
from limits.types import QueueBounds
from routing.fixed import Fixed
from routing.resolve import Catalog
from routing.rules import Rules
from routing.types import Classifier, Model

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Parts:
    """What the process starts, watches and stops."""

    edge: Edge
    stations: dict[str, Station]
    monitor: HealthMonitor
    ring: KeyRing
    exact: ExactStore
    flights: Flights
    limiter: MemoryLimiter
    metrics: Metrics


def build(config: Config, log: RequestLog) -> Parts:
    """Wire a gateway. The config has been validated: a ValueError here is a gap in the validation."""
    clock, wall = time.monotonic, time.time
    secret = hashlib.sha256(config.cache.secret.reveal().encode()).digest() if config.cache.secret else urandom(32)
    library = Library()
    stations = {model.name: _station(config, model, library, clock) for model in config.models}
    catalog = _catalog(config)
    ring = KeyRing(config.keys.path, [tenant.name for tenant in config.tenants])
    exact = _exact(config, wall)
    flights: Flights = Flights(personal=PERSONAL)
    limiter = MemoryLimiter(clock)
    metrics = Metrics()
    pipeline = Pipeline(
        authenticator=Authenticator(config, ring, clock=wall),
        limiter=limiter,
        catalog=catalog,
        versions={model.name: model.version for model in config.models},
        rules=_rules(config),
        exact=exact,
        policy=_policy(config),
        flights=flights,
        stations=stations,
        forwarder=Forwarder(clock, metrics),
        metrics=metrics,
        secret=secret,
        salt=_salt(config, secret),
        clock=clock,
        wall=wall,
    )
    status = Status(stations)
    status.register(metrics)
    edge = Edge(
        pipeline=pipeline,
        models=ModelList(catalog, {model.name: model.tier for model in config.models}, int(wall())),
        admin=Admin(config.admin.key.reveal(), exact, status.report),
        accounts=Accounts(metrics, log, clock),
        metrics=metrics,
        status=status,
        clock=clock,
    )
    return Parts(edge, stations, _monitor(config, stations, clock), ring, exact, flights, limiter, metrics)


def _station(config: Config, model: ModelConfig, library: Library, clock: Clock) -> Station:
    """One model: its replicas, its balance, the queue in front."""
    replicas = [_provider(config, model, library)] if model.kind == "litellm" else _replicas(config, model)
    pool = Pool(model.name, replicas, make_balance(model.balance.kind, clock=clock), clock=clock)
    queue = config.queue
    bounds = QueueBounds(
        max_requests=queue.max_requests,
        max_bytes=queue.max_bytes,
        max_tokens=queue.max_tokens,
        max_wait=(queue.max_wait.realtime, queue.max_wait.standard, queue.max_wait.batch),
        weights=(queue.weights.realtime, queue.weights.standard, queue.weights.batch),
    )
    scheduler = Scheduler(bounds, pool.capacity(), clock)
    pool.on_capacity(scheduler.set_capacity)
    return Station(
        name=model.name,
        pool=pool,
        scheduler=scheduler,
        timeouts=config.timeouts_of(model),
        engine_priority=model.scheduling_policy == "priority",
        default_max_tokens=model.default_max_tokens,
    )


def _replicas(config: Config, model: ModelConfig) -> list[Replica]:
    return [
        Replica(
            replica.name,
            Client(Origin.parse(replica.url)),
            breaker=_breaker(config),
            max_inflight=model.concurrency.max,
            api_key=replica.api_key.reveal() or None,
        )
        for replica in model.replicas
    ]


def _provider(config: Config, model: ModelConfig, library: Library) -> Replica:
    """The one replica of kind litellm: named after the kind, since a provider is not ours to name."""
    own, times = model.litellm, config.timeouts_of(model)
    if own is None:
        raise ValueError("kind litellm without its section")
    deployment = Deployment(
        model=own.model,
        connect=times.connect,
        total=times.total,
        api_key=own.api_key.reveal(),
        api_base=own.api_base,
        drop_params=own.drop_params,
        params={name: value.reveal() for name, value in own.params.items()},
    )
    client = LiteLLMClient(deployment, library)
    return Replica("litellm", client, breaker=_breaker(config), max_inflight=model.concurrency.max)


def _breaker(config: Config) -> Breaker:
    breaker = config.breaker
    rules = BreakerRules(failures=breaker.failures, open_seconds=breaker.open, max_open_seconds=breaker.max_open)
    return Breaker(random.Random(), rules)


def _monitor(config: Config, stations: dict[str, Station], clock: Clock) -> HealthMonitor:
    health = config.health
    pools = [station.pool for station in stations.values()]
    return HealthMonitor(pools, interval=health.interval, timeout=health.timeout, fall=health.fall, rise=health.rise, clock=clock)


def _catalog(config: Config) -> Catalog:
    models = [
        Model(
            name=model.name,
            tier=model.tier,
            served_name=model.served_name,
            context=model.context,
            capabilities=None if model.capabilities is None else frozenset(model.capabilities),
            endpoints=frozenset(model.endpoints),
            fallback=model.fallback,
        )
        for model in config.models
    ]
    adapters = {adapter.name: (model.name, adapter.served_name) for model in config.models for adapter in model.adapters}
    return Catalog(models, auto=config.routing.auto, aliases=config.routing.aliases, adapters=adapters)


def _rules(config: Config) -> RoutingRules:
    routing = config.routing
    default_tier = routing.classifier.default_tier or routing.tiers[-1]
    classifier: Classifier = Rules()
    if routing.classifier.kind == "fixed":
        classifier = Fixed(routing.classifier.tier or default_tier)
    return RoutingRules(classifier, default_tier, routing.classifier.threshold, routing.tiers, routing.fallback)


def _exact(config: Config, wall: Clock) -> ExactStore:
    exact = config.cache.exact
    return MemoryStore(exact.max_bytes, wall, max_entry=exact.max_entry) if exact.enabled else NullStore()


def _policy(config: Config) -> ExactPolicy:
    exact = config.cache.exact
    return ExactPolicy(
        enabled=exact.enabled,
        ttl=exact.ttl,
        keep="all" if exact.keep == "all" else "deterministic",
        max_entry=exact.max_entry,
    )


def _salt(config: Config, secret: bytes) -> Callable[[str], str | None]:
    """The engines' prefix-cache salt of a tenant: not to be guessed, and the same for all its requests."""
    if config.cache.prefix.isolate == "none":
        return lambda _tenant: None
    salts = {tenant.name: hmac.digest(secret, tenant.name.encode(), "sha256").hex()[:32] for tenant in config.tenants}
    return salts.get
