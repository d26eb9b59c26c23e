"""The life of a request, top to bottom in this order.

    authenticate   key → tenant, plan, allowed models                                      401
    body           read once, bounded                                                      408 413 415
    admit          request rate and parallel slots, one atomic step                        429
    parse          decompressed, a copy to look at; the bytes are kept                     400 413
    resolve        alias → model or auto; is the key allowed, is the endpoint served       403 404
    cache          an exact hit is replayed; identical requests in flight share one answer (gateway.answers)
    decide         only for `auto`: capability, context, score, conversation, load → tier, reason
    reserve        token buckets, a second atomic step: a hit is never refused for tokens  429
    queue          a slot of the pool, late binding                                        429 503
    forward        replica, bytes out, bytes back (gateway.forward)                        502 503 504
    settle         on every way out, by leaving the scopes (gateway.settle)
    store          only a complete answer, after the leases are back

From `decide` on the work may belong to several requests at once, so it has a record (`Work`) and a sink of its own.
Order is product behaviour and is written here once; policies are swapped by the config, never the order.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from gateway import multipart, wire
from gateway.answers import Answers
from gateway.auth import Authenticator, Principal, Rights
from gateway.bands import Bands
from gateway.bounds import refuse_too_much
from gateway.call import Call, ContextOverflow, Station, Unserved
from gateway.cascade import NoCascades
from gateway.chains import Chains
from gateway.choosing import Choosing, forgo
from gateway.dispatch.types import Admit, Dispatcher, Grant, NoReplica, Question, WorkAsk
from gateway.endpoints import Endpoint
from gateway.errors import ApiError
from gateway.exchange import Exchange
from gateway.feedback import Deletes, give
from gateway.forward import Forwarder
from gateway.giveway import GaveWay, Spare, Yielding
from gateway.heartbeat import NoHeartbeat
from gateway.http1 import Request
from gateway.inflate import inflate
from gateway.job import Job, Plan, Reading, read_headers
from gateway.learning.watching import NothingLearned
from gateway.loads import Loads
from gateway.metrics import Metrics
from gateway.patience import leaves
from gateway.prompt import prompt_size, prompts
from gateway.quota import rate_lines
from gateway.recurring import NothingRecurs
from gateway.refusals import REFUSED, refusal
from gateway.relay import Sink
from gateway.reply import Reply
from gateway.settle import Ending, charge, spent
from gateway.sight import Sight
from gateway.sizing import estimate_of, learn
from gateway.talks import NoTalks
from gateway.tokenizing import Tokens
from limits.estimate import longest, prompt_tokens, reservation
from limits.types import LimitExceeded
from limits.waiting import Preempted, Priority, QueueFull, QueueTimeout, Spent, WaitTooLong
from routing.asked import Asked, NobodyAsked, Undecided
from routing.decide import as_pinned, decide
from routing.load import LoadRules
from routing.needs import needs_of
from routing.resolve import Catalog
from routing.types import Classifier, Decision, Resolution, Target, Verdict

_ENGINE_PRIORITY = {Priority.REALTIME: 0, Priority.STANDARD: 10, Priority.BATCH: 20}  # vLLM: lower is sooner
_BATCH, _COMPLETE, _PREEMPTED = (
    Priority.BATCH,
    Ending.COMPLETE,
    Ending.PREEMPTED,
)  # an enum member costs a look-up in its class each time
_SMALL = 64 * 1024  # a larger body takes longer to parse than its admission may cost
_STEPPED = 256 * 1024  # a larger one is worked on in steps
_LARGE = 2 * 1024 * 1024  # the key of a larger one is made in a thread
_RESOLVED = 4096  # names that keys have called, before they are looked up anew
_MOST_TOKENS = 1 << 40  # no request uses more: a larger wish is cut to it
_CLASS = {priority: priority.name.lower() for priority in Priority}
_ENDS: Mapping[type[BaseException], str] = {QueueFull: "refused", WaitTooLong: "refused", QueueTimeout: "expired"}
_UNTOLD: tuple[type[Exception], ...] = (*REFUSED, Undecided)
_SSE = b"text/event-stream; charset=utf-8"


@dataclass(frozen=True, slots=True)
class RoutingRules:
    """How `auto` chooses."""

    classifier: Classifier  # where `asked` is, for who may not wait
    order: tuple[str, ...]
    fallback: Mapping[str, str]
    load: LoadRules
    asked: Asked | None = None  # one that has to be awaited
    kind: str = ""  # of the config's classifier
    instead: str = ""  # who judges where that has not

    def judge_of(self, verdict: Verdict) -> str:
        """Whose it is."""
        return self.instead if verdict.instead else self.kind


class Pipeline:
    """Everything that a request meets. One instance a process; holds no state of its own.

    `understand`, `decide`, `roomier` and `upstream_body` are pure, so that `gateway.explain` can tell what would happen by the
    very code that makes it happen.
    """

    def __init__(
        self,
        *,
        authenticator: Authenticator,
        dispatcher: Dispatcher,
        both: Deletes,
        catalog: Catalog,
        rules: RoutingRules,
        talks: NoTalks,
        loads: Loads,
        choosing: Choosing,
        answers: Answers,
        stations: Mapping[str, Station],
        forwarder: Forwarder,
        metrics: Metrics,
        salt: Callable[[str], str | None],
        chains: Chains,
        tokens: Tokens,
        recurring: NothingRecurs,
        learning: NothingLearned,
        cascades: NoCascades,
        heartbeat: NoHeartbeat,
        clock: Callable[[], float],
    ) -> None:
        self.authenticator = authenticator
        self._dispatcher = dispatcher
        self._both = both
        self._catalog = catalog
        self.rules = rules
        self.talks = talks
        self.loads = loads
        self.bands = Bands(rules.order[0])
        self.choosing = choosing
        self.answers = answers
        self.stations = stations
        self._forwarder = forwarder
        self._metrics = metrics
        self._salt = salt
        self.chains = chains
        self._tokens = tokens
        self._recurring = recurring
        self._learning = learning
        self.cascades = cascades
        self._heartbeat = heartbeat
        self._made = learning.wraps(cascades.over(self))
        self._alone = rules.asked is None  # nobody has to be awaited
        self._asked = rules.asked or NobodyAsked(rules.classifier)
        self._judge = self._classified if rules.asked is None else self._foreseen
        self._clock = clock
        self._resolved: dict[tuple[Rights, str, str], Resolution] = {}

    def authenticate(self, request: Request) -> Principal:
        """Who asks. ApiError 401 when nobody known does."""
        return self.authenticator.authenticate(request.headers)

    async def introduce(self, x: Exchange, request: Request) -> Principal:
        """Who asks, of what takes nothing of any limit; the answer tells where they stand. ApiError 401."""
        principal = self.authenticate(request)
        admit = self._dispatcher.admit(principal.scopes)
        await admit.peek()
        x.standing = lambda: rate_lines(admit.standing())
        return principal

    async def delete_cached(self, principal: Principal, entry: str) -> bytes:
        """Delete one of the tenant's own cached answers. ApiError 404 when it has none of that id."""
        if not await self._both.delete(entry, principal.tenant):
            raise ApiError(404, "entry_not_found", "You have no cached answer of this id.")
        return b'{"deleted":true}'

    async def feedback(self, x: Exchange, body: bytes) -> bytes:
        """Take note of how good an answer was. ApiError 400, 413."""
        assert x.principal is not None, "asked by somebody who is known"
        return await give(self._both, self._learning, x.principal, x, body)

    async def run(self, x: Exchange, endpoint: Endpoint, path_model: str | None, request: Request, reply: Reply) -> None:
        """Answer one request. Raises ApiError or one of `gateway.refusals.REFUSALS`; every lease is back by then.

        A body that is small is understood before its request is admitted, so that the owner of the state can be told at once
        what it is about. A large one costs more to read than to refuse.
        """
        work = x.work
        principal = x.principal = self.authenticator.authenticate(request.headers)
        admit: Admit | None = None
        x.standing = lambda: rate_lines((admit or self._dispatcher.admit(principal.scopes)).standing())
        try:
            reading = read_headers(request.headers, principal, endpoint)
            if request.complete:
                body = request.whole()
            else:
                started = self._clock()
                body = await request.body()
                x.body_wait = self._clock() - started
        except ApiError:
            admit = self._dispatcher.admit(principal.scopes)
            await admit.peek()
            raise
        early: Job | Exception | None = None
        question: Question | None = None
        try:
            if reading.encoding is None and len(body) <= _SMALL:
                early = self._try(x, endpoint, body, path_model, principal, reading)
                if isinstance(early, Job):
                    question = self._question(early)
            admit = self._dispatcher.admit(principal.scopes, question)
            async with admit as ticket:
                try:
                    if isinstance(early, Exception):
                        raise early
                    if early is None and reading.encoding is not None:
                        body = await inflate(body, reading.encoding, request.max_body)
                    job = early or await self._at_length(x, endpoint, body, path_model, principal, reading)
                    job.ticket = ticket
                    reply.show_usage = job.ask.include_usage
                    self._heartbeat.watch(x, reply, stream=job.ask.stream)
                    await self.answers.answer(x, job, question or self._question(job), reply, self._made)
                except (QueueFull, QueueTimeout, Preempted):
                    ticket.refund()
                    raise
                except ApiError as error:
                    if error.outcome == "rejected":
                        ticket.refund()
                    raise
        finally:
            early = None  # an exception that is kept would keep its frames
            forgo(work)

    async def _at_length(
        self, x: Exchange, endpoint: Endpoint, body: bytes, path_model: str | None, principal: Principal, reading: Reading
    ) -> Job:
        """As `understand`. What takes milliseconds is done in steps, between which others have their turn."""
        fields: dict[str, Any] | None = None
        if len(body) > _STEPPED:
            await asyncio.sleep(0)
            if not endpoint.multipart:
                refuse_too_much(body)
                await asyncio.sleep(0)
                fields = wire.decode(body)
                await asyncio.sleep(0)
        job = self.understand(x, endpoint, body, path_model, principal, reading, fields)
        if len(body) > _LARGE:
            await self.answers.ahead(job)
        elif len(body) > _STEPPED:
            await asyncio.sleep(0)
        return job

    def _try(
        self, x: Exchange, endpoint: Endpoint, body: bytes, path_model: str | None, principal: Principal, reading: Reading
    ) -> Job | Exception:
        """The request, or why it is none: told once it is admitted, for a bad one is a request too."""
        try:
            return self.understand(x, endpoint, body, path_model, principal, reading)
        except REFUSED as error:
            return error.with_traceback(None)

    def _question(self, job: Job) -> Question:
        return self.answers.question(job, lambda: self._first(job))

    def _first(self, job: Job) -> WorkAsk | None:
        """What it will ask of its first model, if it comes to that."""
        if (
            job.wishes.cache.only_if_cached or len(job.ask.raw) > _SMALL
        ):  # a large one is planned in steps, once nothing is cached
            return None
        try:
            if self.cascades.may(job):  # what it asks first depends on more than who is decided
                return None
            decision = job.decision or self.choose(job, self.decide(job))
            plan = self.plan(job, decision.target)
            return None if self._tokens.wanted(plan.station) else plan.ask  # token ids are asked for once nothing is cached
        except _UNTOLD:  # told when it is met again, after the caches
            return None

    def understand(
        self,
        x: Exchange,
        endpoint: Endpoint,
        body: bytes,
        path_model: str | None,
        principal: Principal,
        reading: Reading,
        fields: dict[str, Any] | None = None,
    ) -> Job:
        """The request as a Job. Raises ApiError 400, or one of routing's refusals. `fields`: its body, decoded already."""
        form = endpoint.multipart
        ask = multipart.parse(body, reading.content_type, path_model) if form else wire.parse(body, path_model, fields)
        ask.stream = ask.stream and endpoint.streams
        x.requested_model, x.stream = ask.model, ask.stream
        if endpoint.stateless:
            _refuse_state(ask, endpoint)
        size, ready_tokens = prompt_size(ask, endpoint)
        estimate = 0 if endpoint.free else prompt_tokens(size) + ready_tokens
        resolution = self._resolved.get((principal.allowed, ask.model, endpoint.name))
        if resolution is None:
            resolution = self._resolve(principal, ask.model, endpoint)
        needs = needs_of(ask.fields, endpoint.name, estimate)
        return Job(
            x.id, x.arrived, endpoint, ask, principal, resolution, needs, reading.wishes, reading.passed, size, ready_tokens,
            reading.patience, x.work, known_as=x.client_id,
        )  # fmt: skip

    def _resolve(self, principal: Principal, model: str, endpoint: Endpoint) -> Resolution:
        """What the name comes to: the same for all keys that have the same rights. Raises as `Catalog.resolve`."""
        found = self._catalog.resolve(model, endpoint.served_as, principal.may_call)
        if len(self._resolved) >= _RESOLVED:
            self._resolved.clear()
        self._resolved[principal.allowed, model, endpoint.name] = found
        return found

    # -- work

    async def produce(self, job: Job, sink: Sink) -> None:
        """Decide, reserve, queue, forward; then the fallback, or one move up for a prompt that is too long."""
        decision = job.decision
        if decision is None:
            decision = self.choose(job, self.decide(job)) if self._alone else await self.decision(job)
        self.chosen(job, decision)
        left = list(decision.alternatives)
        target: Target | None = decision.target
        reason: str = decision.reason
        moved = False
        while target is not None:
            job.work.model, job.work.tier, job.work.reason = target.name, target.model.tier, reason
            if target is not decision.target:
                self.talks.note(job, decision, target)
            try:
                return await self.serve(job, target, sink)
            except (Unserved, NoReplica):
                target, reason = (left.pop(0), "fallback") if left and reason != "fallback" else (None, "")
            except LimitExceeded as refused:  # of `auto`, the limit of one model is no limit of the others
                if refused.scope.kind != "model" or not job.resolution.auto or not left or reason == "fallback":
                    raise
                target, reason = left.pop(0), "fallback"
            except ContextOverflow:
                roomier = None if moved else self.roomier(job, target, decision.alternatives)
                if roomier is None:
                    raise
                target, reason, left, moved = roomier, "context", [], True
                decision.keeps = roomier.model.tier  # its next turn will be no shorter
        raise job.failures.error()

    def chosen(self, job: Job, decision: Decision) -> None:
        """A model is asked for that reason, or has answered. Told once of each piece of work."""
        self._metrics.decided(decision)
        self.choosing.tell(job, decision)
        self.bands.tell(job, decision)
        self.talks.note(job, decision, decision.target)
        job.work.score, job.work.terms, job.work.cut = decision.score, decision.terms, job.cut
        verdict = job.verdict
        if verdict is not None:
            job.work.policy, job.work.instead = verdict.policy, verdict.instead
            job.work.classifier = self.rules.judge_of(verdict)

    def roomier(self, job: Job, target: Target, others: Sequence[Target]) -> Target | None:
        """Under `auto`: the next dearer of those that can do what the request needs; its context may hold the prompt."""
        if not job.resolution.auto:
            return None
        rank = self.rules.order.index
        dearer = [other for other in others if rank(other.model.tier) > rank(target.model.tier)]
        return min(dearer, key=lambda other: rank(other.model.tier), default=None)

    def decide(self, job: Job, loads: Loads | None = None, sight: Sight | None = None) -> Decision:
        """Which model, why, and who comes next. `loads`, `sight`: of whom this is not the process that knows them.

        Raises Undecided where `weigh` has to be awaited.
        """
        rules, resolution, job.verdict = self.rules, job.resolution, None
        if resolution.pinned is not None:  # all that follows is for who has a choice
            return as_pinned(resolution, resolution.pinned, job.needs)
        cut = self.choosing.ask(job, sight)
        return decide(
            resolution,
            job.needs,
            lambda: self._judge(job),
            override=job.wishes.tier,
            default_tier=self.choosing.default_tier,
            cut=cut,
            order=rules.order,
            fallback=rules.fallback,
            talk=lambda: self.talks.held(job, rules.classifier.classify, cut, self.choosing.default_tier),
            sticky=self.talks.sticky,
            load=(loads or self.loads).at(job.wishes.priority),
            rules=rules.load,
            near=self.bands.of(job) if sight is None else sight.near(job.resolution.route),
        )

    def _classified(self, job: Job) -> Verdict:
        job.verdict = verdict = self.rules.classifier.classify(job.ask.fields, job.endpoint.name)
        return verdict

    def _foreseen(self, job: Job) -> Verdict:
        if job.foreseen is None:
            raise Undecided
        job.verdict = job.foreseen
        return job.foreseen

    def sight(self, tenant: str) -> Sight:
        """What this process goes by when it decides for a tenant."""
        return Sight(self.choosing.lines(tenant), self.bands.of_tenant(tenant))

    async def weigh(self, job: Job, loads: Loads | None = None, sight: Sight | None = None) -> Decision:
        """As `decide`, once whoever has to be asked first has answered."""
        try:
            return self.decide(job, loads, sight)
        except Undecided:
            job.foreseen = await self._asked.judge(job.ask.fields, job.endpoint.name, job.principal.tenant)
            return self.decide(job, loads, sight)

    async def decision(self, job: Job) -> Decision:
        """Where it goes, decided once for each request, and in the account of its target from then on."""
        return job.decision or self.choose(job, await self.weigh(job))

    def capped(self, job: Job) -> bool:
        return self.choosing.capped(job)

    def choose(self, job: Job, decision: Decision) -> Decision:
        """It goes there, and not where it was to go before."""
        forgo(job.work)
        job.decision = decision
        self.choosing.expect(job, decision)
        return decision

    def plan(self, job: Job, target: Target) -> Plan:
        """What goes to one model, and what that takes. Made once for the model that comes first."""
        plan = job.plan
        if plan is None or plan.target is not target:
            station = self.stations[target.model.name]
            call = self._call(job, target, station)
            plan = job.plan = Plan(target, station, call, self._work_ask(job, target, station, call))
        return plan

    async def planned(self, job: Job, target: Target) -> Plan:
        """As `plan`; what takes milliseconds of a large request is done in steps."""
        if len(job.ask.raw) > _SMALL and (job.plan is None or job.plan.target is not target):
            await self.chains.ahead(job, self.stations[target.model.name], target.served_name)
        return self.plan(job, target)

    async def serve(self, job: Job, target: Target, sink: Sink) -> None:
        """One model: tokens reserved, a slot, its replicas. What it cost is settled on every way out."""
        plan = self.plan(job, target) if len(job.ask.raw) <= _SMALL else await self.planned(job, target)
        station, call = plan.station, plan.call
        if self._tokens.wanted(station):
            plan.ask.ids = await self._tokens.of(job, station, target.served_name, plan.ask.prompt_tokens)
        scope = job.waiting = job.admitted.work(plan.ask)
        job.work.queued_at = self._clock()
        began: float | None = job.work.queued_at
        try:
            async with scope as grant:
                began, job.waiting = None, None
                self._waited(job, station, grant.queued)
                if station.preempt == "never" or job.wishes.priority is not _BATCH:
                    return await self._run(job, plan, grant, sink)
                with suppress(GaveWay):
                    return await self._run(job, plan, grant, sink, Yielding(job, call, grant))
                self._gave_way(job, station)
                began = job.work.queued_at = self._clock()
                job.waiting = scope
                await grant.again()
                began, job.waiting = None, None
                self._waited(job, station, grant.queued)
                call.ending = Ending.NOT_SENT
                await self._run(job, plan, grant, sink)
        except (QueueFull, QueueTimeout, asyncio.CancelledError) as end:
            if began is not None:  # it left the queue without a slot
                self._waited(job, station, self._clock() - began, _ENDS.get(type(end), "left"))
            if isinstance(end, (QueueFull, QueueTimeout)):
                reason = refusal(end).code
                self._metrics.queue_refusals.add((station.name, _CLASS[job.wishes.priority], reason))
            raise
        finally:
            job.work.queued_at = 0.0

    async def serve_spare(self, job: Job, target: Target, sink: Sink) -> None:
        """One model, as long as nobody else wants the slot: GaveWay when somebody does, QueueTimeout where there is none."""
        plan = await self.planned(job, target)
        plan.ask.spare = True
        async with job.admitted.work(plan.ask) as grant:
            await self._run(job, plan, grant, sink, Spare(job, plan.call, grant))

    async def _run(self, job: Job, plan: Plan, grant: Grant, sink: Sink, yielding: Yielding | None = None) -> None:
        """With a slot: what the fleet does for it. Its cost is settled, unless it gave its slot up."""
        station, call = plan.station, plan.call
        try:
            if station.engine_priority and job.endpoint.prioritized:
                call.body = self.upstream_body(job, call.model, station)
            if yielding is None:
                await self._forwarder.forward(call, station, grant, sink, job.failures)
            else:
                async with yielding:
                    await self._forwarder.forward(call, station, grant, sink, job.failures)
        finally:
            if call.ending is not _PREEMPTED:
                grant.settle(self._charge(job, plan, grant.tokens), _spent(job, plan))

    def _gave_way(self, job: Job, station: Station) -> None:
        """Raises Preempted where it is not to wait again."""
        requeue = station.preempt == "requeue"
        job.work.preempted = "requeued" if requeue else "refused"
        self._metrics.preemptions.add((station.name, job.work.preempted))
        if not requeue:
            raise Preempted

    def _charge(self, job: Job, plan: Plan, reserved: int) -> int:
        work, call, estimate = job.work, plan.call, plan.ask.prompt_tokens
        work.charged = charge(
            call.ending,
            stream=call.stream,
            usage=0 if job.endpoint.free else call.usage,
            prompt_estimate=estimate,
            deltas=call.deltas,
            reserved=reserved,
        )
        if call.usage is None and work.charged:  # what no backend counted is told as it was charged
            work.prompt_tokens, work.completion_tokens = estimate, call.deltas
        if call.usage is not None and call.ending is _COMPLETE:
            learn(job, plan.station, self._metrics)
            self._recurring.note(job, plan.station.name, plan.target.served_name)
        work.charged = plan.bill(work.charged)
        return work.charged

    def _waited(self, job: Job, station: Station, seconds: float, end: str = "dispatched") -> None:
        job.work.queued += seconds
        job.work.queued_at = 0.0
        where = station.name, _CLASS[job.wishes.priority]
        self._metrics.queue_wait.observe(where, seconds)
        if seconds:  # else a slot was free
            self._metrics.queue_ended.add((*where, end))

    def now(self) -> float:
        """By the clock that deadlines go by."""
        return self._clock()

    def work_ask(self, job: Job, target: Target) -> WorkAsk:
        """What it would need of that model."""
        station = self.stations[target.model.name]
        return self._work_ask(job, target, station, self._call(job, target, station))

    def _work_ask(self, job: Job, target: Target, station: Station, call: Call) -> WorkAsk:
        principal = job.principal
        prompt = estimate_of(job, station)
        tokens, clamp, most = amounts(job, station, prompt)
        wishes = job.wishes
        return WorkAsk(  # in the order of its fields: matching twenty names takes longer than making it
            station.name,
            tokens,
            clamp,
            principal.model_scopes.get(target.model.name),
            wishes.priority,
            principal.tenant,
            principal.weight,
            len(call.body),
            call.deadline,
            job.session,
            prompt,
            form_of(job),
            most,
            math.inf if wishes.deadline is None else job.arrived + wishes.deadline,
            job.ask.stream,
            None,
            _leaves(job),
            self.chains.of(job, station, target.served_name),
            job.shared,
        )

    def _call(self, job: Job, target: Target, station: Station) -> Call:
        wishes = job.wishes
        patience = station.timeouts.total
        if wishes.deadline is not None and not job.shared:  # shared work has no personal deadline: see `gateway.patience`
            patience = min(patience, wishes.deadline)
        served = target.served_name
        return Call(  # in the order of its fields, as above
            job.exchange_id,
            job.endpoint,
            job.headers,
            self.upstream_body(job, served, station),
            served,
            job.ask.stream,
            job.arrived + patience,
            job.work,
            wishes.deadline is not None and patience < station.timeouts.total,
        )

    def upstream_body(self, job: Job, served_name: str, station: Station) -> bytes:
        """What goes to a replica of that station."""
        ask, endpoint = job.ask, job.endpoint
        if isinstance(ask, multipart.FormAsk):
            return multipart.edit(ask, served_name)
        priority = _ENGINE_PRIORITY[job.wishes.priority] if station.engine_priority and endpoint.prioritized else None
        salt = self._salt(job.principal.tenant) if endpoint.salted else None
        return wire.edit(ask, model=served_name, cache_salt=salt, priority=priority, stream_options=endpoint.stream_options)


