"""What of the work that goes up a tier is near its cut, for when that tier is late. Each process goes by what it has seen.

Of the cheapest tier nobody asks: nothing goes down from there.

By tenant and route: somebody who sends nothing but the hardest does not make the hard work of others look easy.
"""

from __future__ import annotations

from gateway.job import Job
from routing.load import Near
from routing.recent import Recent
from routing.types import Decision

_Of = tuple[str, str, str]


class Bands:
    def __init__(self, cheapest: str) -> None:
        self._cheapest = cheapest
        self._recent: dict[_Of, Recent] = {}  # as many as the config has tenants, routes and tiers

    def renew(self) -> None:
        """Scores mean something else from here on."""
        self._recent.clear()

    def of(self, job: Job) -> Near:
        return lambda tier, share: self._near(job.principal.tenant, job.resolution.route, tier, share)

    def tell(self, job: Job, decision: Decision) -> None:
        """Of each piece of work once."""
        if decision.score is None or not decision.wanted or decision.wanted == self._cheapest:
            return
        of = job.principal.tenant, job.resolution.route, decision.wanted
        recent = self._recent.get(of)
        if recent is None:
            recent = self._recent[of] = Recent()
        recent.add(decision.score)

    def of_tenant(self, tenant: str) -> dict[str, dict[str, list[float]]]:
        """By route and tier, the scores that were to go there, in order."""
        found: dict[str, dict[str, list[float]]] = {}
        for (owner, route, tier), recent in self._recent.items():
            if owner == tenant:
                found.setdefault(route, {})[tier] = recent.scores()
        return found

    def _near(self, tenant: str, route: str, tier: str, share: float) -> float | None:
        recent = self._recent.get((tenant, route, tier))
        return None if recent is None else recent.near(share)
