"""Who has a share of a model for itself, and whether what is promised can be kept."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import NamedTuple

from gateway.config.checks import Report
from gateway.config.problems import Path
from gateway.config.schema import Config, Model, Plan, Reserved, Tenant


class Promise(NamedTuple):
    """What a tenant has of a model, and where that is written."""

    path: Path
    tenant: Tenant
    reserved: Reserved


def promises(config: Config, model: str) -> list[Promise]:
    """Of one model: a tenant's own words, else its plan's."""
    return [found for index, tenant in enumerate(config.tenants) if (found := _promise(config, index, tenant, model)) is not None]


def _promise(config: Config, index: int, tenant: Tenant, model: str) -> Promise | None:
    own = tenant.reserved.get(model)
    if own is not None:
        return Promise(("tenants", index, "reserved", model), tenant, own)
    plans = _plan(config, tenant).reserved.get(model)
    return None if plans is None else Promise(("plans", tenant.plan or "", "reserved", model), tenant, plans)


def check_reserved(config: Config, report: Report) -> None:
    known = [model.name for model in config.models]
    for path, reserved in _sections(config):
        for name, one in reserved.items():
            report.unknown((*path, name), "model", name, known)
            if one.slots is None and one.tpm is None and not report.told((*path, name)):
                report((*path, name), "needs slots, tpm, or both")
    for model in config.models:
        for promise in promises(config, model.name):
            _may_be_used(model, promise, report)
            _within_limits(config, model, promise, report)
        _sum(config, model, report)


def _sections(config: Config) -> Iterator[tuple[Path, dict[str, Reserved]]]:
    for name, plan in config.plans.items():
        yield ("plans", name, "reserved"), dict(plan.reserved)
    for index, tenant in enumerate(config.tenants):
        yield ("tenants", index, "reserved"), dict(tenant.reserved)


def _plan(config: Config, tenant: Tenant) -> Plan:
    return config.plans.get(tenant.plan or "", Plan())


def _may_be_used(model: Model, promise: Promise, report: Report) -> None:
    names = [model.name, *(adapter.name for adapter in model.adapters)]
    if not any(fnmatchcase(name, pattern) for name in names for pattern in promise.tenant.models) and not report.told(
        promise.path
    ):
        report(promise.path, f"tenant {report.show(promise.tenant.name)} may not call this model")


def _within_limits(config: Config, model: Model, promise: Promise, report: Report) -> None:
    """A limit below the share makes the share a promise that is never kept."""
    path, tenant, reserved = promise
    plan = _plan(config, tenant)
    limits = [limits for limits in (tenant, plan, plan.models.get(model.name)) if limits is not None]
    for key, wanted, most in (
        ("tpm", reserved.tpm, [one.tpm for one in limits]),
        ("slots", reserved.slots, [one.max_parallel for one in limits]),
    ):
        least = min((limit for limit in most if limit is not None), default=None)
        if wanted is not None and least is not None and wanted > least and not report.told((*path, key)):
            what = "tokens a minute" if key == "tpm" else "parallel requests"
            report((*path, key), f"more than the limit of {least} {what} that holds for tenant {report.show(tenant.name)}")


def _sum(config: Config, model: Model, report: Report) -> None:
    """Replicas that are discovered are not known here, so nothing is said of their model."""
    found = promises(config, model.name)
    if not found or model.discover:
        return
    have = model.concurrency.max * (1 if model.kind == "litellm" else len(model.replicas))
    needed = sum(1 if promise.reserved.slots is None else promise.reserved.slots for promise in found)
    path = found[-1].path
    if needed >= have and have and not report.told(path):
        report(path, f"{needed} slots of {report.show(model.name)} are reserved, of {have}: one must be left to all others")
