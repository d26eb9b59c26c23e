"""What would become of a request, without sending it.

Every step is the pipeline's own: what is told here is what the pipeline would do, by the same code. Nothing is spent, so it
stays open whether another question's answer would serve, and (unless the gateway is a running one) whether the very answer is
kept, what is left of the limits, where the request would stand in the queue, and how busy each replica is. What is told of models
and replicas is what happens when no cache has an answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec

from backends.balance.consistent_hash import ConsistentHash
from backends.pool import Pool
from backends.types import Ask as BalanceAsk
from caches.semantic.types import OwnedSemantic
from caches.types import ExactStore
from gateway.answers import not_cached
from gateway.auth import Principal
from gateway.budgets import budgets_of
from gateway.call import Failures
from gateway.dispatch.local import slot_ask
from gateway.dispatch.types import Lane, WorkAsk
from gateway.endpoints import Endpoint
from gateway.errors import ApiError
from gateway.exchange import Exchange
from gateway.explain_cache import cache_view
from gateway.explain_placing import costs_of, foretold
from gateway.explain_routing import loads_of, session_of
from gateway.explanation import Attempt, Balance, Candidate, Explanation, Limit, Refusal, Replica, Route, Term, Upstream
from gateway.job import Headers, Job, read_headers
from gateway.loads import NoLoads
from gateway.pipeline import Pipeline, amounts
from gateway.refusals import REFUSALS, refusal
from gateway.sight import Sight
from gateway.sizing import estimate_of
from limits.budget import Budgets
from limits.ledger import Ledger
from limits.types import LastingLimiter, LimitExceeded, LimitsAway, Scope
from limits.view import place
from limits.waiting import SlotAsk
from routing.decide import room
from routing.rules import WEIGHTS
from routing.types import Decision, Needs, Target

_MOST_BODY = 65_536
_FAILS = "when the first one fails"
_MASK = b'"***"'


@dataclass(frozen=True, slots=True)
class Node:
    """The gateway that a request would come to. `live`: it serves, so it knows its replicas and what it keeps. `stable`: the
    secret that ids are made with outlives it. `sight`: of the process that decides, where this is another one.
    """

    pipeline: Pipeline
    lanes: Mapping[str, Lane]
    exact: ExactStore
    semantic: OwnedSemantic
    limiter: LastingLimiter
    live: bool
    stable: bool
    sight: Sight | None = None


async def explain(
    node: Node,
    endpoint: Endpoint,
    body: bytes,
    principal: Principal,
    headers: Headers = (),
    *,
    clock: Callable[[], float] = time.perf_counter,
) -> Explanation:
    told = Explanation(endpoint.name, principal.tenant, principal.key_id, principal.plan, live=node.live)
    try:
        await _explain(told, node, endpoint, body, principal, headers, clock)
    except ApiError as error:
        told.refusal = _refusal(error)
    except REFUSALS as error:
        told.refusal = _refusal(refusal(error))
    return told


async def _explain(
    told: Explanation,
    node: Node,
    endpoint: Endpoint,
    body: bytes,
    principal: Principal,
    headers: Headers,
    clock: Callable[[], float],
) -> None:
    """The pipeline's order. Raises what the pipeline raises."""
    pipeline, began = node.pipeline, clock()
    reading = read_headers(headers, principal, endpoint)
    job = pipeline.understand(Exchange("explain", pipeline.now()), endpoint, body, None, principal, reading)
    understood = clock()
    _tell_job(told, job)
    told.cache = await cache_view(pipeline.answers, job, node.exact, node.semantic, stable=node.stable, live=node.live)
    if job.wishes.cache.only_if_cached and told.cache.verdict != "exact":
        raise not_cached()
    keyed = clock()
    decision = await pipeline.weigh(job, None if node.live else NoLoads(), node.sight)
    decided = clock()
    told.route = _route(node, job, decision)
    told.attempts = await _attempts(node, job, decision)
    if node.live:
        told.limits_store = str(node.limiter.state)
        told.budgets = tuple(budgets_of(await node.limiter.ask_budgets(job.principal.scopes)))
    edited = clock()
    told.upstream = _upstream(pipeline, job, decision.target)
    told.microseconds = {
        "understand": _micros(understood - began),
        "cache": _micros(keyed - understood),
        "decide": _micros(decided - keyed),
        "edit": _micros(clock() - edited),
    }
    told.refusal = _never(job, told.attempts) or (_now(node, job, told) if node.live else None)


def _micros(seconds: float) -> float:
    return round(seconds * 1e6, 1)


def _refusal(error: ApiError, *, now: bool = False) -> Refusal:
    wait = error.headers.get("retry-after-ms")
    return Refusal(error.status, error.code, error.message, now, None if wait is None else int(wait) / 1000)


