"""The first of those who share an answer leaves, and their work needs more: over links all goes as it does in one process."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import uvloop
from test_same_decisions import compare, do
from worlds import Wish, one_process, workers

MOMENTS = ["before a slot", "in the first attempt", "in the second attempt", "in the second work", "never"]


async def _left_behind(folder: Path, *, blocked: bool, leaves: str, second: str, count: int) -> None:
    """Two share an answer whose first model fails; the first of them leaves at some moment before."""
    shared = Wish("acme", "turns", "least", 1, 200, clamp=False, priority=1, patience=60.0, share=True)
    async with one_process(folder) as alone, workers(folder, count) as apart:

        async def step(*what: Any) -> None:
            await asyncio.gather(do(alone, what), do(apart, what))
            compare(apart, alone)

        for _ in range(2 if blocked else 0):
            await step("asks", Wish("initech", "turns", None, 0, 10, clamp=False, priority=1, patience=60.0, share=False))
        waiting = len(alone.requests)
        await step("asks", shared)
        await step("asks", shared)

        async def tell(*what: Any) -> None:
            for world in (alone, apart):
                world.requests[waiting].tell(*what)
                await world.settle()
            compare(apart, alone)

        async def leave(when: str) -> None:
            if when == leaves:
                for world in (alone, apart):
                    world.requests[waiting].task.cancel()
                    await world.settle()
                compare(apart, alone)

        await leave("before a slot")
        for number in range(2 if blocked else 0):
            for world in (alone, apart):
                world.requests[number].tell("answered", 5)
                await world.settle()
        await leave("in the first attempt")
        await tell("failed", 0)
        await leave("in the second attempt")
        await tell("failed", 0)
        await leave("in the second work")
        for _ in range(3 if second == "failed" else 1):
            await tell(second, 20)
        ends = [request.task.done() for request in apart.requests]
        if second == "failed":  # the second chance of who stayed
            assert ends[-1] is False
            for world in (alone, apart):
                world.requests[-1].tell("answered", 20)
                await world.settle()
            compare(apart, alone)
        assert [request.task.done() for request in apart.requests] == [True] * len(apart.requests)
        assert apart.restless() == []


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("second", ["answered", "failed"])
@pytest.mark.parametrize(
    "leaves", ["before a slot", "in the first attempt", "in the second attempt", "in the second work", "never"]
)
@pytest.mark.parametrize("blocked", [False, True], ids=["free", "full"])
def test_who_leaves_work_that_goes_on_for_others(tmp_path: Path, blocked: bool, leaves: str, second: str, count: int) -> None:
    """Whenever the first of those who share an answer leaves, what its work still needs is granted, counted and settled alike."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_left_behind(tmp_path, blocked=blocked, leaves=leaves, second=second, count=count))
