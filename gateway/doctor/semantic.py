"""Checks of what the config says of the semantic cache: settings that keep it from ever answering, or from learning.

Nobody is asked: what is judged here is the config beside itself.
"""

from __future__ import annotations

from collections import Counter

from gateway.config import Config, Tenant
from gateway.config.problems import Path
from gateway.doctor.findings import Finding, listed, ok, warn

_WHERE: Path = ("cache", "semantic")


def policy(config: Config) -> list[Finding]:
    """Empty where nobody could have it, and nothing says that somebody should."""
    users = [tenant for tenant in config.tenants if config.semantic_of(tenant)]
    found = _idle_plans(config)
    if not users:
        return found
    found += [*_who(config, users), *_kept(config, users), *_learning(config), *_shared(config, users)]
    return found


def _who(config: Config, users: list[Tenant]) -> list[Finding]:
    """Said where it is on for some only: a section that says `enabled: false` reads as if it were off."""
    if len(users) == len(config.tenants):
        return []
    names, off = listed([tenant.name for tenant in users]), "" if config.cache.semantic.enabled else ", though it is off here"
    return [ok((*_WHERE, "enabled"), f"questions that mean the same are answered for {names} only{off}")]


def _idle_plans(config: Config) -> list[Finding]:
    used = {tenant.plan for tenant in config.tenants}
    return [
        warn(("plans", name, "cache", "semantic"), "it is on in a plan that no tenant has", "Give the plan to a tenant.")
        for name, plan in config.plans.items()
        if plan.cache.semantic and name not in used
    ]


def _kept(config: Config, users: list[Tenant]) -> list[Finding]:
    """A question that the exact cache may not keep has no part in the semantic one either."""
    keeps: dict[str, list[str]] = {}
    for tenant in users:
        keeps.setdefault(config.cache_of(tenant).keep or config.cache.exact.keep, []).append(tenant.name)
    found = []
    where: Path = ("cache", "exact", "keep")
    if names := keeps.get("none"):
        what = f"{listed(names)} keep no answers (keep: none), so questions that mean the same find none"
        found.append(warn(where, what, "Write keep: all, or turn the semantic cache off for them."))
    if names := keeps.get("deterministic"):
        what = f"of {listed(names)} only requests with temperature 0 or a seed have a part in it (keep: deterministic)"
        found.append(warn(where, what, "Write `cache: {keep: all}` for them, unless their clients send one of the two."))
    return found


def _learning(config: Config) -> list[Finding]:
    """A bound rests on labels, and labels come from shadow verification alone: a verifier decides, it does not teach."""
    semantic = config.cache.semantic
    shadow = semantic.shadow
    if semantic.max_error is None or (shadow.share > 0 and shadow.per_minute > 0):
        return []
    off = "share" if shadow.share == 0 else "per_minute"
    what = f"max_error is never reached for: nothing is verified (shadow.{off} is 0), so the preset decides for ever"
    return [warn((*_WHERE, "max_error"), what, f"Set cache.semantic.shadow.{off} above 0.")]


def _shared(config: Config, users: list[Tenant]) -> list[Finding]:
    askers = config.cache.semantic.askers
    scopes = Counter(scope for tenant in users if (scope := config.cache_of(tenant).scope) is not None)
    few = [scope for scope, tenants in scopes.items() if tenants < askers]
    if not few:
        return []
    what = f"{askers} tenants must have asked before an answer is shared, and fewer share the scope {listed(few)}"
    return [warn((*_WHERE, "askers"), what, "Set askers to the number of tenants that share, or less.")]
