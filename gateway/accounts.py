"""What every finished request leaves behind: one log line, and its part of the metrics.

The work behind an answer may have been for several requests. Its tokens are told once: on the line, and in the counters, of
the first of them to end after the work did.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from gateway.exchange import Exchange, Work
from gateway.logline import LogLine
from gateway.logs import RequestLog
from gateway.metrics import Metrics

_Ended = tuple[str, str, str, str]
"""Tenant, model, tier, outcome."""


class Accounts:
    """Takes finished exchanges; nothing about them changes any more."""

    def __init__(self, metrics: Metrics, log: RequestLog, clock: Callable[[], float]) -> None:
        self._metrics = metrics
        self._log = log
        self._clock = clock
        self._prompt, self._completion = metrics.tokens.row(("prompt",)), metrics.tokens.row(("completion",))
        self._overhead = metrics.overhead.row(())
        self._ended: dict[_Ended, tuple[list[float], list[float]]] = {}  # rows of `requests` and `duration`

    def close(self, x: Exchange) -> None:
        """The request has ended."""
        now = self._clock()
        duration = now - x.arrived if x.arrived else 0.0
        work, metrics, principal = x.work, self._metrics, x.principal
        upstream = work.upstream + (now - work.attempt_at if work.attempt_at else 0.0)
        tenant = metrics.tenant(principal.tenant) if principal is not None else ""
        ended = tenant, work.model, work.tier, x.outcome
        queued = work.queued + (now - work.queued_at if work.queued_at else 0.0)
        overhead = max(0.0, duration - queued - upstream - x.body_wait)
        first = work.settled and not work.reported
        past = [each for each in x.past if each.settled and not each.reported] if x.past else ()
        if work.attempts or x.cache:
            requests, durations = self._ended.get(ended) or self._rows(ended)
            requests[0] += 1
            metrics.duration.note(durations, duration)
            if not x.shared:
                metrics.overhead.note(self._overhead, overhead)
        else:
            metrics.requests.add(ended)
        if first:
            self._account_work(x)
        if x.outcome == "limited":
            metrics.limited.add((tenant, x.limit or "upstream"))
        line = _line(x, duration, queued, overhead, first=first)
        for each in past:
            self._account_past(each, line)
        self._log.write(line)

    def _rows(self, ended: _Ended) -> tuple[list[float], list[float]]:
        rows = self._ended[ended] = self._metrics.requests.row(ended), self._metrics.duration.row(ended[1:3])
        return rows

    def _account_past(self, work: Work, line: LogLine) -> None:
        """A failed work that nobody has told of: whom it was charged to had left before it ended."""
        self._count_tokens(work)
        line.prompt_tokens += work.prompt_tokens
        line.completion_tokens += work.completion_tokens
        line.charged_tokens += work.charged

    def _count_tokens(self, work: Work) -> None:
        work.reported = True
        self._prompt[0] += work.prompt_tokens
        self._completion[0] += work.completion_tokens
        if work.cached_tokens is not None:
            prefixes = self._metrics.prefix_tokens
            prefixes.add((work.model, "hit"), work.cached_tokens)
            prefixes.add((work.model, "miss"), max(0, work.prompt_tokens - work.cached_tokens))

    def _account_work(self, x: Exchange) -> None:
        """The work of one or many requests, counted once."""
        work, metrics = x.work, self._metrics
        self._count_tokens(work)
        if x.stream and work.first_byte_at:
            where = (work.model, work.tier)
            metrics.ttft.observe(where, max(0.0, work.first_byte_at - x.arrived))
            if work.completion_tokens > 1:
                metrics.tpot.observe(where, (work.last_byte_at - work.first_byte_at) / (work.completion_tokens - 1))


def _line(x: Exchange, duration: float, queued: float, overhead: float, *, first: bool) -> LogLine:
    """Tokens are on the `first` line of the work that made them."""
    work, principal = x.work, x.principal
    line = LogLine(
        int(time.time() * 1_000 + 0.5) / 1_000,  # as `round` does, in a third of the time: none of them is less than nothing
        x.id,
        x.client,
        principal.tenant if principal else None,
        principal.key_id if principal else None,
        x.method,
        x.endpoint,
        x.status,
        x.outcome,
        x.stream,
        x.requested_model[:128],
        work.model,
        work.tier,
        work.reason,
        work.score,
        x.cache,
        work.replica,
        work.attempts,
        work.prompt_tokens if first else 0,
        work.completion_tokens if first else 0,
        work.cached_tokens if first else None,
        x.hit_tokens + (work.charged if first else 0),
        int(queued * 100_000 + 0.5) / 100,
        round((work.first_byte_at - x.arrived) * 1000, 2) if work.first_byte_at and x.stream and not x.shared else None,
        int(duration * 100_000 + 0.5) / 100,
        int(overhead * 1_000_000 + 0.5) / 1_000,
        x.client_id,
        work.preempted,
        x.error,
        x.cache_reason,
        x.similar,
    )
    if x.similar_score is not None:
        line.semantic_score = round(x.similar_score, 4)
    if x.feedback:
        line.feedback_on, line.feedback_score = x.feedback
    if work.cascade:
        line.cascade, line.small_tokens = work.cascade, work.small_tokens if first else 0
    if work.classifier:
        line.classifier = work.classifier
    if work.instead:
        line.classifier_failed = work.instead
    if work.policy:
        line.policy = work.policy
    if work.score is not None and work.cut is not None:
        line.cut = round(min(work.cut, 1.0), 4)
    if work.terms:
        line.terms = dict(work.terms[:5])
    return line