def _tell_job(told: Explanation, job: Job) -> None:
    needs, resolution = job.needs, job.resolution
    told.requested, told.stream = job.ask.model, job.ask.stream
    told.priority, told.weight = job.wishes.priority.name.lower(), job.principal.weight
    told.capabilities, told.room = tuple(sorted(needs.capabilities)), room(needs)
    told.prompt_tokens, told.max_tokens = needs.prompt_tokens, needs.max_tokens
    told.stands_for, told.auto = tuple(target.name for target in resolution.candidates), resolution.auto


def _route(node: Node, job: Job, decision: Decision) -> Route:
    pipeline, verdict = node.pipeline, job.verdict
    judge = "" if verdict is None else pipeline.rules.judge_of(verdict)
    weights = WEIGHTS if judge == "rules" else {}
    kept = {decision.target.name, *(target.name for target in decision.alternatives)}
    candidates = [
        Candidate(
            target.name, target.model.tier, target.model.context, "" if target.name in kept else _why_out(target, job.needs)
        )
        for target in job.resolution.candidates
    ]
    if job.resolution.auto:
        candidates += _never_asked(pipeline, job)
    return Route(
        model=decision.target.name,
        tier=decision.target.model.tier,
        reason=decision.reason,
        score=decision.score,
        threshold=min(job.cut or 0.0, 1.0),
        terms=tuple(Term(feature, round(added, 4), weights.get(feature)) for feature, added in decision.terms),
        candidates=tuple(candidates),
        session=session_of(pipeline, decision),
        move=decision.move or "",
        band=pipeline.rules.load.band,
        loads=loads_of(pipeline, job) if node.live else (),
        target=pipeline.choosing.view(job, node.sight),
        first=pipeline.cascades.first(job, decision),
        classifier=judge,
        classifier_failed="" if verdict is None else verdict.instead,
        policy="" if verdict is None else verdict.policy,
        small=None if verdict is None else verdict.small,
        large=None if verdict is None else verdict.large,
    )


def _why_out(target: Target, needs: Needs) -> str:
    lacking = needs.capabilities - (target.model.capabilities or frozenset()) if target.model.capabilities is not None else ()
    if lacking:
        return f"lacks {', '.join(sorted(lacking))}"
    return f"its context of {target.model.context} tokens does not hold {room(needs)}"


def _never_asked(pipeline: Pipeline, job: Job) -> list[Candidate]:
    """Models that `auto` does not mean for this key and endpoint."""
    meant = {target.name for target in job.resolution.candidates}
    return [
        Candidate(
            name, "", None, f"does not serve {job.endpoint.name}" if job.principal.may_call(name) else "this key may not call it"
        )
        for name in pipeline.stations
        if name not in meant
    ]


async def _attempts(node: Node, job: Job, decision: Decision) -> tuple[Attempt, ...]:
    """The first choice, then who takes over. Of several alternatives only the first is ever tried."""
    pipeline = node.pipeline
    tried: list[tuple[Target, str]] = [(decision.target, "first")]
    if decision.alternatives:
        tried.append((decision.alternatives[0], _FAILS))
    roomier = pipeline.roomier(job, decision.target, decision.alternatives)
    if roomier is not None:
        tried.append((roomier, "when the first one says that the prompt is too long"))
    if node.live:
        scopes = list(dict.fromkeys(scope for target, _ in tried for scope in _scopes(job, target)))
        await node.limiter.refresh(scopes)
        await node.limiter.ask_budgets(scopes)
    return tuple([_attempt(node, job, target, when) for target, when in tried])


def _scopes(job: Job, target: Target) -> tuple[Scope, ...]:
    """Those that a request for this model is charged to."""
    principal = job.principal
    own = principal.model_scopes.get(target.model.name)
    return principal.scopes if own is None else (*principal.scopes, own)