def _leaves(job: Job) -> float:
    """Until when its client waits for a slot, by its SDK; of shared work by its deadline, too, which is not the work's."""
    until, deadline = leaves(job), job.wishes.deadline
    return min(until, job.arrived + deadline) if job.shared and deadline is not None else until


def _refuse_state(ask: wire.Ask, endpoint: Endpoint) -> None:
    """What one replica keeps, no other one knows, and every tenant of the fleet could ask for."""
    for name in endpoint.stateless:
        if ask.fields.get(name):
            message = f"`{name}` is not served: answers are not kept here. Send the whole conversation in `input`."
            raise ApiError(400, "unsupported_field", message, param=name)


def _spent(job: Job, plan: Plan) -> Spent | None:
    work, call = job.work, plan.call
    return spent(
        call.ending,
        stream=call.stream,
        counted=call.usage is not None and not job.endpoint.free,
        prompt=work.prompt_tokens,
        cached=work.cached_tokens,
        output=work.completion_tokens,
        prompt_estimate=plan.ask.prompt_tokens,
        deltas=call.deltas,
    )


def _choices(ask: wire.Ask) -> int:
    return max(ask.integer("n") or 1, ask.integer("best_of") or 1) * prompts(ask)


def form_of(job: Job) -> str:
    """What tells something of the length of an answer, and is no number: the operation, and what its client does with it."""
    fields, endpoint = job.ask.fields, job.endpoint
    if not endpoint.generates:
        return endpoint.name
    tools = "+tools" if fields.get("tools") else ""
    shaped = "+json" if fields.get("response_format") else ""
    return f"{endpoint.name}{'+stream' if job.ask.stream else ''}{tools}{shaped}"


def amounts(job: Job, station: Station, prompt: int) -> tuple[int, bool, int | None]:
    """(Tokens to reserve with a prompt of so many, whether a limit's burst may cut them, the longest that all answers can be).

    Of an answer whose length nobody bounds, None: the client named no maximum. What does not generate is never too large.
    """
    ask, endpoint = job.ask, job.endpoint
    if not endpoint.generates:
        return min(reservation(prompt, 1, 0, 0), _MOST_TOKENS), True, 0
    fields, most = ask.fields, None
    choices = _choices(ask) if "n" in fields or "best_of" in fields or "prompt" in fields else 1
    for name in endpoint.limits:
        if name in fields:
            most = longest(choices, [ask.maximum(name) for name in endpoint.limits])
            break
    tokens = reservation(prompt, choices, most, station.default_max_tokens)
    if most is not None and most > _MOST_TOKENS:
        most = _MOST_TOKENS
    return tokens if tokens < _MOST_TOKENS else _MOST_TOKENS, most is None, most
