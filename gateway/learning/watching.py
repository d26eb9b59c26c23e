"""Where requests pass by: a few that `auto` decided are also asked of the other end of the tiers, and what that shows is noted.

Rules of this file
- The client's answer is neither changed nor held up: its bytes are copied as they go by, and the rest happens in a task behind
  it, in class batch, on nobody's account. It takes a slot only where nobody wants it, gives it back as soon as somebody does
  (`limits.spare`), and is left undone else.
- Looked at is what the classifier decided, of those tenants that are learned from, whose answer was made for this request by the
  model that was chosen: no hit, no renewal, no fallback. Not what says `no-store`, nor what asks for several answers, nor what
  has tools that the backend itself would run; tools that the client runs are only called, and calls can be compared.
  Nor a short ask within a conversation: it is judged by what it follows up, and its own words say nothing.
- Of more than two tiers the cheapest and the dearest are compared; what another one answered is not looked at, nor where one of
  the two may not answer.
- Whatever goes wrong behind a request ends there.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from typing import Any, Protocol

from caches.assemble import assemble
from caches.types import Flow
from caches.worth import worth_keeping
from gateway.behind import Behind, Gathered, Produce
from gateway.call import ContextOverflow, Unserved
from gateway.dispatch.types import NoReplica
from gateway.giveway import GaveWay
from gateway.job import Job, Plan
from gateway.learning.line import Line, Side, encode
from gateway.learning.outcome import Compares, NotJudged, Outcome, outcome
from gateway.learning.recent import Decided, Recent
from gateway.learning.said import said
from gateway.metrics import Metrics
from gateway.relay import Sink, json_object
from gateway.reply import Head
from gateway.shadow import Budget
from routing.conversation import thread_of
from routing.types import Decision, Target

OWN = "tiergate"  # in the queue, beside tenants
MOST_AT_ONCE = 8  # requests that are asked twice: what else runs behind requests has room beside them
MOST_ANSWER = 256 * 1024  # bytes of an answer that is compared
MOST_TEXT = 8_000  # characters of an ask that are kept
SHORT = 240  # characters of an ask that may mean something only after what was said before it
_OUTPUT = 1024  # tokens of an answer whose length nobody bounds, for the budget
_ENDPOINTS = frozenset({"chat", "completions", "responses", "messages"})
_CLIENTS = ("function", "custom")  # tools that the client runs
_REASONS = frozenset({"score", "default", "budget"})
_log = logging.getLogger("tiergate.learning")


class Makes(Protocol):
    """The pipeline: how a request is answered, and how one model is asked."""

    async def produce(self, job: Job, sink: Sink, /) -> None: ...
    async def planned(self, job: Job, target: Target, /) -> Plan: ...
    async def serve_spare(self, job: Job, target: Target, sink: Sink, /) -> None: ...


class NothingLearned:
    """`routing.learning` is off."""

    def wraps(self, makes: Makes) -> Produce:
        """How requests are answered from here on."""
        return makes.produce

    async def rated(self, tenant: str, request_id: str, score: float) -> bool:  # noqa: ARG002 - as the others
        """What a client says of an answer: whether it is a label."""
        return False

    def heard(self, tenant: str, request_id: str, score: float) -> bool | None:  # noqa: ARG002 - nothing is known here
        """The same, of an answer of this process; None: it was made elsewhere, or is forgotten."""
        return None


class Copied:
    """Passes an answer on, and keeps a copy."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self.kept = Gathered(MOST_ANSWER)

    @property
    def flow(self) -> Flow | None:
        return self._sink.flow

    @flow.setter
    def flow(self, flow: Flow | None) -> None:
        self._sink.flow = flow

    def begin(self, head: Head) -> None:
        self._sink.begin(head)
        self.kept.begin(head)

    def write(self, data: bytes, usage_only: bool = False) -> None:
        self._sink.write(data, usage_only)
        self.kept.write(data)

    def last(self) -> None:
        self._sink.last()


