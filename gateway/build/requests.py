"""What meets requests: the edge and the pipeline, wired to an owner of the state, wherever that is."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from dataclasses import dataclass
from os import urandom

from caches.flight import Flights
from caches.policy import ExactPolicy
from gateway.accounts import Accounts
from gateway.answers import Answers
from gateway.auth import Authenticator
from gateway.config import Config
from gateway.config.schema import Model as ModelConfig
from gateway.cors import Cors
from gateway.dispatch.types import Dispatcher
from gateway.edge import AdminCalls, Edge, Face
from gateway.forward import Forwarder, Station
from gateway.keys import KeyRing
from gateway.logs import RequestLog
from gateway.metrics import Metrics
from gateway.models import ModelList
from gateway.pipeline import Pipeline, RoutingRules
from gateway.refusals import PERSONAL
from routing.fixed import Fixed
from routing.resolve import Catalog
from routing.rules import Rules
from routing.types import Classifier, Model

Clock = Callable[[], float]


def draw_secret(config: Config) -> bytes:
    """What cache keys, their ids and salts are made with: the config's, or one of this start's own, for all its processes."""
    return hashlib.sha256(config.cache.secret.reveal().encode()).digest() if config.cache.secret else urandom(32)


@dataclass(frozen=True, slots=True)
class Understanding:
    """A pipeline and what it needs of its process."""

    pipeline: Pipeline
    catalog: Catalog
    flights: Flights
    ring: KeyRing
    metrics: Metrics


def build_pipeline(
    config: Config, dispatcher: Dispatcher, metrics: Metrics, secret: bytes, clock: Clock, wall: Clock
) -> Understanding:
    catalog = _catalog(config)
    ring = KeyRing(config.keys.path, [tenant.name for tenant in config.tenants])
    flights: Flights = Flights(personal=PERSONAL)
    stations = {model.name: _station(config, model) for model in config.models}
    answers = Answers(
        policy=_policy(config),
        flights=flights,
        stations=stations,
        versions={model.name: model.version for model in config.models},
        secret=secret,
        metrics=metrics,
        clock=clock,
        wall=wall,
    )
    pipeline = Pipeline(
        authenticator=Authenticator(config, ring, clock=wall),
        dispatcher=dispatcher,
        catalog=catalog,
        rules=_rules(config),
        answers=answers,
        stations=stations,
        forwarder=Forwarder(clock, metrics),
        metrics=metrics,
        salt=_salt(config, secret),
        clock=clock,
    )
    return Understanding(pipeline, catalog, flights, ring, metrics)


def build_edge(config: Config, own: Understanding, admin: AdminCalls, face: Face, log: RequestLog, clock: Clock) -> Edge:
    cors = config.server.cors
    return Edge(
        pipeline=own.pipeline,
        models=ModelList(own.catalog, {model.name: model.tier for model in config.models}),
        admin=admin,
        accounts=Accounts(own.metrics, log, clock),
        face=face,
        clock=clock,
        cors=Cors(cors.origins, cors.max_age) if cors.origins else None,
    )


def _station(config: Config, model: ModelConfig) -> Station:
    return Station(
        name=model.name,
        timeouts=config.timeouts_of(model),
        engine_priority=model.scheduling_policy == "priority",
        default_max_tokens=model.default_max_tokens,
    )


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
