"""What chooses between tiers, as the config says it."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable

from gateway.choosing import Choosing
from gateway.config import Config
from gateway.config.routing import Target
from gateway.loads import Memory
from gateway.metrics import Metrics
from gateway.pipeline import Pipeline
from gateway.talks import NoTalks, Talks
from routing.aims import Aim
from routing.cuts import Begin, Cuts
from routing.learned.classifier import Learned
from routing.load import LoadRules
from routing.sessions import Sticky
from routing.table import Table
from routing.types import Classifier


def default_tier(config: Config) -> str:
    """Where requests go that nobody can rate."""
    return config.routing.classifier.default_tier or config.routing.tiers[-1]


def choosing_of(config: Config, classifier: Classifier, metrics: Metrics) -> Choosing:
    threshold = threshold_of(config, classifier)
    routes, tenants = route_aims(config, threshold), tenant_aims(config)
    return Choosing(
        Cuts(routes, tenants, begin_of(config, classifier, threshold), workers=config.server.workers),
        auto=config.routing.auto,
        routes=routes,
        tenants=tenants,
        order=config.routing.tiers,
        default_tier=default_tier(config),
        scored=config.routing.classifier.kind != "fixed",
        metrics=metrics,
    )


def renew(config: Config, classifier: Classifier, pipeline: Pipeline) -> None:
    """The classifier has another policy: what was made of the scores of the one before is made of this one's prior."""
    threshold = threshold_of(config, classifier)
    pipeline.choosing.renew(route_aims(config, threshold), begin_of(config, classifier, threshold))
    pipeline.bands.renew()


def threshold_of(config: Config, classifier: Classifier) -> float:
    """Of nearly all asks a policy says that the dearest tier gains something: there the middle of the scale parts nothing."""
    own = config.routing.classifier.threshold
    if own is not None:
        return own
    return classifier.middle if isinstance(classifier, Learned) else 0.5


def route_aims(config: Config, threshold: float) -> dict[str, Aim]:
    """The aim of each route, of `auto` under the empty name."""
    routing = config.routing
    usual = Aim("threshold", threshold)
    aims = {"": usual}
    for name, route in routing.routes.items():
        aims["" if name == routing.auto else name] = usual if route.target is None else aim_of(route.target)
    return aims


def tenant_aims(config: Config) -> dict[str, Aim]:
    """Of the tenants that have one of their own, or by their plan."""
    aims = {}
    for tenant in config.tenants:
        plan = config.plans.get(tenant.plan or "")
        target = tenant.target or (None if plan is None else plan.target)
        if target is not None:
            aims[tenant.name] = aim_of(target)
    return aims


def begin_of(config: Config, classifier: Classifier, threshold: float) -> Begin:
    """What was learned was tried on held-out requests. Rules have nothing of that kind: even scores, so that a share is at first
    the upper end of the scale.
    """
    unrated = None if default_tier(config) == config.routing.tiers[0] else math.nextafter(threshold, -math.inf)
    if not isinstance(classifier, Learned):
        return Begin(unrated)
    return Begin(unrated, classifier.policy.chances, classifier.policy.scores)


def aim_of(target: Target) -> Aim:
    if target.large is not None:
        return Aim("large", target.large)
    if target.quality is not None:
        return Aim("quality", target.quality)
    assert target.threshold is not None, "a target of nothing is an error of the config"
    return Aim("threshold", target.threshold)


def load_rules(config: Config) -> LoadRules:
    own = config.routing.load
    return LoadRules(own.band, own.idle, own.wait, own.waits)


def talks_of(config: Config, memory: Memory, secret: bytes, clock: Callable[[], float]) -> NoTalks:
    """`memory`: where conversations are kept."""
    own, tiers = config.routing.sessions, config.routing.tiers
    if not own.enabled or len({model.tier for model in config.models}) < 2:
        return NoTalks()
    table = Table(memory, frozenset((*tiers, *(model.name for model in config.models))))
    key = hashlib.sha256(b"conversations" + secret).digest()
    return Talks(table, key, Sticky(own.easy_turns, own.move_tokens, own.loop_turns), own.warm, tiers, clock)
