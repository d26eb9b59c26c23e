"""Which tiers are compared where the router learns from its own traffic."""

from __future__ import annotations

from gateway.config.schema import Config


def routed(config: Config) -> list[frozenset[str]]:
    """The tiers that each name which means `auto` may choose from."""
    routing = config.routing
    names = dict.fromkeys([routing.auto, *routing.routes])
    allowed = (None if name not in routing.routes else routing.routes[name].models for name in names)
    return [frozenset(model.tier for model in config.models if models is None or model.name in models) for models in allowed]


def ends(config: Config) -> tuple[str, str] | None:
    """The cheapest and the dearest tier of all that requests may be sent to by choice; None: there are no two.

    A tier that no route has, as that of a judge may be, is none of them.
    """
    chosen = frozenset().union(*routed(config))
    tiers = [tier for tier in config.routing.tiers if tier in chosen]
    return (tiers[0], tiers[-1]) if len(tiers) > 1 else None


def comparable(config: Config) -> bool:
    """Whether any request may be sent to either end."""
    both = ends(config)
    return both is not None and any(tiers.issuperset(both) for tiers in routed(config))
