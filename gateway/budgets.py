"""Budgets of tenants as operators see them: in `/admin`, on the command line and in the metrics."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from gateway.families import Labels
from gateway.metrics import OTHER, Metrics
from limits.types import Budgeted, LastingLimiter, Scope

_log = logging.getLogger("tiergate")
Tenants = Callable[[], Iterable[tuple[str, str, tuple[Scope, ...]]]]


@dataclass(frozen=True, slots=True)
class Budget:
    """One budget: of a tenant or its plan, `day` or `month`, in tokens."""

    kind: str
    name: str
    period: str
    limit: int
    used: int
    ends_at: datetime

    @property
    def remaining(self) -> int:
        return max(0, self.limit - self.used)


def budgets_of(standings: Iterable[Budgeted]) -> Iterator[Budget]:
    for one in standings:
        scope = one.scope
        periods = (("day", scope.day, one.day_used, one.day_ends), ("month", scope.month, one.month_used, one.month_ends))
        for period, limit, used, ends in periods:
            if limit is not None:
                yield Budget(scope.kind, scope.name, period, limit, used, datetime.fromtimestamp(ends, UTC))


class BudgetDesk:
    """`tenants`: name, plan and the scopes that all keys of a tenant share."""

    def __init__(self, limiter: LastingLimiter, tenants: Tenants) -> None:
        self._limiter = limiter
        self._tenants = tenants

    async def of(self, scopes: tuple[Scope, ...]) -> list[Budget]:
        return list(budgets_of(await self._limiter.ask_budgets(scopes)))

    async def set_back(self, tenant: str) -> list[Budget] | None:
        """All of a tenant's; None: there is no such tenant. Raises LimitsAway."""
        scopes = next((scopes for name, _, scopes in self._tenants() if name == tenant), None)
        if scopes is None:
            return None
        before = await self.of(scopes)
        await self._limiter.set_back_budgets(scopes)
        told = ", ".join(f"{one.kind} {one.period} {one.used} of {one.limit}" for one in before) or "none"
        _log.info("budgets: the operator set back those of tenant %s; used before: %s", tenant, told)
        return await self.of(scopes)

    def register(self, metrics: Metrics) -> None:
        """Add the gauges."""

        def of_the_tightest(value: Callable[[Budget], int]) -> Callable[[], Iterator[tuple[Labels, float]]]:
            return lambda: ((labels, float(value(budget))) for labels, budget in self._tightest(metrics))

        metrics.gauge(
            "budget_tokens", "Tokens used of the budget with the least left.", ("tenant", "period"),
            of_the_tightest(lambda budget: budget.used),
        )  # fmt: skip
        metrics.gauge(
            "budget_limit_tokens", "That budget.", ("tenant", "period"), of_the_tightest(lambda budget: budget.limit)
        )  # fmt: skip
        metrics.gauge(
            "budgets_kept",
            "1 while what is used of budgets is written to the disk, 0 while it is in memory only; absent where there is none.",
            (),
            self._kept,
        )

    def _tightest(self, metrics: Metrics) -> Iterator[tuple[Labels, Budget]]:
        """Of each tenant that has a label of its own: of the tenant's and the plan's, for each period."""
        for name, _, scopes in self._tenants():
            found: dict[str, Budget] = {}
            for one in budgets_of(self._limiter.budgets(scopes)):
                known = found.get(one.period)
                if known is None or one.limit - one.used < known.limit - known.used:
                    found[one.period] = one
            if found and (label := metrics.tenant(name)) != OTHER:
                yield from (((label, period), budget) for period, budget in found.items())

    def _kept(self) -> Iterator[tuple[Labels, float]]:
        if self._limiter.kept:
            yield (), float(self._limiter.kept == "ok")
