"""Where the line between the tiers is for a request, and what is made of where it went.

`ask` is pure but for what it says of the job, so who only wants to know (`gateway.explain`) may. A decision is in the account
from when it is made (`expect`): with several processes that is a while before a model is asked, and a long while when a slot is
waited for. `tell` is for requests that a model is asked for, once for each; what a cache answers, or joins another's work, or is
refused, is taken out again (`forgo`).

What counts: every request of `auto` or another route whose key may call models of more than one tier, wherever it went and for
whatever reason, but for those whose client named the tier: that is no choice of the router's, as with a model's own name.
What the load of the pools moved counts as what its score asked for: else a tier that is late would be sent more work to make up
for what it lost, and what it lent while it was idle would be missing afterwards.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from zlib import crc32

from gateway.exchange import Work
from gateway.explanation import RouteTarget
from gateway.families import Labels
from gateway.job import Job
from gateway.metrics import Metrics
from gateway.sight import Line, Sight, line_of
from routing.aims import Aim, Cut, Scope, Told
from routing.cuts import Begin, Cuts
from routing.decide import tiers_of
from routing.onesided import BLOCK, OneSided
from routing.types import Decision

_OPEN = frozenset({"score", "default", "budget", "load"})
_DRAWN = 4096  # bytes at either end of a body that its draw is made from
_EXTREME = 0.01  # who aims at less than that, or at all but that, wants one model
_NO_LINE = Cut(0.0)
_log = logging.getLogger("tiergate.routing")


class Choosing:
    """`routes`: the aim of each, `auto` under the empty name. `order`: the tiers from cheap to dear. `scored`: the classifier
    chooses at all, so that never choosing is a fault.
    """

    def __init__(
        self,
        cuts: Cuts,
        *,
        auto: str,
        routes: Mapping[str, Aim],
        tenants: Mapping[str, Aim],
        order: Sequence[str],
        default_tier: str,
        scored: bool,
        metrics: Metrics,
    ) -> None:
        self._cuts = cuts
        self._order = tuple(order)
        self.default_tier = default_tier
        self._shown = {route: route or auto for route in routes}
        self._watched = {route: OneSided() for route, aim in routes.items() if scored and not _extreme(aim)}
        self._unwatched = {tenant for tenant, aim in tenants.items() if _extreme(aim)}
        self._moving = {route for route, aim in routes.items() if aim.kind != "threshold"}
        self._routes, self._tenants = routes, tenants
        self._metrics = metrics
        metrics.gauge(
            "route_target",
            "What is aimed at under a route; with a tenant and no route, what that tenant has instead under all of them.",
            ("tenant", "route", "target"),
            self._targets,
        )

    def renew(self, routes: Mapping[str, Aim], begin: Begin) -> None:
        """Another policy rates requests from here on. `routes`: as before, but for the value of a threshold."""
        self._routes = routes
        self._cuts.renew(routes, begin)

    def lines(self, tenant: str) -> dict[str, Line]:
        """By route, as they stand for that tenant."""
        return {route: line_of(self._cuts.scope(route, tenant)) for route in self._routes}

    def ask(self, job: Job, sight: Sight | None = None) -> Cut:
        """Where the line is for it. `sight`: another process's."""
        resolution = job.resolution
        if not resolution.auto:
            return _NO_LINE
        raw = job.ask.raw
        scope: Scope | Line = self._cuts.scope(resolution.route, job.principal.tenant)
        if sight is not None:
            scope = sight.lines.get(resolution.route, scope)
        cut = scope.cut(lambda: draw(raw))
        job.cut = cut.threshold
        return cut

    def capped(self, job: Job) -> bool:
        """Whether what goes up is bounded by a share."""
        aim = self._tenants.get(job.principal.tenant) or self._routes.get(job.resolution.route)
        return aim is not None and aim.kind == "large"

    def expect(self, job: Job, decision: Decision) -> None:
        """It is decided where the request goes, if it goes to a model: who is asked next must know. Once for each decision."""
        route, tenant = job.resolution.route, job.principal.tenant
        if route not in self._moving and tenant not in self._tenants:
            return
        told = self._told(job, decision)
        if told is not None:
            job.work.expected = self._cuts.expect(route, tenant, told)

    def tell(self, job: Job, decision: Decision) -> None:
        """The request goes to a model."""
        expected, job.work.expected = job.work.expected, None
        told = self._told(job, decision) if expected is None else expected.told
        if told is None:
            return
        route, tenant, is_open = job.resolution.route, job.principal.tenant, told.open
        self._cuts.tell(route, tenant, told, expected)
        metrics, shown = self._metrics, self._shown[route]
        owner = self._cuts.owner(tenant)
        went = told.up if expected is None and not decision.move else self._up(job, decision, decision.target.model.tier)
        metrics.route_choices.add((metrics.tenant(owner) if owner else "", shown, "dearer" if went else "cheapest"))
        if is_open and job.cut is not None:
            if owner or route in self._moving:
                metrics.route_cut.observe((shown,), min(job.cut, 1.0))
            watched = self._watched.get(route)
            if watched is not None and tenant not in self._unwatched:
                self._watch(watched, shown, decision.target.name)

    def view(self, job: Job, sight: Sight | None = None) -> RouteTarget | None:
        """How the scope of a request stands."""
        if not job.resolution.auto:
            return None
        route, tenant = job.resolution.route, job.principal.tenant
        standing, owner = self._cuts.scope(route, tenant).standing(), self._cuts.owner(tenant)
        if sight is not None and (line := sight.lines.get(route)) is not None:
            standing = line.standing
        overall, sent = self._since_start(route, owner)
        return RouteTarget(
            route=self._shown[route],
            tenant=owner,
            kind=standing.aim.kind,
            value=standing.aim.value,
            cut=min(standing.cut, 1.0),
            nobody=standing.cut > 1.0,
            at_the_cut=round(standing.part, 3),
            share=standing.share,
            kept=standing.kept,
            seen=standing.seen,
            overall=overall,
            sent=sent,
        )

    def _told(self, job: Job, decision: Decision) -> Told | None:
        """What became of it; None where it does not count."""
        if not job.resolution.auto or decision.reason == "override":
            return None
        up, verdict = self._up(job, decision, decision.wanted if decision.move else decision.target.model.tier), job.verdict
        if up is None:
            return None
        is_open = decision.reason in _OPEN and (verdict is None or verdict.tier is None)
        if verdict is not None:
            return Told(up, is_open, verdict.score, verdict.small, verdict.large)
        return Told(up, is_open, looped=decision.turned == "looped" and decision.held is not None and decision.held.chosen)

    def _up(self, job: Job, decision: Decision, tier: str) -> bool | None:
        """Whether that is not the cheapest of the tiers that it might have gone to; None where there is only one."""
        tiers = decision.tiers or tiers_of(job.resolution.candidates, self._order)
        return tier != tiers[0] if len(tiers) > 1 else None

    def _since_start(self, route: str, owner: str) -> tuple[float | None, int]:
        """Of all requests of this node that counted: the share that went up, and how many they were."""
        label, values = self._metrics.tenant(owner) if owner else "", self._metrics.route_choices.values
        up, down = (values.get((label, self._shown[route], to), 0.0) for to in ("dearer", "cheapest"))
        return (up / (up + down), int(up + down)) if up + down else (None, 0)

    def _watch(self, watched: OneSided, route: str, model: str) -> None:
        blocks = watched.blocks
        if watched.saw(model):
            if watched.model:
                _log.warning(
                    "under %s the last %d requests whose tier was open all went to %s: the router does not choose",
                    route, BLOCK, watched.model,
                )  # fmt: skip
            else:
                _log.warning("under %s requests whose tier is open go to more than one model again", route)
        if watched.blocks != blocks:
            self._metrics.route_one_sided.add((route,), watched.blocks - blocks)

    def _targets(self) -> Iterator[tuple[Labels, float]]:
        for route, aim in self._routes.items():
            yield ("", self._shown[route], aim.kind), aim.value
        for tenant in self._metrics.tenants:
            own = self._tenants.get(tenant)
            if own is not None:
                yield (tenant, "", own.kind), own.value


def forgo(work: Work) -> None:
    """What was decided for it is not to be done: a cache answers, or another's work, or nobody."""
    expected, work.expected = work.expected, None
    if expected is not None:
        expected.forgo()


def draw(raw: bytes) -> float:
    """A number in [0, 1) that is a request's own: by its body, so a question that is asked again is drawn the same."""
    whole = raw if len(raw) <= 2 * _DRAWN else raw[:_DRAWN] + raw[-_DRAWN:]
    return crc32(whole) / 2**32


def _extreme(aim: Aim) -> bool:
    return not _EXTREME < aim.value < 1.0 - _EXTREME
