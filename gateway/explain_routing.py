"""The parts of a route that come from the conversation and from the load of the pools, as they are explained."""

from __future__ import annotations

from gateway.explanation import LoadView, SessionView
from gateway.job import Job
from gateway.pipeline import Pipeline
from routing.load import PoolLoad
from routing.types import Decision, Target


def session_of(pipeline: Pipeline, decision: Decision) -> SessionView | None:
    held, sticky = decision.held, pipeline.talks.sticky
    if held is None:
        return None
    return SessionView(
        held.tier, decision.wanted, decision.turned or "", held.easy, sticky.turns, held.cost, sticky.tokens, held.leans,
        held.kept, held.model, held.loops, sticky.loop,
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
