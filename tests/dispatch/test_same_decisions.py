"""Whatever requests do, over links the owner decides as it does in one process: every figure, replica, turn and balance."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import uvloop
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import MODELS, Wish, World, one_process, ticks, workers

Step = tuple[Any, ...]

WISHES = st.builds(
    Wish,
    tenant=st.sampled_from(["acme", "globex"]),
    model=st.sampled_from(MODELS),
    fallback=st.sampled_from([None, None, "least"]),
    content=st.sampled_from([0, 0, 1, 2]),
    tokens=st.sampled_from([10, 200, 900, 7000]),
    clamp=st.booleans(),
    priority=st.integers(0, 2),
    patience=st.sampled_from([25.0, 35.0, 60.0]),
    share=st.booleans(),
)
WORDS = st.sampled_from(["first", "answered", "failed", "failed", "later", "refused", "unreachable", "silent"])
WHO = st.integers(0, 9)
STEPS: st.SearchStrategy[list[Step]] = st.lists(
    st.one_of(
        st.tuples(st.just("asks"), WISHES),
        st.tuples(st.just("asks"), WISHES),
        st.tuples(st.just("told"), WHO, WORDS, st.sampled_from([0, 5, 300, 2000])),
        st.tuples(st.just("told"), WHO, WORDS, st.sampled_from([0, 5, 300, 2000])),
        st.tuples(st.just("leaves"), WHO),
        st.tuples(st.just("raised"), WHO, st.integers(0, 2)),
        st.tuples(st.just("time"), st.sampled_from([0.5, 6.0, 31.0])),
        st.tuples(st.just("deleted"), WHO),
        st.tuples(st.just("health"), st.sampled_from(MODELS), st.integers(0, 1), st.booleans()),
    ),
    min_size=10,
    max_size=60,
)


async def do(world: World, step: Step) -> None:
    """One thing happens, and everything that follows from it."""
    verb, *args = step
    running = [request for request in world.requests if not request.task.done()]
    who = running[args[0] % len(running)] if running and verb in ("told", "leaves", "raised") else None
    if verb == "asks":
        world.start(args[0])
    elif verb == "time":
        world.clock.now += args[0]
        world.expire()
    elif verb == "health":
        world.owner.lanes[args[0]].pool.replicas[args[1]].up = args[2]
    elif verb == "deleted":
        wanted = [request.wish.key.hex() for request in world.requests if request.wish.key]
        if wanted:
            gone = await world.processes[args[0] % len(world.processes)].dispatcher.delete_entry(wanted[args[0] % len(wanted)], None)
            world.events.append(("deleted", gone))
    elif who is not None and verb == "told":
        who.tell(args[1], args[2])
    elif who is not None and verb == "leaves":
        who.task.cancel()
    elif who is not None and who.waiting is not None and args[1] < who.priority:
        who.on_raise(args[1])
    await world.settle()


def compare(apart: World, alone: World) -> None:
    here, there = alone.decided(), apart.decided()
    assert [(what, there[what], here[what]) for what in here if there[what] != here[what]] == []


async def _same(trace: list[Step], folder: Path, count: int) -> None:
    async with one_process(folder) as alone, workers(folder, count) as apart:
        await apart.settle()
        for step in [*trace, ("time", 61.0)]:
            await do(alone, step)
            await do(apart, step)
            compare(apart, alone)
        while any(not request.task.done() for request in alone.requests):
            for number in range(len(alone.requests)):
                for world in (alone, apart):
                    world.requests[number].tell("answered", 20)
                    await world.settle()
                compare(apart, alone)
        assert all(request.task.done() for request in apart.requests)
        assert apart.restless() == []


def play(trace: list[Step], count: int) -> None:
    with TemporaryDirectory() as folder, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_same(trace, Path(folder), count))


@pytest.mark.parametrize("count", [1, 2])
def test_the_same_trace_the_same_decisions(count: int) -> None:
    """One thing after the other, as hypothesis thinks of it: nobody can tell whether the owner is in the same process."""

    @settings(max_examples=80)
    @given(STEPS)
    def check(trace: list[Step]) -> None:
        play(trace, count)

    check()
