"""From the config to a wired gateway: the only place where objects of different packages meet.

Building has no side effects: no socket is opened, no task is started; `gateway.app` does that. Only the certificates that
the config names are read.
"""

from __future__ import annotations

import hashlib
import hmac
import random
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from os import urandom

import msgspec

from backends.balance import make_balance
from backends.breaker import Breaker, BreakerRules
from backends.client import Client, Origin
from backends.health import HealthMonitor
from backends.litellm.client import Deployment, LiteLLMClient
from backends.litellm.library import Library
from backends.pool import Pool
from backends.replica import Replica
from backends.warmup import WarmUp
from caches.flight import Flights
from caches.memory import MemoryStore
from caches.null import NullStore
from caches.policy import ExactPolicy
from caches.types import ExactStore
from gateway.accounts import Accounts
from gateway.admin import Admin, Application
from gateway.admin.desk import Desk
from gateway.auth import Authenticator
from gateway.config import Config
from gateway.config.certificates import client_context
from gateway.config.schema import BackendTls
from gateway.config.schema import Model as ModelConfig
from gateway.config.schema import Replica as Spec
from gateway.cors import Cors
from gateway.discovery.make import make_source, pause_of
from gateway.discovery.watch import Watch
from gateway.dispatch.local import LocalDispatcher
from gateway.dispatch.types import Lane
from gateway.edge import Edge
from gateway.fleet import Fleet, Terms
from gateway.forward import Forwarder, Station
from gateway.keyfile import KeyFile
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
    admin: Admin
    pipeline: Pipeline
    lanes: dict[str, Lane]
    fleet: Fleet
    watches: list[Watch]
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
    make, library = replica_maker(config), Library()
    lanes = {model.name: _lane(config, model, make, library, clock) for model in config.models}
    catalog = _catalog(config)
    ring = KeyRing(config.keys.path, [tenant.name for tenant in config.tenants])
    exact = _exact(config, wall)
    flights: Flights = Flights(personal=PERSONAL)
    limiter = MemoryLimiter(clock)
    metrics = Metrics()
    authenticator = Authenticator(config, ring, clock=wall)
    pipeline = Pipeline(
        authenticator=authenticator,
        dispatcher=LocalDispatcher(limiter, exact, lanes),
        catalog=catalog,
        versions={model.name: model.version for model in config.models},
        rules=_rules(config),
        policy=_policy(config),
        flights=flights,
        stations={model.name: _station(config, model) for model in config.models},
        forwarder=Forwarder(clock, metrics),
        metrics=metrics,
        secret=secret,
        salt=_salt(config, secret),
        clock=clock,
        wall=wall,
    )
    status = Status(lanes)
    status.register(metrics)
    fleet = _fleet(config, lanes, make)
    desk = Desk(config, status.report, exact, limiter, pipeline, lanes, fleet, KeyFile(config.keys.path), ring, wall)
    admin = Admin(config.admin.key.reveal(), lambda: _admin_calls(desk))
    edge = Edge(
        pipeline=pipeline,
        models=ModelList(catalog, {model.name: model.tier for model in config.models}),
        admin=admin,
        accounts=Accounts(metrics, log, clock),
        metrics=metrics,
        status=status,
        clock=clock,
        cors=Cors(config.server.cors.origins, config.server.cors.max_age) if config.server.cors.origins else None,
    )
    monitor, watches = _monitor(config, lanes, clock), _watches(config, fleet)
    return Parts(edge, admin, pipeline, lanes, fleet, watches, monitor, ring, exact, flights, limiter, metrics)


def _watches(config: Config, fleet: Fleet) -> list[Watch]:
    return [
        Watch(model.name, make_source(discover, model.tls), fleet, every=pause_of(discover))
        for model in config.models
        for discover in model.discover
    ]


def _admin_calls(desk: Desk) -> Application:
    from gateway.admin.api import application  # noqa: PLC0415 - FastAPI is loaded only where there is an admin

    return application(desk)


def replica_maker(config: Config) -> Callable[[str, Spec], Replica]:
    """How every replica is built, whoever lists it. Those with the same TLS settings share a context: it takes 10 ms to make."""
    models = {model.name: model for model in config.models}
    contexts: dict[BackendTls, ssl.SSLContext] = {}

    def make(model: str, spec: Spec) -> Replica:
        tls = spec.tls or models[model].tls or BackendTls()
        origin, context = Origin.parse(spec.url), None
        if origin.scheme == "https":
            key = replace(tls, server_name=None)
            context = contexts.get(key) or contexts.setdefault(key, client_context(key))
        return Replica(
            spec.name,
            Client(origin, ssl_context=context, server_name=tls.server_name),
            breaker=_breaker(config),
            max_inflight=models[model].concurrency.max,
            api_key=spec.api_key.reveal() or None,
        )

    return make


def _fleet(config: Config, lanes: dict[str, Lane], make: Callable[[str, Spec], Replica]) -> Fleet:
    terms = Terms(
        drain_timeout=config.fleet.drain_timeout,
        slow_start=config.fleet.slow_start or 0.0,
        warm_ups={model.name: warm_up for model in config.models if (warm_up := _warm_up(config, model)) is not None},
    )
    return Fleet(lanes, {model.name: model.replicas for model in config.models if model.kind == "openai"}, make, terms)


def _warm_up(config: Config, model: ModelConfig) -> WarmUp | None:
    """The smallest request that the engines of a model must be able to answer."""
    known: dict[str, tuple[str, dict[str, object]]] = {
        "chat": ("/chat/completions", {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}),
        "completions": ("/completions", {"prompt": "Hi", "max_tokens": 1}),
        "embeddings": ("/embeddings", {"input": "Hi"}),
    }
    rules = config.fleet.warm_up
    for endpoint, (path, body) in known.items():
        if rules.enabled and endpoint in model.endpoints:
            return WarmUp(path, msgspec.json.encode({"model": model.served_name, **body}), rules.timeout, rules.attempts)
    return None


def _station(config: Config, model: ModelConfig) -> Station:
    return Station(
        name=model.name,
        timeouts=config.timeouts_of(model),
        engine_priority=model.scheduling_policy == "priority",
        default_max_tokens=model.default_max_tokens,
    )


def _lane(config: Config, model: ModelConfig, make: Callable[[str, Spec], Replica], library: Library, clock: Clock) -> Lane:
    """One model: its replicas, its balance, the queue in front."""
    replicas = [make(model.name, replica) for replica in model.replicas]
    if model.kind == "litellm":
        replicas = [_provider(config, model, library)]
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
    return Lane(model.name, pool, scheduler)


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


def _monitor(config: Config, lanes: dict[str, Lane], clock: Clock) -> HealthMonitor:
    health = config.health
    pools = [lane.pool for lane in lanes.values()]
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
