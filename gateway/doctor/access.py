"""Checks of who may call what: names that mean nothing, and doors that nobody can open."""

from __future__ import annotations

import fnmatch
from collections.abc import Collection, Iterable, Sequence

from gateway.config import Config, Tenant
from gateway.config.problems import Path, quote
from gateway.doctor.findings import Finding, ok, warn
from gateway.keyfile import KeyRecord


def patterns(config: Config) -> list[Finding]:
    """Lists of models, each entry of which should name something that can be called.

    Permission is asked for models and adapters: `auto`, routes and aliases grant nothing.
    """
    names = [name for model in config.models for name in (model.name, *(adapter.name for adapter in model.adapters))]
    findings = []
    for path, pattern in _entries(config.tenants):
        if pattern and not any(fnmatch.fnmatchcase(name, pattern) for name in names):
            alias = pattern == config.routing.auto or pattern in config.routing.aliases or pattern in config.routing.routes
            why = "an alias or a route, which grants nothing by itself" if alias else "no model or adapter has such a name"
            findings.append(warn(path, f"{quote(pattern)} matches nothing: {why}", "Name a model, or a pattern over models."))
    return findings


def _entries(tenants: Iterable[Tenant]) -> Iterable[tuple[Path, str]]:
    for index, tenant in enumerate(tenants):
        for number, name in enumerate(tenant.models):
            yield ("tenants", index, "models", number), name
        for number, key in enumerate(tenant.keys):
            for at, name in enumerate(key.models or ()):
                yield ("tenants", index, "keys", number, "models", at), name


def plans(config: Config) -> list[Finding]:
    """Plans that no tenant has."""
    used = {tenant.plan for tenant in config.tenants}
    return [
        warn(("plans", name), "no tenant has this plan", "Give it to a tenant, or delete it.")
        for name in config.plans
        if name not in used
    ]


def callers(config: Config, records: Sequence[KeyRecord], now: float) -> list[Finding]:
    """Tenants that have no key which works now, in the config or in the key file."""
    if not config.tenants:
        return [warn(("tenants",), "there is no tenant, so nobody can call", "Add one, and make it a key.")]
    alive = {record.tenant for record in records if record.status(now) == "active"}
    return [
        warn(
            ("tenants", index),
            f"tenant {tenant.name} has no key that works",
            f"Run `tiergate keys create --tenant {tenant.name}`.",
        )
        for index, tenant in enumerate(config.tenants)
        if tenant.name and tenant.name not in alive and not _fixed(tenant, now)
    ]


def _fixed(tenant: Tenant, now: float) -> bool:
    return any(key.expires is None or key.expires > now for key in tenant.keys)


def strangers(config: Config, records: Collection[KeyRecord]) -> list[Finding]:
    """Keys of tenants that the config does not know: of no use."""
    known = {tenant.name for tenant in config.tenants}
    lost = sorted({record.tenant for record in records} - known)
    if not lost:
        return []
    names = ", ".join(quote(name) for name in lost[:8])
    return [warn(("keys", "path"), f"the key file has keys of unknown tenants: {names}", "Add the tenants, or revoke the keys.")]


def admin(config: Config) -> list[Finding]:
    """Whether `/admin` answers."""
    if config.admin.key:
        return []
    return [ok(("admin", "key"), "empty: /admin and `tiergate cache` are off", "Set a key to have them.")]