class Watching(NothingLearned):
    """`tiers`: the cheapest and the dearest. `note` takes a line; `elsewhere` hears of feedback on what is not known here."""

    def __init__(
        self,
        *,
        tiers: tuple[str, str],
        behind: Behind,
        note: Callable[[bytes], None],
        elsewhere: Callable[[str, str, float], Awaitable[bool]] | None,
        judge: Compares | None,
        share: float,
        budgets: tuple[Budget, Budget | None],
        tenants: Collection[str],
        grams: Callable[[str], tuple[list[int], list[float]]] | None,
        metrics: Metrics,
        clock: Callable[[], float],
        wall: Callable[[], float],
        rng: random.Random,
    ) -> None:
        self._tiers = tiers
        self._behind = behind
        self._note = note
        self._elsewhere = elsewhere
        self._judge = judge
        self._share = share
        self._requests, self._tokens = budgets
        self._tenants = frozenset(tenants)
        self._grams = grams
        self._metrics = metrics
        self._clock = clock
        self._wall = wall
        self._rng = rng
        self._recent = Recent()
        self._running = 0
        self._judged = True
        self._makes: Makes

    def wraps(self, makes: Makes) -> Produce:
        self._makes = makes
        return self._watched

    async def rated(self, tenant: str, request_id: str, score: float) -> bool:
        labelled = self.heard(tenant, request_id, score)
        if labelled is None and self._elsewhere is not None:
            labelled = await self._elsewhere(tenant, request_id, score)
        return bool(labelled)

    def heard(self, tenant: str, request_id: str, score: float) -> bool | None:
        found = self._recent.find(tenant, request_id)
        if found is None:
            return None
        if not self._recent.rate(found):
            return False
        line = found.line(self._wall())
        if found.answered == "small":
            line.small = score
        else:
            line.large = score
        self._write(line)
        return True

    async def _watched(self, job: Job, sink: Sink) -> None:
        if isinstance(sink, Gathered) or not self._learns_from(job):
            await self._makes.produce(job, sink)
            return
        copied = Copied(sink) if self._share and self._rng.random() < self._share else None
        await self._makes.produce(job, copied or sink)
        if job.decision is not None:  # once the answer is on its way
            asyncio.get_running_loop().call_soon(self._look_at, job, job.decision, copied)

    def _look_at(self, job: Job, decision: Decision, copied: Copied | None) -> None:
        cheap, dear = self._ends(decision)
        tier = decision.target.model.tier
        if cheap is None or dear is None or tier not in (cheap.model.tier, dear.model.tier) or not _as_decided(job, decision):
            return
        thread = thread_of(job.ask.fields, job.endpoint.name)
        text = thread.ask()[:MOST_TEXT]
        if not text or (len(text) < SHORT and thread.reply() is not None):
            return
        answered: Side = "small" if tier == cheap.model.tier else "large"
        decided = _decided(job, decision, text, answered)
        self._recent.add(decided)
        if copied is not None and self._running < MOST_AT_ONCE and self._may(job):
            self._behind.spawn(self._shadow(job, decided, dear if answered == "small" else cheap, copied.kept))

    def _ends(self, decision: Decision) -> tuple[Target | None, Target | None]:
        """Who may answer of the cheapest and of the dearest tier; of several the one that comes first."""
        able = (decision.target, *decision.alternatives)
        cheap, dear = self._tiers
        return _first(able, cheap), _first(able, dear)

    def _learns_from(self, job: Job) -> bool:
        tenants = self._tenants
        return (
            job.resolution.auto
            and job.endpoint.name in _ENDPOINTS
            and (not tenants or job.principal.tenant in tenants)
            and not job.wishes.cache.no_store
            and _one_answer(job.ask.fields)
            and _client_runs(job.ask.fields.get("tools"))
            and job.ask.fields.get("web_search_options") is None
        )

    def _may(self, job: Job) -> bool:
        if not self._requests.take():
            return False
        tokens = job.needs.prompt_tokens + (job.needs.max_tokens or _OUTPUT)
        return self._tokens is None or self._tokens.take(tokens)

    async def _shadow(self, job: Job, decided: Decided, other: Target, kept: Gathered) -> None:
        self._running += 1
        try:
            await self._learn(job, decided, other, kept)
        finally:
            self._running -= 1

    async def _learn(self, job: Job, decided: Decided, other: Target, kept: Gathered) -> None:
        mine = _whole(job, kept)
        if mine is None:
            return
        made = await self._behind.answer(job, partial(self._ask, other), paid=False)
        theirs = None if made is None else said(json_object(made[1]) or {})
        if theirs is None:
            self._metrics.route_shadows.add(("unanswered",))
            return
        small, large = (mine, theirs) if decided.answered == "small" else (theirs, mine)
        try:
            found = await outcome(decided.text, small, large, self._judge)
        except NotJudged:
            self._metrics.route_shadows.add(("unjudged",))
            self._tell_of_judge(answers=False)
            return
        if found is not None and found.source == "judge":
            self._tell_of_judge(answers=True)
        self._metrics.route_shadows.add((_name(found),))
        if found is not None:
            line = decided.line(self._wall())
            line.small, line.large, line.source, line.other = found.small, found.large, found.source, other.name
            self._write(line)

    async def _ask(self, other: Target, job: Job, sink: Sink) -> None:
        """One model, if it has a slot that nobody else wants, and as long as nobody does."""
        job.work.model, job.work.tier, job.work.reason = other.name, other.model.tier, "override"
        plan = await self._makes.planned(job, other)
        plan.ask.tenant, plan.ask.weight = OWN, 1
        try:
            await self._makes.serve_spare(job, other, sink)
        except (Unserved, NoReplica, ContextOverflow, GaveWay):
            raise job.failures.error() from None

    def _tell_of_judge(self, *, answers: bool) -> None:
        """Once, until it does again what it did not."""
        if self._judged and not answers:
            _log.warning("the judge of routing.learning does not answer, or with no letter: what it is asked about has no label")
        self._judged = answers

    def _write(self, line: Line) -> None:
        if self._grams is not None and line.text is not None:
            line.grams, line.amounts = self._grams(line.text)
            line.text = None
        self._note(encode(line))


