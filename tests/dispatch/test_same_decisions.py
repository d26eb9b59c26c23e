"""Whatever requests do, over links the owner decides as it does in one process: every figure, replica, turn and balance."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import uvloop
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import MODELS, SCOPES, Wish, World, one_process, workers

from gateway.dispatch.types import Question, WorkAsk
from limits.waiting import Priority

Step = tuple[Any, ...]

WISHES = st.builds(
    Wish,
    tenant=st.sampled_from(["acme", "globex", "initech", "initech"]),
    model=st.sampled_from(MODELS),
    fallback=st.sampled_from([None, None, "least"]),
    content=st.sampled_from([0, 0, 1, 2]),
    tokens=st.sampled_from([10, 200, 900, 7000]),
    clamp=st.booleans(),
    priority=st.integers(0, 2),
    patience=st.sampled_from([25.0, 35.0, 60.0]),
    share=st.booleans(),
)
_WORDS = ["first", "answered", "failed", "failed", "later", "refused", "unreachable", "silent"]
WORDS = st.sampled_from(_WORDS)
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
    running = [request for request in world.requests if not request.task.done() or request.listens is not None]
    who = running[args[0] % len(running)] if running and verb in ("told", "leaves", "raised") else None
    if verb == "asks":
        world.start(args[0])
    elif verb == "time":
        world.clock.now += args[0]
        world.expire()
    elif verb == "health":
        replicas = world.owner.lanes[args[0]].pool.replicas
        replicas[args[1] % len(replicas)].up = args[2]
    elif verb == "deleted":
        wanted = [request.wish.key.hex() for request in world.requests if request.wish.key]
        if wanted:
            gone = await world.owner.both.delete(wanted[args[0] % len(wanted)], None)
            world.events.append((None, "deleted", gone))
    elif who is not None and verb == "told":
        who.tell(args[1], args[2])
    elif who is not None and verb == "leaves":
        who.task.cancel()
    elif who is not None and who.waiting is not None and args[1] < who.priority:
        who.on_raise(args[1])
        world.events.append((who.number, "raised", args[1]))
    await world.settle()


def compare(apart: World, alone: World) -> set[str]:
    """What was seen."""
    lanes = alone.owner.lanes.values()
    seen = {str(event[1]) for event in alone.events}
    seen |= {"waits" for lane in lanes if lane.scheduler.queue.load.requests}
    seen |= {"tripped" for lane in lanes for replica in lane.pool.replicas if replica.breaker.tripped}
    for world in (apart, alone):
        if len({event[0] for event in world.events}) > 1:  # where one stands depends on the order within the step
            world.events = [tuple(part for part in event if not isinstance(part, tuple)) for event in world.events]
    here, there = alone.decided(), apart.decided()
    assert [(what, there[what], here[what]) for what in here if there[what] != here[what]] == []
    return seen


async def _same(trace: list[Step], folder: Path, count: int) -> set[str]:
    seen: set[str] = set()
    async with one_process(folder) as alone, workers(folder, count) as apart:
        await apart.settle()
        for step in [*trace, ("time", 61.0)]:
            await do(alone, step)
            await do(apart, step)
            seen |= compare(apart, alone)
        while any(not request.task.done() for request in alone.requests):
            for number in range(len(alone.requests)):
                for world in (alone, apart):
                    world.requests[number].tell("answered", 20)
                    await world.settle()
                compare(apart, alone)
        assert all(request.task.done() for request in apart.requests)
        assert apart.restless() == []
    return seen


def play(trace: list[Step], count: int) -> set[str]:
    with TemporaryDirectory() as folder, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_same(trace, Path(folder), count))


def busy(rng: random.Random) -> list[Step]:
    """What a fleet with too few slots sees, and much of it twice."""
    steps: list[Step] = []
    for _ in range(150):
        verb = rng.choices(list(_OFTEN), list(_OFTEN.values()))[0]
        if verb == "asks":
            tenant, fallback, share = (
                rng.choice(["acme", "globex", "initech", "initech"]),
                rng.choice([None, None, "least"]),
                rng.random() < 0.6,
            )
            content, tokens = rng.choice([0, 0, 0, 1, 2, 3]), rng.choice([10, 50, 200, 900, 7000])
            model, patience = rng.choice(["turns", "turns", *MODELS]), rng.choice([25.0, 35.0, 60.0])
            wish = Wish(tenant, model, fallback, content, tokens, rng.random() < 0.5, rng.randrange(3), patience, share)
            steps.append((verb, wish))
        elif verb == "told":
            word = rng.choice(["answered", "answered", "answered", *_WORDS])
            steps.append((verb, rng.randrange(30), word, rng.choice([0, 5, 60, 300])))
        elif verb == "time":
            steps.append((verb, rng.choice([0.5, 0.5, 2.0, 6.0, 31.0])))
        elif verb == "health":
            steps.append((verb, rng.choice(MODELS), rng.randrange(3), rng.random() < 0.5))
        else:
            steps.append((verb, rng.randrange(30), rng.randrange(3)))
    return steps


_OFTEN = {"asks": 40, "told": 32, "time": 9, "raised": 6, "leaves": 5, "deleted": 3, "health": 4}


@pytest.mark.parametrize("count", [1, 2])
def test_busy_traces(count: int) -> None:
    """Long ones, in which everything happens that can: hits, shared answers, all refusals, queues, trips of breakers."""
    seen: set[str] = set()
    for seed in range(12):
        seen |= play(busy(random.Random(seed)), count)
    assert seen >= {
        "asks", "granted", "limited", "limited on", "deleted", "left", "Unserved", "NoReplica", "leads", "shares", "orphaned",
        "hit", "full", "queued in vain", "waits", "tripped", "raised", "gave way", "granted again",
    }  # fmt: skip


@pytest.mark.parametrize("count", [1, 2])
def test_the_same_trace_the_same_decisions(count: int) -> None:
    """One thing after the other, as hypothesis thinks of it: nobody can tell whether the owner is in the same process."""

    @settings(max_examples=50)
    @given(STEPS)
    def check(trace: list[Step]) -> None:
        play(trace, count)

    check()


def wish(content: int = 0, tokens: int = 50, model: str = "turns") -> Wish:
    return Wish("acme", model, None, content, tokens, clamp=False, priority=1, patience=35.0, share=bool(content))


async def _given_up(folder: Path, busy: int, content: int, turns: int) -> None:
    async with one_process(folder) as alone, workers(folder, 1) as apart:
        for world in (alone, apart):
            for _ in range(busy):
                world.start(wish())
            await world.settle()
            request = world.start(wish(content))
            world.start(wish(content))
            await asyncio.sleep(0)  # its admission is asked for: in one process it is through
            for _ in range(turns):
                await asyncio.sleep(0)
            request.task.cancel()
            next_one = world.start(wish())  # what it has to say goes with the next question
            await world.settle()
            next_one.task.cancel()
            await world.settle()
            for each in world.requests:
                each.task.cancel()
                await world.settle()
        spent = [world.owner.limiter.ledger._accounts["key:a"] for world in (alone, apart)]
        assert spent[0].requests == spent[1].requests > 0, "a request is one, whenever its client leaves"
        assert {account.parallel for account in apart.owner.limiter.ledger._accounts.values()} == {0}
        lanes = apart.owner.lanes.values()
        assert not any(lane.scheduler.inflight or lane.scheduler.queue.load.requests for lane in lanes)
        assert not any(replica.inflight for lane in lanes for replica in lane.pool.replicas)
        assert apart.restless() == []


@pytest.mark.parametrize("busy", [0, 2], ids=["free", "full"])
@pytest.mark.parametrize("content", [0, 1], ids=["alone", "shared"])
def test_given_up_at_any_moment(busy: int, content: int) -> None:
    """Asked, and given up so many turns of the loop later: nothing is held, nothing waits, every End was heard."""
    for turns in range(12):
        with TemporaryDirectory() as folder, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_given_up(Path(folder), busy, content, turns))


async def _not_taken_up(folder: Path) -> None:
    async with workers(folder, 1) as apart:
        mine = wish()
        ask = WorkAsk(mine.model, 50, False, None, Priority.STANDARD, "acme", 1, 1, apart.clock() + 30.0, None, 1)
        question = Question(lookup=None, share=None, stream=False, first=lambda: ask)
        async with apart.processes[0].dispatcher.admit(SCOPES["acme"], question):
            await apart.settle()
            assert apart.owner.lanes[mine.model].scheduler.inflight == 1
        await apart.settle()
        assert apart.owner.lanes[mine.model].scheduler.inflight == 0
        assert apart.owner.limiter.standing(SCOPES["acme"]).token_remaining == 9000
        assert apart.restless() == []


def test_work_that_was_granted_and_not_taken_up(tmp_path: Path) -> None:
    """What was asked for with the admission, and then not needed, goes back with it."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_not_taken_up(tmp_path))
