"""What meets requests: the edge and the pipeline, wired to an owner of the state, wherever that is."""

from __future__ import annotations

import hashlib
import os
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from os import urandom
from pathlib import Path
from typing import cast

from backends.balance import PREFIXED
from caches.flight import Flights
from caches.pace import Pace
from caches.semantic.types import Semantic
from gateway.accounts import Accounts
from gateway.answers import Answers, models_of
from gateway.auth import Authenticator
from gateway.behind import Behind
from gateway.build.cascade import cascades_of
from gateway.build.classify import asked_of
from gateway.build.learning import Learns, Runs, following_of, learned_classifier, watching_of
from gateway.build.routing import choosing_of, default_tier, load_rules, renew, talks_of
from gateway.caching import cachings
from gateway.call import Preempt, Station
from gateway.chains import Chains
from gateway.classify.examples import Rates
from gateway.config import Config
from gateway.config.schema import Model as ModelConfig
from gateway.cors import Cors
from gateway.dispatch.types import Dispatcher
from gateway.edge import AdminCalls, Edge, Face
from gateway.entries import Entries
from gateway.feedback import Deletes
from gateway.forward import Forwarder
from gateway.heartbeat import Heartbeat, NoHeartbeat
from gateway.hits import Hits
from gateway.inner import Inner
from gateway.keys import KeyRing
from gateway.learning.watching import NothingLearned
from gateway.loads import Loads, Memory
from gateway.logs import RequestLog
from gateway.metrics import Metrics
from gateway.models import ModelList
from gateway.pipeline import Pipeline, RoutingRules
from gateway.recurring import NothingRecurs, Recurring, Tell
from gateway.refusals import PERSONAL
from gateway.salts import salts_of
from gateway.shadow import Budget, Shadows
from gateway.similar import Similar
from gateway.tokenizing import Tokens
from gateway.verify import Judge, Verifier
from routing.asked import Asked, Unknown
from routing.fixed import Fixed
from routing.resolve import Catalog
from routing.rules import Rules
from routing.types import Classifier, Model

Clock = Callable[[], float]
_SECRET_BYTES = 32
_ASKED_SECONDS = 0.3  # that a verifier of kind pool has, where the config does not say


def draw_secret(config: Config) -> bytes:
    """What cache keys, their ids and salts are made with: the config's, or one of this start's own, for all its processes.

    Where answers outlive the process in an embedded store, so does the secret, in a file beside them.
    """
    if config.cache.secret:
        return hashlib.sha256(config.cache.secret.reveal().encode()).digest()
    return kept_secret(_beside(config)) if config.secret_lasts else urandom(_SECRET_BYTES)


def known_secret(config: Config) -> bytes | None:
    """The one that the next start will have, for who only looks. None: it will draw one, or nobody here may read it."""
    if config.cache.secret:
        return draw_secret(config)
    try:
        return _read(_beside(config)) if config.secret_lasts else None
    except OSError:
        return None


def _beside(config: Config) -> Path:
    return config.cache.semantic.qdrant.path / "secret"


def _read(path: Path) -> bytes | None:
    with suppress(FileNotFoundError):
        known = path.read_bytes()
        if len(known) == _SECRET_BYTES:
            return known
    return None


