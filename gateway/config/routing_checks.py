"""What routes and targets cannot say alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gateway.config.checks import Report
from gateway.config.problems import Path
from gateway.config.routing import Target
from gateway.config.schema import Config

_UNSCORED = frozenset({"fixed"})
"""Kinds of classifier that make no score."""
_TELLS_CHANCES = frozenset({"learned"})
"""Kinds that tell how likely each end of the tiers is good enough."""
_MOST_EXAMPLES = 1000
_AIMS = ("large", "quality", "threshold")


def check_routes(config: Config, report: Report) -> None:
    """Models of routes; targets of routes, plans and tenants."""
    names = [model.name for model in config.models]
    for name, route in config.routing.routes.items():
        here: Path = ("routing", "routes", name, "models")
        if route.models == ():
            report(here, "must not be empty: leave it out for all models")
        for index, model in enumerate(route.models or ()):
            report.unknown((*here, index), "model", model, names)
        report.twice(
            (((*here, index), model) for index, model in enumerate(route.models or ())), lambda known: f"the model {known}"
        )
        tiers = {model.tier for model in config.models if not route.models or model.name in route.models}
        if route.target is not None and len(tiers) == 1:
            report(("routing", "routes", name, "target"), "its models are all of one tier, so there is nothing to choose")
        if route.cascade is not None and len(tiers) == 1:
            report(("routing", "routes", name, "cascade"), "its models are all of one tier, so there is nobody to ask first")
        elif route.cascade is not None and route.cascade.check == "models":
            _cascade_of_two(config, name, route.models, report)
    _classifier(config, report)
    _policy(config, report)
    for where, target in _targets(config):
        _target(config, where, target, report)


def _cascade_of_two(config: Config, name: str, models: Sequence[str] | None, report: Report) -> None:
    order = [*config.routing.tiers, *dict.fromkeys(model.tier for model in config.models)]
    tiers = [model.tier for model in config.models if models is None or model.name in models]
    cheapest = min(tiers, key=order.index, default="")
    if tiers.count(cheapest) < 2:
        report(("routing", "routes", name, "cascade", "check"), f"needs two models of the tier {report.show(cheapest)}")


def _classifier(config: Config, report: Report) -> None:
    """What a kind needs, and what belongs to another one."""
    own, here = config.routing.classifier, ("routing", "classifier")
    tiers = list(dict.fromkeys(model.tier for model in config.models))
    if own.kind == "remote" and own.url is None and not report.told((*here, "url")):
        report((*here, "kind"), "classifier kind remote needs a url")
    if own.kind != "remote" and own.url is not None:
        report((*here, "url"), f"classifier kind {own.kind} has no url")
    if own.kind != "remote" and own.tls is not None:
        report((*here, "tls"), f"classifier kind {own.kind} has no tls")
    if own.kind != "embedding" and own.examples:
        report((*here, "examples"), f"classifier kind {own.kind} has no examples")
    if own.kind == "embedding" and sum(map(bool, own.examples.values())) < 2:
        report((*here, "kind"), "classifier kind embedding needs examples of two tiers")
    if sum(map(len, own.examples.values())) > _MOST_EXAMPLES:
        report((*here, "examples"), f"at most {_MOST_EXAMPLES} in all")
    for tier in own.examples:
        report.unknown((*here, "examples", tier), "tier", tier, tiers)


def _policy(config: Config, report: Report) -> None:
    classifier = config.routing.classifier
    here: Path = ("routing", "classifier", "policy")
    if classifier.policy is None:
        return
    if classifier.kind != "learned":
        report(here, f"is for classifier kind learned, not {classifier.kind}")
        return
    from routing.learned.policy import Policy  # noqa: PLC0415 - loaded only where it is used

    try:
        Policy.load(classifier.policy)
    except OSError as error:
        report(here, f"cannot be read: {error.strerror}")
    except ValueError as error:
        report(here, str(error))


def _targets(config: Config) -> Iterator[tuple[Path, Target]]:
    for name, route in config.routing.routes.items():
        if route.target is not None:
            yield ("routing", "routes", name, "target"), route.target
    for name, plan in config.plans.items():
        if plan.target is not None:
            yield ("plans", name, "target"), plan.target
    for index, tenant in enumerate(config.tenants):
        if tenant.target is not None:
            yield ("tenants", index, "target"), tenant.target


def _target(config: Config, here: Path, target: Target, report: Report) -> None:
    kind = config.routing.classifier.kind
    given = [name for name in _AIMS if getattr(target, name) is not None]
    if len(given) != 1 and not report.told(here):
        report(here, f"needs one of {', '.join(_AIMS)}, and only one")
    elif kind in _UNSCORED:
        report(here, f"classifier kind {kind} makes no score, so there is nothing to cut")
    elif "quality" in given and kind not in _TELLS_CHANCES:
        report(
            (*here, "quality"),
            f"needs classifier kind {' or '.join(sorted(_TELLS_CHANCES))}: {kind} does not tell how likely a tier is good enough",
        )