def _first(targets: Sequence[Target], tier: str) -> Target | None:
    return next((target for target in targets if target.model.tier == tier), None)


def _as_decided(job: Job, decision: Decision) -> bool:
    """The classifier has decided, and the model that it chose has answered."""
    work = job.work
    return (
        job.verdict is not None
        and decision.reason in _REASONS
        and work.reason == decision.reason
        and work.model == decision.target.name
        and not work.broken
        and work.settled
    )


def _decided(job: Job, decision: Decision, text: str, answered: Side) -> Decided:
    verdict = job.verdict
    return Decided(
        id=job.known_as or job.exchange_id,
        tenant=job.principal.tenant,
        answered=answered,
        text=text,
        score=decision.score,
        told_small=None if verdict is None else verdict.small,
        told_large=None if verdict is None else verdict.large,
        policy=job.work.policy,
        model=decision.target.name,
    )


def _whole(job: Job, kept: Gathered) -> str | None:
    """What the client was told, if that was a whole answer."""
    head = kept.head
    if not kept.whole or head is None or head.status != HTTPStatus.OK:
        return None
    body = assemble(job.endpoint.name, kept.pieces) if head.stream else b"".join(kept.pieces)
    answer = None if body is None else json_object(body)
    return said(answer) if answer is not None and worth_keeping(answer) else None


def _one_answer(fields: Mapping[str, Any]) -> bool:
    return fields.get("n") in (None, 1) and fields.get("best_of") in (None, 1)


def _client_runs(tools: object) -> bool:
    """Whether all tools are functions of the client's: Anthropic's have no type, or `custom`."""
    if not tools:
        return True
    return type(tools) is list and all(type(tool) is dict and tool.get("type", "custom") in _CLIENTS for tool in tools)


def _name(found: Outcome | None) -> str:
    if found is None:
        return "unknown"
    return "good" if found.small >= found.large else "bad"