def kept_secret(path: Path) -> bytes:
    """The secret in a file that only its owner reads; made at the first start. OSError where it cannot be."""
    known = _read(path)
    if known is not None:
        return known
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    made = urandom(_SECRET_BYTES)
    fresh = path.with_name(f".secret-{urandom(4).hex()}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(made)
    fresh.replace(path)
    return made


@dataclass(frozen=True, slots=True)
class Understanding:
    """A pipeline and what it needs of its process."""

    pipeline: Pipeline
    catalog: Catalog
    flights: Flights
    behind: Behind
    ring: KeyRing
    metrics: Metrics
    learning: NothingLearned
    following: Runs


def build_pipeline(
    config: Config,
    dispatcher: Dispatcher,
    semantic: Semantic,
    both: Deletes,
    tell: Tell,
    learns: Callable[[Behind], Learns],
    rates: Rates,
    loads: Loads,
    talks: Memory,
    switches: Memory,
    metrics: Metrics,
    secret: bytes,
    clock: Clock,
    wall: Clock,
) -> Understanding:
    """`talks`: where conversations are kept; `switches`: those of cascades."""
    catalog = catalog_of(config)
    ring = KeyRing(config.keys.path, [tenant.name for tenant in config.tenants])
    flights: Flights = Flights(personal=PERSONAL)
    stations = stations_of(config)
    forwarder, known = Forwarder(clock, metrics), cachings(config)
    versions = {model.name: model.version for model in config.models}
    inner = Inner(dispatcher, catalog, stations, forwarder, clock)
    behind, entries = Behind(dispatcher, clock), Entries(known, secret, clock, wall)
    shadows = _shadows(config, semantic, behind, dispatcher, inner, entries, metrics, clock)
    similar = Similar(
        semantic,
        known,
        entries,
        models=lambda job: models_of(job, versions),
        secret=secret,
        metrics=metrics,
        behind=behind,
        clock=clock,
        verify=_verifier(config, inner, clock),
        shadow=shadows,
    )
    answers = Answers(
        cachings=known,
        entries=entries,
        similar=similar,
        behind=behind,
        pace=Pace(config.cache.exact.pace or 0.0),
        flights=flights,
        hits=Hits(config.limits.hits.requests, config.limits.hits.tokens),
        stations=stations,
        versions=versions,
        secret=secret,
        metrics=metrics,
        clock=clock,
        wall=wall,
    )
    salt = salts_of(config, secret)
    classifier = classifier_of(config)
    asked = asked_of(config, rates, classifier, metrics, clock)
    learning = watching_of(config, learns(behind), behind, inner, metrics, clock, wall)
    warmed = [model.name for model in config.models if model.warm.learn]
    salted, beat = config.cache.prefix.isolate == "tenant", config.server.heartbeat
    pipeline = Pipeline(
        authenticator=Authenticator(config, ring, clock=wall),
        dispatcher=dispatcher,
        both=both,
        catalog=catalog,
        rules=routing_rules(config, classifier, asked),
        choosing=choosing_of(config, classifier, metrics),
        talks=talks_of(config, talks, secret, clock),
        loads=loads,
        answers=answers,
        stations=stations,
        forwarder=forwarder,
        metrics=metrics,
        salt=salt,
        chains=Chains(secret, salt, dispatcher.several),
        tokens=Tokens(secret, salt, dispatcher, {model.name: model.served_name for model in config.models}, metrics, clock),
        recurring=Recurring(warmed, tell, behind.spawn, clock, salted=salted) if warmed else NothingRecurs(),
        learning=learning,
        cascades=cascades_of(config, metrics, switches),
        heartbeat=Heartbeat(beat.every, early=beat.early) if beat.every is not None else NoHeartbeat(),
        clock=clock,
    )
    follows = asked or following_of(config, classifier, lambda: renew(config, classifier, pipeline))
    return Understanding(pipeline, catalog, flights, behind, ring, metrics, learning, follows)


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


def stations_of(config: Config) -> dict[str, Station]:
    return {model.name: _station(config, model) for model in config.models}


def _station(config: Config, model: ModelConfig) -> Station:
    return Station(
        name=model.name,
        timeouts=config.timeouts_of(model),
        engine_priority=model.scheduling_policy == "priority",
        preempt=cast(Preempt, config.queue.preempt.kind),
        default_max_tokens=model.default_max_tokens,
        prefixed=model.kind == "openai" and model.balance.kind in PREFIXED,
        token_timeout=None if model.balance.precise is None else model.balance.precise.timeout,
    )


def catalog_of(config: Config) -> Catalog:
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
    routes = {name: route.models for name, route in config.routing.routes.items()}
    return Catalog(models, auto=config.routing.auto, routes=routes, aliases=config.routing.aliases, adapters=adapters)


def routing_rules(config: Config, classifier: Classifier, asked: Asked | None) -> RoutingRules:
    routing = config.routing
    kind, instead = routing.classifier.kind, routing.classifier.instead
    return RoutingRules(classifier, routing.tiers, routing.fallback, load_rules(config), asked, kind, instead)


def classifier_of(config: Config) -> Classifier:
    routing = config.routing
    if routing.classifier.kind == "fixed":
        return Fixed(routing.classifier.tier or default_tier(config))
    if routing.classifier.instead == "nobody" and routing.classifier.kind in ("remote", "embedding"):
        return Unknown()
    return learned_classifier(config) if routing.classifier.kind == "learned" else Rules()


def _verifier(config: Config, inner: Inner, clock: Clock) -> Verifier | None:
    """A model that is asked. A cross-encoder is the owner's: see `build_semantic`."""
    own = config.cache.semantic.verifier
    if own is None or own.model is None:
        return None
    return Verifier(inner, own.model, own.deadline or _ASKED_SECONDS, clock, all=own.ask == "all")


def _shadows(
    config: Config,
    semantic: Semantic,
    behind: Behind,
    dispatcher: Dispatcher,
    inner: Inner,
    entries: Entries,
    metrics: Metrics,
    clock: Clock,
) -> Shadows:
    shadow = config.cache.semantic.shadow
    return Shadows(
        semantic,
        behind,
        dispatcher.store_entry,
        share=shadow.share,
        budget=Budget(shadow.per_minute / config.server.workers, clock),  # of each worker, so that it is the node's in sum
        judge=None if shadow.judge is None else Judge(inner, shadow.judge),
        entries=entries,
        metrics=metrics,
        rng=random.Random(),
    )
