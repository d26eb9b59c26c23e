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

from gateway.dispatch.types import NoReplica
from gateway.errors import ApiError
from gateway.forward import Failures, Unserved
from gateway.job import Job, Plan
from gateway.metrics import Metrics
from gateway.opinions import Result
from gateway.relay import Sink
from gateway.reply import Head
from gateway.trying import Rules, Tried
from gateway.usage import Totalled
from limits.types import LimitExceeded
from limits.waiting import QueueFull, WaitTooLong
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
    def choose(self, job: Job, decision: Decision, /) -> Decision: ...
    def chosen(self, job: Job, decision: Decision, /) -> None: ...
    def plan(self, job: Job, target: Target, /) -> Plan: ...
    async def serve(self, job: Job, target: Target, sink: Sink, /) -> None: ...


class NoCascades:
    """No route has any."""

    def over(self, makes: Makes) -> Makes:
        return makes

    def may(self, job: Job) -> bool:  # noqa: ARG002 - nothing may
        """Whether it may be asked of another tier first than was decided."""
        return False


class Cascades(NoCascades):
    """`routes`: by name, `auto` under the empty one. `order`: the tiers from cheap to dear."""

    def __init__(self, routes: Mapping[str, Rules], order: Sequence[str], metrics: Metrics) -> None:
        self._routes = routes
        self._ranks = {tier: rank for rank, tier in enumerate(order)}
        self._metrics = metrics
        self._makes: Makes

    def over(self, makes: Makes) -> Makes:
        self._makes = makes
        self.decision, self.choose, self.chosen = makes.decision, makes.choose, makes.chosen
        self.plan, self.serve = makes.plan, makes.serve
        return self

    def may(self, job: Job) -> bool:
        return self._rules(job) is not None

    async def produce(self, job: Job, sink: Sink) -> None:
        rules = self._rules(job)
        if rules is None:
            await self._makes.produce(job, sink)
            return
        decision = await self._makes.decision(job)
        small, large = self._ends(decision)
        if small is large or not _is_open(job, decision, rules) or not rules.switch.tries():
            await self._makes.produce(job, sink)
            return
        await self._first_small(job, sink, rules, decision, small, large)

    def _rules(self, job: Job) -> Rules | None:
        resolution = job.resolution
        rules = self._routes.get(resolution.route) if resolution.auto else None
        return rules if rules is not None and _checkable(job, rules) else None

    def _ends(self, decision: Decision) -> tuple[Target, Target]:
        """The cheapest that may answer, and whom to ask after it: what was decided if that is dearer, else the dearest."""
        able = (decision.target, *decision.alternatives)
        ranks = [self._ranks.get(target.model.tier, len(self._ranks)) for target in able]
        small = able[ranks.index(min(ranks))]
        if ranks[0] > min(ranks):
            return small, decision.target
        return (small, able[ranks.index(max(ranks))]) if max(ranks) > min(ranks) else (small, small)

    async def _first_small(self, job: Job, sink: Sink, rules: Rules, decision: Decision, small: Target, large: Target) -> None:
        work, tried = job.work, Tried(job.ask, rules)
        try:
            result, plainly = await self._draw(job, tried, small)
            work.cascade, work.small_tokens = result, tried.spent.tokens
            self._count(rules, result, small, tried.spent.tokens)
            job.failures, job.plan = Failures(), None
            body = tried.answer() if result == "answered" else None
            if body is not None:
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

    async def _draw(self, job: Job, tried: Tried, small: Target) -> tuple[Result, bool]:
        """(What came of it, whether the request is to go on as if nothing had been tried)."""
        work = job.work
        work.model, work.tier, work.reason = small.name, small.model.tier, "score"
        mine = job.ask
        try:
            for ask in tried.asks():
                job.ask, job.plan = ask, None
                plan = self._makes.plan(job, small)
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