def _attempt(node: Node, job: Job, target: Target, when: str) -> Attempt:
    station, lane = node.pipeline.stations[target.model.name], node.lanes[target.model.name]
    pool, live = lane.pool, node.live
    prompt = estimate_of(job, station)
    wanted, clamp, _ = amounts(job, station, prompt)
    tokens = wanted
    principal = job.principal
    model_scope = principal.model_scopes.get(target.model.name)
    scopes = _scopes(job, target)
    never, never_scope = None, ""
    ledger = Ledger()  # in which nothing was spent: what it refuses can never pass
    try:
        held = ledger.admit(principal.scopes, 0)
        tokens, _ = Budgets(time.time).fit(scopes, wanted, clamp=clamp, least=prompt)
        tokens = ledger.reserve(held, model_scope, 0, tokens, clamp=clamp, now=0)
    except LimitExceeded as error:
        if live:  # with the figures of now, if that is what is told first
            with suppress(LimitsAway):
                now = node.limiter.foresee(principal.scopes, model_scope, wanted, clamp=clamp, least=prompt)
                error = now if now is not None and now.never else error
        never, never_scope = _refusal(refusal(error)), error.scope.kind
    order = _order(pool, job)
    states = {state.name: state for state in pool.stats()} if live else {}
    ask = node.pipeline.work_ask(job, target)
    costs = costs_of(lane, ask) if live else {}
    queue = slot_ask(ask)
    placed = place(lane.scheduler, queue) if live else None
    refused, refused_by = _refused(node, lane, ask, queue, principal.scopes) if live and never is None else (None, "")
    return Attempt(
        model=target.name,
        tier=target.model.tier,
        when=when,
        served_name=target.served_name,
        bytes_per_token=round(station.density.ratio, 2),
        prompt_tokens=prompt,
        reserved=tokens,
        clamped=tokens < wanted,
        limits=tuple(
            Limit(
                s.kind,
                s.name,
                s.rpm,
                s.tpm,
                s.max_parallel,
                s.burst,
                s.day,
                s.month,
                _balance(node.limiter, s) if live else None,
            )
            for s in scopes
        ),
        never=never,
        never_scope=never_scope,
        balance=_kind(pool),
        ordered=order is not None,
        replicas=tuple(Replica(name, states.get(name), costs.get(name)) for name in order or [r.name for r in pool.replicas]),
        queue=placed,
        foretold=foretold(lane) if live else None,
        refused=refused,
        refused_by=refused_by,
    )


def _refused(node: Node, lane: Lane, ask: WorkAsk, queue: SlotAsk, scopes: Sequence[Scope]) -> tuple[Refusal | None, str]:
    """What this model would be told if it were asked now, in the order in which that is found out; nothing is spent."""
    try:
        limited = node.limiter.foresee(scopes, ask.model_scope, ask.tokens, clamp=ask.clamp, least=ask.prompt_tokens)
    except LimitsAway as away:
        return _refusal(refusal(away), now=True), "limits"
    if not lane.pool.capacity() and (limited is None or limited.scope.kind == "model"):
        return _refusal(Failures().error(), now=True), "replica"
    if limited is not None:
        return _refusal(refusal(limited), now=True), limited.scope.kind
    full = lane.scheduler.refusal(queue)
    return (None, "") if full is None else (_refusal(refusal(full), now=True), "queue")


def _balance(limiter: LastingLimiter, scope: Scope) -> Balance:
    standing = limiter.standing((scope,))
    return Balance(
        standing.request_remaining,
        standing.request_reset,
        standing.token_remaining,
        standing.token_reset,
        limiter.parallel(scope),
    )


def _kind(pool: Pool) -> str:
    """`LeastRequests` is `least_requests` in the config."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in type(pool.balance).__name__).strip("_")


def _order(pool: Pool, job: Job) -> list[str] | None:
    """Which replica first, second and so on, where that follows from the request alone: a session's, while none is overloaded."""
    if not isinstance(pool.balance, ConsistentHash) or job.session is None:
        return None
    left, order = list(pool.replicas), []
    while left:
        chosen = pool.balance.choose(left, BalanceAsk(job.session, job.needs.prompt_tokens))
        left.remove(chosen)
        order.append(chosen.name)
    return order


def _upstream(pipeline: Pipeline, job: Job, target: Target) -> Upstream:
    body = pipeline.upstream_body(job, target.served_name, pipeline.stations[target.model.name])
    edited = body is not job.ask.raw
    masked = _masked(body) if edited else body
    return Upstream(job.endpoint.path.decode(), masked[:_MOST_BODY].decode("utf-8", "replace"), len(body), edited)


def _masked(body: bytes) -> bytes:
    """Without the salt. A salt in an edited body is ours: a client's own is deleted."""
    fields: Mapping[str, Any] = msgspec.json.decode(body)
    salt = fields.get("cache_salt")
    return body if salt is None else body.replace(msgspec.json.encode(salt), _MASK)


def _now(node: Node, job: Job, told: Explanation) -> Refusal | None:
    """What is in the exact cache needs a request and no tokens. A model without a replica sends the request on, and so does, of
    `auto`, a limit of one model.
    """
    if told.cache is not None and told.cache.verdict == "exact":
        limited = node.limiter.foresee(job.principal.scopes, None, None, clamp=False, least=0)
        return None if limited is None else _refusal(refusal(limited), now=True)
    first, second = told.attempts[0], told.attempts[1] if len(told.attempts) > 1 else None
    moves_on = first.refused_by == "replica" or (first.refused_by == "model" and job.resolution.auto)
    return second.refused if moves_on and second is not None and second.when == _FAILS else first.refused


def _never(job: Job, attempts: tuple[Attempt, ...]) -> Refusal | None:
    """Of `auto`, a limit of one model sends the request on to the next; any other limit refuses it."""
    first = attempts[0]
    moves_on = first.never_scope == "model" and job.resolution.auto and len(attempts) > 1
    return attempts[1].never if moves_on else first.never
