"""Small first: a request that can be checked is asked of the cheapest tier, and of a dear one if the answer does not stand up.

    who       under a route that has `cascade`: not streamed, of one answer, of an open tier, while that pays (`routing.cascade`)
    draw      the cheapest tier says what it thinks, twice or with how sure it is (`gateway.trying`)
    look      does that stand up by itself, and do both say the same (`gateway.opinions`)
    answer    then the first one is the answer, as if it were the only one
    escalate  else the request goes the normal way, to the dear tier, as its client sent it

Each call reserves, queues and settles by itself, as any other (`Pipeline.serve`), so a client that leaves, a limit and a fallback
are what they always are. What was asked of the small tier is on the same record of work: counted once, with what came after it.

If the small tier cannot be asked (no replica, a full queue, a limit, a backend that refuses `n`), the request goes the normal
way, and the switch learns nothing of it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import Protocol

from gateway.call import Failures, Unserved
from gateway.dispatch.types import NoReplica
from gateway.errors import ApiError
from gateway.job import Job, Plan
from gateway.metrics import Metrics
from gateway.opinions import Result
from gateway.relay import Sink
from gateway.reply import Head
from gateway.trying import Rules, Tried
from gateway.usage import Totalled
from limits.types import LimitExceeded
from limits.waiting import QueueFull, WaitTooLong
from routing.cascade import Switch
from routing.types import Decision, Target

_ENDPOINTS = frozenset({"chat", "completions"})
_OPEN = frozenset({"score", "default", "budget"})
_COUNTS = ("n", "best_of")
_OTHER_ANSWERS = ("use_beam_search", "echo")
_GONE: tuple[type[Exception], ...] = (Unserved, NoReplica, QueueFull, WaitTooLong)
_REFUSED: tuple[type[Exception], ...] = (LimitExceeded, ApiError)
_PAYS = "pays again"
_PAYS_NOT = "does not pay: it is switched off, and tried rarely"
_log = logging.getLogger("tiergate.routing")


class Makes(Protocol):
    """The pipeline: how a request is decided and answered, and how one model is asked."""

    async def produce(self, job: Job, sink: Sink, /) -> None: ...
    async def decision(self, job: Job, /) -> Decision: ...
    def capped(self, job: Job, /) -> bool: ...
    def choose(self, job: Job, decision: Decision, /) -> Decision: ...
    def chosen(self, job: Job, decision: Decision, /) -> None: ...
    async def planned(self, job: Job, target: Target, /) -> Plan: ...
    async def serve(self, job: Job, target: Target, sink: Sink, /) -> None: ...
    async def serve_spare(self, job: Job, target: Target, sink: Sink, /) -> None: ...


class NoCascades:
    """No route has any."""

    def over(self, makes: Makes) -> Makes:
        return makes

    def may(self, job: Job) -> bool:  # noqa: ARG002 - nothing may
        """Whether it may be asked of another tier first than was decided."""
        return False

    def first(self, job: Job, decision: Decision) -> str:  # noqa: ARG002 - as above
        return ""


class Cascades(NoCascades):
    """`routes`: by name, `auto` under the empty one. `order`: the tiers from cheap to dear."""

    def __init__(self, routes: Mapping[str, Rules], order: Sequence[str], metrics: Metrics) -> None:
        self._routes = routes
        self._ranks = {tier: rank for rank, tier in enumerate(order)}
        self._metrics = metrics
        self._makes: Makes

    def over(self, makes: Makes) -> Makes:
        self._makes = makes
        self.decision, self.capped, self.choose, self.chosen = makes.decision, makes.capped, makes.choose, makes.chosen
        self.planned, self.serve, self.serve_spare = makes.planned, makes.serve, makes.serve_spare
        return self

    def may(self, job: Job) -> bool:
        rules = self._rules(job)
        return rules is not None and rules.switch.due

    async def produce(self, job: Job, sink: Sink) -> None:
        rules = self._rules(job)
        if rules is None:
            await self._makes.produce(job, sink)
            return
        decision = await self._makes.decision(job)
        ends = self._ends(job, decision, rules)
        if ends is not None and self._tries(job, rules.switch):
            await self._first_small(job, sink, rules, decision, *ends)
        else:
            await self._makes.produce(job, sink)

    def first(self, job: Job, decision: Decision) -> str:
        """The model that is asked before the one that was decided, or in place of it; empty: none is."""
        rules = self._rules(job)
        ends = None if rules is None or not rules.switch.due else self._ends(job, decision, rules)
        return "" if ends is None else ends[0][0].name

    def _tries(self, job: Job, switch: Switch) -> bool:
        if job.plan is None:
            return switch.tries()
        switch.passed()  # what it asks of a model is under way, since no try was due when it came
        return False

    def _rules(self, job: Job) -> Rules | None:
        resolution = job.resolution
        rules = self._routes.get(resolution.route) if resolution.auto else None
        return rules if rules is not None and _checkable(job, rules) else None

    def _ends(self, job: Job, decision: Decision, rules: Rules) -> tuple[Sequence[Target], Target] | None:
        """The cheapest that may answer, and whom to ask after them: what was decided if that is dearer, else the dearest.

        None where there is nothing to choose, and for what was sent down where what goes up is bounded by a share.
        """
        if not _is_open(job, decision, rules):
            return None
        able = (decision.target, *decision.alternatives)
        ranks = [self._ranks.get(target.model.tier, len(self._ranks)) for target in able]
        smalls = [target for target, rank in zip(able, ranks, strict=True) if rank == min(ranks)]
        if max(ranks) == min(ranks) or len(smalls) < rules.models:
            return None
        if ranks[0] > min(ranks):
            return smalls, decision.target
        return None if self._makes.capped(job) else (smalls, able[ranks.index(max(ranks))])

    async def _first_small(
        self, job: Job, sink: Sink, rules: Rules, decision: Decision, smalls: Sequence[Target], large: Target
    ) -> None:
        work, tried, small = job.work, Tried(job.ask, rules), smalls[0]
        try:
            result, plainly = await self._draw(job, tried, smalls)
            body = tried.answer() if result == "answered" else None
            if result == "answered" and body is None:
                result = "invalid"
            work.cascade, work.small_tokens = result, tried.spent.tokens
            self._count(rules, result, small, tried.spent.tokens)
            job.failures, job.plan = Failures(), None
            if body is not None:
                work.model, work.tier, work.replica = small.name, small.model.tier, tried.spent.replica
                self._makes.chosen(job, self._makes.choose(job, _to(decision, small)))
                sink.begin(Head(HTTPStatus.OK, b"application/json", stream=False))
                sink.write(body)
                return
            if not plainly:
                self._makes.choose(job, _to(decision, large))
            used = tried.used if rules.charge == "both" else (0, 0)
            await self._makes.produce(job, Totalled(sink, used) if any(used) else sink)
            self._metrics.cascade_tokens.add((rules.route, work.tier), work.prompt_tokens + work.completion_tokens)
            if tried.spent.tokens:
                work.cached_tokens = None  # of two models: nobody's
        finally:
            tried.spent.give(work)

    async def _draw(self, job: Job, tried: Tried, smalls: Sequence[Target]) -> tuple[Result, bool]:
        """(What came of it, whether the request is to go on as if nothing had been tried)."""
        work, mine = job.work, job.ask
        try:
            for which, ask in tried.asks():
                small = smalls[which]
                work.model, work.tier, work.reason = small.name, small.model.tier, "score"
                job.ask, job.plan = ask, None
                plan = await self._makes.planned(job, small)
                plan.bill = tried.bill
                try:
                    await self._makes.serve(job, small, tried.listen())
                finally:
                    tried.spent.take(work)
        except _GONE:
            return "failed", False
        except _REFUSED:
            return "failed", True
        finally:
            job.ask = mine
        return tried.result(), False

    def _count(self, rules: Rules, result: Result, small: Target, tokens: int) -> None:
        metrics, switch = self._metrics, rules.switch
        metrics.cascades.add((rules.route, result))
        metrics.cascade_tokens.add((rules.route, small.model.tier), tokens)
        if result != "failed" and switch.saw(escalated=result != "answered"):
            metrics.cascade_switches.add((rules.route, "on" if switch.on else "off"))
            if switch.on:
                _log.warning("under %s asking the small tier first pays again", rules.route)
            else:
                _log.warning(
                    "under %s asking the small tier first does not pay: it is switched off, and tried rarely", rules.route
                )


def _checkable(job: Job, rules: Rules) -> bool:
    fields = job.ask.fields
    most = job.needs.max_tokens
    return (
        job.endpoint.name in _ENDPOINTS
        and job.wishes.tier is None
        and not job.ask.stream
        and all(fields.get(name) in (None, 1) for name in _COUNTS)
        and not any(fields.get(name) for name in _OTHER_ANSWERS)
        and (most is None or most <= rules.max_tokens)
        and isinstance(fields.get("prompt", ""), str)
    )


def _is_open(job: Job, decision: Decision, rules: Rules) -> bool:
    """The tier is the classifier's to choose, and it does not know the small one to be too weak."""
    small = None if job.verdict is None else job.verdict.small
    return decision.reason in _OPEN and (small is None or small >= rules.floor)


def _to(decision: Decision, target: Target) -> Decision:
    others = tuple(other for other in (decision.target, *decision.alternatives) if other is not target)
    return replace(decision, target=target, reason="score", alternatives=others)
