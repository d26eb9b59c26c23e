"""A burst is one of the limits beside it, and nothing inherits it."""

from __future__ import annotations

from collections.abc import Iterator

from gateway.config.checks import Report
from gateway.config.problems import Path
from gateway.config.schema import Config, ModelLimits, Plan, Tenant, TenantKey
from limits.types import BURST


def check_bursts(config: Config, report: Report) -> None:
    for path, limits in _limits(config):
        place = (*path, "burst")
        if limits.burst != BURST and limits.rpm is limits.tpm is None and not report.told(path):
            report(place, "says how much of rpm and tpm may be spent at once, and neither is beside it")


def _limits(config: Config) -> Iterator[tuple[Path, Plan | ModelLimits | Tenant | TenantKey]]:
    for name, plan in config.plans.items():
        yield ("plans", name), plan
        for model, limits in plan.models.items():
            yield ("plans", name, "models", model), limits
    for index, tenant in enumerate(config.tenants):
        yield ("tenants", index), tenant
        for number, each in enumerate(tenant.keys):
            yield ("tenants", index, "keys", number), each
