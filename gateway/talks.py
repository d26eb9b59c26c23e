"""Conversations of this node: what they hold, for decisions under `auto`.

Rules of this file
- Reading spends nothing and changes nothing, so that an explanation may do it. Noted is what is about to be sent, before it is:
  whoever has the answer may ask the next thing at once.
- What a conversation holds is the tier that its words have brought it to. A slot that was borrowed, or a tier that stood in for
  one that failed, is not; but a tool loop goes on with the model that really answers it.
- Small talk at the beginning leaves no tier, whether it is kept or not: what is kept of it is the model of its tool loop.
- Nothing kept (another gateway had the last turn, or it was forgotten): then up to EARLIER asks of the body are judged again;
  small talk among them says nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

from gateway.job import Job
from routing.aims import Cut
from routing.conversation import Thread, field_of, messages_of
from routing.decide import tiers_of, wanted_tier
from routing.rules import leans
from routing.sessions import Held, Sticky, fold
from routing.table import Record, Table
from routing.types import Decision, Target, Verdict
from routing.whose import Names, names_of

EARLIER = 4
_CHOSEN = frozenset({"score", "default", "budget", "session", "load"})

Judge = Callable[[Mapping[str, Any], str], Verdict]


class NoTalks:
    """Every request stands for itself."""

    sticky = Sticky()

    def held(self, job: Job, judge: Judge, cut: Cut, default_tier: str, /) -> Held | None:  # noqa: ARG002 - as the others
        """What its conversation holds; None: it begins, or nobody knows. `judge` rates an ask of a body for an endpoint; it
        goes up by `cut`, and to the default tier where it has no score and that lets it up.
        """
        return None

    def note(self, job: Job, decision: Decision, target: Target, /) -> None:
        """It is about to be sent there."""


class Talks(NoTalks):
    """`warm`: seconds after which engines are thought to have dropped what they read. `clock` is the machine's."""

    def __init__(
        self,
        table: Table,
        key: bytes,
        sticky: Sticky,
        warm: float,
        order: tuple[str, ...],
        clock: Callable[[], float],
    ) -> None:
        self._table = table
        self._key = key
        self.sticky = sticky
        self._warm = warm
        self._order = order
        self._clock = clock

    def held(self, job: Job, judge: Judge, cut: Cut, default_tier: str, /) -> Held | None:
        names = self._names(job)
        if names is None:
            return None
        if names.goes_on:
            same = self._table.get(names.own)
            if same is not None and same.ask == names.ask:
                return self._held(names, same, same.easy, same.model if same.loops < self.sticky.loop else "")
        last = self._table.get(names.before) if names.before else None
        if last is None or not last.tier:
            return self._made_out(job, names, judge, cut, default_tier)
        again = last.ask == names.ask  # the same ask once more, which is counted already
        return self._held(names, last, max(0, last.easy - 1) if again else last.easy)

    def note(self, job: Job, decision: Decision, target: Target, /) -> None:
        if not job.resolution.auto:
            return
        names = self._names(job)
        if names is None:
            return
        read = job.needs.prompt_tokens if target.model.tier == decision.keeps else 0
        held = decision.held
        if held is not None and decision.turned == "looped":
            loops, chosen = held.loops + 1, held.chosen and target is decision.target
        else:
            loops, chosen = 0, decision.reason in _CHOSEN and target.model.tier == (decision.keeps or decision.wanted)
        record = Record(names.ask, decision.keeps, target.name, decision.easy, read, self._clock(), loops, chosen)
        self._table.put(names.own, job.principal.tenant, record)

    def _names(self, job: Job) -> Names | None:
        if job.names is None:
            tenant, session, fields = job.principal.tenant, job.wishes.session, job.ask.fields
            route = job.resolution.route
            job.names = (names_of(self._key, tenant, route, fields, job.endpoint.name, session),)
        return job.names[0]

    def _held(self, names: Names, record: Record, easy: int, model: str = "") -> Held:
        cost = record.tokens if self._clock() - record.at < self._warm else 0
        return Held(record.tier, model, easy, cost, leans(names.newest), loops=record.loops, chosen=record.chosen)

    def _made_out(self, job: Job, names: Names, judge: Judge, cut: Cut, default_tier: str) -> Held | None:
        """From the body alone: each of the earlier asks as if it were the newest."""
        fields, endpoint = job.ask.fields, job.endpoint.name
        if not names.before or endpoint == "completions":
            return None
        messages = messages_of(fields, endpoint)
        thread = Thread(messages)
        thread.ask()
        ends = list(islice(iter(lambda: thread.end if thread.ask() else -1, -1), EARLIER))
        tiers = tiers_of(job.resolution.candidates, self._order)
        wants: list[tuple[str, bool]] = []
        for end in reversed(ends):
            judged = judge({**fields, field_of(endpoint): messages[:end]}, endpoint)
            if judged.idle:
                continue
            wanted, reason = wanted_tier(judged, tiers, default_tier, cut)
            wants.append((wanted, reason == "score"))
        held = fold(wants, job.needs.prompt_tokens, tiers, self.sticky)
        return None if held is None else held._replace(leans=leans(names.newest))
