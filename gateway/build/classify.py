"""Classifiers that have to be awaited, wired: in each process that answers, and where the embedder is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from backends.client import Client, Origin
from caches.semantic.types import OwnedSemantic
from gateway.classify.examples import ByExample, Rates, RatesNothing
from gateway.classify.remote import Form, Remote
from gateway.config import Config
from gateway.config.certificates import client_context
from gateway.config.tls import BackendTls
from gateway.dispatch.types import Dispatcher
from gateway.metrics import Metrics
from routing.asked import Asked
from routing.types import Classifier

Clock = Callable[[], float]


class RunningAsked(Asked, Protocol):
    async def run(self) -> None:
        """For ever: what keeps it going. Ended, it has nothing open."""


def asked_of(config: Config, rates: Rates, instead: Classifier, metrics: Metrics, clock: Clock) -> RunningAsked | None:
    own = config.routing.classifier
    if own.kind == "embedding":
        return ByExample(rates, config.routing.tiers, own.likeness, instead=instead, metrics=metrics)
    if own.kind != "remote" or own.url is None:
        return None
    origin = Origin.parse(own.url)
    tls = own.tls or BackendTls()
    context = client_context(tls) if origin.scheme == "https" else None
    form = Form(own.field, own.model, own.score, own.max_chars)
    key = own.api_key.reveal()
    client = Client(origin, ssl_context=context, server_name=tls.server_name)
    return Remote(client, form, key, seconds=own.deadline, instead=instead, metrics=metrics, clock=clock)


def rates_of(config: Config, semantic: OwnedSemantic, dispatcher: Dispatcher, clock: Clock) -> Rates:
    """The owner's: by the semantic cache's embedder where there is one, else by one of its own as that section says."""
    own = config.routing.classifier
    if own.kind != "embedding":
        return RatesNothing()
    from caches.semantic.cache import SemanticCache  # noqa: PLC0415 - numpy and what needs it are loaded only where it is on
    from gateway.build.semantic import describe, embedder_of  # noqa: PLC0415 - as above
    from gateway.classify.nearest import Nearest  # noqa: PLC0415 - as above

    if isinstance(semantic, SemanticCache):
        return Nearest(semantic.embedder, own.examples, own.deadline, own=False)
    embedder = embedder_of(config, describe(config), dispatcher, clock)
    return Nearest(embedder, own.examples, own.deadline, own=True)
