"""What the caches may do for each tenant: its own section of the config, else its plan's, else what holds for all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, cast

from caches.key import identity_of_scope
from caches.policy import ExactPolicy
from caches.scope import Scope
from caches.semantic.types import SemanticPolicy
from gateway.config import Config, Tenant


@dataclass(frozen=True, slots=True)
class Caching:
    """Of one tenant. `scope` is within which it shares answers: `own`, or one that other tenants share too."""

    exact: ExactPolicy
    semantic: SemanticPolicy | None
    own: Scope
    scope: Scope
    identity: bytes = field(init=False)
    """What the keys of its answers begin with."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "identity", identity_of_scope(self.scope))


def cachings(config: Config) -> Mapping[str, Caching]:
    """By tenant; nobody in particular is the tenant without a name."""
    return {tenant.name: _caching(config, tenant) for tenant in (*config.tenants, Tenant(name=""))}


def _caching(config: Config, tenant: Tenant) -> Caching:
    own = config.cache_of(tenant)
    exact, semantic = config.cache.exact, config.cache.semantic
    policy = ExactPolicy(
        enabled=exact.enabled,
        ttl=exact.ttl if own.ttl is None else own.ttl,
        keep=cast(Literal["deterministic", "all", "none"], own.keep or exact.keep),
        max_entry=exact.max_entry,
        stale=exact.stale or 0.0,
    )
    similar = SemanticPolicy(
        preset=semantic.preset,
        max_error=semantic.max_error,
        ttl=semantic.ttl if own.ttl is None else min(semantic.ttl, own.ttl),
        max_temperature=semantic.max_temperature,
        multi_turn=semantic.multi_turn,
        skip_personal=semantic.personal == "skip",
    )
    mine = Scope(tenant.name)
    return Caching(
        policy,
        similar if config.semantic_of(tenant) else None,
        mine,
        mine if own.scope is None else Scope(own.scope, shared=True),
    )
