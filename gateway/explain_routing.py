"""The parts of a route that come from the conversation and from the load of the pools, as they are explained."""

from __future__ import annotations

import msgspec

from gateway.job import Job
from gateway.pipeline import Pipeline
from routing.load import PoolLoad
from routing.types import Decision, Target


class SessionView(msgspec.Struct, frozen=True):
    """What a conversation held before this turn, and what that makes of it: `turned` is same, kept, up, down or looped.

    `wanted`: the tier for this turn alone. `easy` turns in a row so far, of the `easy_turns` that stay up; going down would cost
    `cost` tokens, and may cost `move_tokens`. `leans`: the turn goes on with what was said before. `kept`: it was remembered,
    else made out from the body. `model`: the one that a tool loop goes on with.
    """

    tier: str
    wanted: str
    turned: str
    easy: int
    easy_turns: int
    cost: int
    move_tokens: int
    leans: bool
    kept: bool
    model: str = ""


class LoadView(msgspec.Struct, frozen=True):
    """A pool now: `wait` seconds until a newcomer of this class has a slot, None: not known; `meant`: the wait from which on its
    tier is overloaded. `known` is False where nothing runs that could know it.
    """

    model: str
    tier: str
    meant: float
    known: bool = False
    ready: bool = False
    free: int = 0
    slots: int = 0
    wait: float | None = None


def session_of(pipeline: Pipeline, decision: Decision) -> SessionView | None:
    held, sticky = decision.held, pipeline.talks.sticky
    if held is None:
        return None
    return SessionView(
        held.tier, decision.wanted, decision.turned or "", held.easy, sticky.turns, held.cost, sticky.tokens, held.leans,
        held.kept, held.model,
    )  # fmt: skip


def loads_of(pipeline: Pipeline, job: Job) -> tuple[LoadView, ...]:
    """Of what `auto` may mean; a pinned model is asked whatever its load."""
    look = pipeline.loads.at(job.wishes.priority)
    rules = pipeline.rules.load
    targets = job.resolution.candidates if job.resolution.auto else ()
    return tuple(_view(target, look(target.model.name), rules.meant(target.model.tier)) for target in targets)


def _view(target: Target, pool: PoolLoad | None, meant: float) -> LoadView:
    if pool is None:
        return LoadView(target.name, target.model.tier, meant)
    return LoadView(target.name, target.model.tier, meant, True, pool.ready, pool.free, pool.slots, pool.wait)
