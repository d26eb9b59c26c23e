"""A slot is wanted back over a link, while everything else goes on that may cross it on its way. See `limits.lent`."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import uvloop
from worlds import Request, Wish, World, one_process, ticks, workers

from gateway.dispatch import messages as m
from gateway.dispatch.link import Link

Step = tuple[Any, ...]
_SLOTS = 2
_OFTEN = {"asks": 40, "told": 30, "raised": 4, "leaves": 6, "lost": 3, "time": 4}


def wish(priority: int, tenant: str = "globex", content: int = 0, patience: float = 60.0) -> Wish:
    return Wish(tenant, "turns", None, content, 10, clamp=False, priority=priority, patience=patience, share=bool(content))


def trace(rng: random.Random) -> list[Step]:
    """Mostly batch work on two slots, into which realtime work comes; the last number is turns of the loop until the next."""
    steps: list[Step] = []
    for _ in range(80):
        verb = rng.choices(list(_OFTEN), list(_OFTEN.values()))[0]
        what: Any = rng.randrange(30)
        if verb == "asks":
            what = wish(rng.choice([0, 2, 2]), rng.choice(["globex", "initech"]), rng.choice([0, 0, 1, 2]))
        elif verb == "told":
            what = rng.choice(["first", "answered", "answered", "failed", "refused"])
        elif verb == "time":
            what = rng.choice([0.5, 3.0, 31.0])
        steps.append((verb, what, rng.randrange(30), rng.choice([0, 0, 1, 2, 3, 5, 9])))
    return steps


def act(world: World, verb: str, what: Any, which: int) -> None:
    running = [request for request in world.requests if (request.listens if verb == "told" else not request.task.done())]
    who = running[which % len(running)] if running else None
    if verb == "asks":
        world.start(what)
    elif verb == "time":
        world.clock.now += what
        world.expire()
    elif verb == "lost":
        link = world.processes[which % len(world.processes)].dispatcher
        if isinstance(link, Link):
            link._channel.abort()
    elif who is not None and verb == "told":
        who.tell(what, 5)
    elif who is not None and verb == "leaves":
        who.task.cancel()
    elif who is not None and verb == "raised":
        who.on_raise(0)


async def finish(world: World) -> None:
    """Everything comes to its end; nothing is left of it anywhere."""
    await back(world)
    for _ in range(200):
        if all(request.task.done() for request in world.requests):
            break
        for request in world.requests:  # also one whose client has left: others may share its answer
            request.tell("answered", 5)
        act(world, "time", 6.0, 0)  # breakers are to be closed again
        await world.settle()
        await back(world)
    assert [request.number for request in world.requests if not request.task.done()] == []
    assert [error for request in world.requests if (error := failure(request))] == []
    await world.settle()
    assert world.restless() == []
    for lane in world.owner.lanes.values():
        scheduler = lane.scheduler
        assert (scheduler.inflight, scheduler.queue.load.requests) == (0, 0)
        assert scheduler._lent is not None
        assert not scheduler._lent._holders
        assert not scheduler._lent._orders
        assert not any(replica.inflight for replica in lane.pool.replicas)
        assert {line.account.running for line in scheduler.queue._lines} <= {0}
    assert {account.parallel for account in world.owner.limiter.ledger._accounts.values()} <= {0}  # type: ignore[attr-defined]


def failure(request: Request) -> BaseException | None:
    return None if request.task.cancelled() else request.task.exception()


async def back(world: World) -> None:
    """Who has lost its connection has another one."""
    async with asyncio.timeout(10):
        while any(isinstance(process.dispatcher, Link) and process.dispatcher.away for process in world.processes):
            await asyncio.sleep(0.001)


async def _raced(steps: list[Step], folder: Path, count: int, seen: Counter[str]) -> None:
    async with workers(folder, count) if count else one_process(folder) as world:
        await world.settle()
        for process in world.processes:
            if isinstance(process.dispatcher, Link):
                watch(process.dispatcher, seen)
        for verb, what, which, turns in steps:
            act(world, verb, what, which)
            await ticks(turns)
            if not count:  # who comes back on a new connection runs on, whatever there is
                assert world.owner.lanes["turns"].scheduler.inflight <= _SLOTS
        await finish(world)
        seen.update(str(event[1]) for event in world.events)


def watch(link: Link, seen: Counter[str]) -> None:
    """Count what is said of slots that are wanted back."""
    send = link.send

    def counted(message: Any) -> None:
        seen[type(message).__name__] += 1
        send(message)

    link.send = counted  # type: ignore[method-assign]


@pytest.mark.parametrize("count", [0, 1, 2], ids=["one process", "a worker", "two workers"])
def test_whatever_crosses_the_order_nothing_leaks(count: int) -> None:
    """First bytes, ends, raises, clients that leave, deadlines and lost connections, few turns of the loop apart: each request
    ends, once, and no slot, token, lease, place or order is left.
    """
    seen: Counter[str] = Counter()
    for seed in range(25):
        with TemporaryDirectory() as folder, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_raced(trace(random.Random(seed)), Path(folder), count, seen))
    assert seen["gave way"] > 15
    assert seen["granted again"] > 8
    if count:
        assert seen["Keep"] > 3, "some orders came too late"


async def _given_up(folder: Path, count: int, turns: int, verb: str) -> None:
    async with workers(folder, count) if count else one_process(folder) as world:
        await world.settle()
        batch = [world.start(wish(2)) for _ in range(2)]
        await world.settle()
        world.start(wish(0, "initech"))
        await ticks(turns)
        for one in batch:
            if verb == "leaves":
                one.task.cancel()
            elif verb == "lost":
                act(world, "lost", None, 0)
            else:
                one.tell(verb, 5)
        await ticks(turns % 3)
        await finish(world)


@pytest.mark.parametrize("verb", ["leaves", "first", "answered", "failed", "lost"])
@pytest.mark.parametrize("count", [0, 1], ids=["one process", "a worker"])
def test_at_any_moment_of_giving_way(count: int, verb: str) -> None:
    """A realtime request comes, and some turns of the loop later the batch requests leave, send, end, fail or lose the owner."""
    for turns in range(14):
        with TemporaryDirectory() as folder, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_given_up(Path(folder), count, turns, verb))


async def _late(folder: Path) -> None:
    """The order is on its way while the first byte is told."""
    async with workers(folder, 1) as world:
        await world.settle()
        link = world.processes[0].dispatcher
        assert isinstance(link, Link)
        batch = [world.start(wish(2)) for _ in range(2)]
        await world.settle()
        said: list[Any] = []
        send, link.send = link.send, said.append  # type: ignore[method-assign]
        urgent = world.start(wish(0, "initech"))
        [asked] = [message for message in said if isinstance(message, m.Ask)] or [None]
        while asked is None:
            await asyncio.sleep(0)
            [asked] = [message for message in said if isinstance(message, m.Ask)] or [None]
        link.send = send  # type: ignore[method-assign]
        link.send(asked)
        batch[1].tell("first", 5)  # before the worker hears of the order
        await world.settle()
        await world.settle()
        gave = [event[0] for event in world.events if event[1] == "gave way"]
        assert gave == [batch[0].number], "the other one gives way instead"
        assert ("granted" in [event[1] for event in world.events if event[0] == urgent.number]) is True
        await finish(world)


def test_a_first_byte_that_crosses_the_order(tmp_path: Path) -> None:
    """The worker refuses, its slot stays, and the next batch request is told."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_late(tmp_path))


async def _asked(folder: Path, how: str) -> None:
    """Two batch requests run, and a realtime one comes."""
    seen: Counter[str] = Counter()
    async with workers(folder, 1) as world:
        await world.settle()
        link = world.processes[0].dispatcher
        assert isinstance(link, Link)
        watch(link, seen)
        older, newer = [world.start(wish(2)) for _ in range(2)]
        await world.settle()
        if how == "all have sent":
            for one in (older, newer):
                one.tell("first", 5)
        else:
            newer.on_raise(0)  # somebody more urgent shares it: its worker alone knows
        await world.settle()
        world.start(wish(0, "initech"))
        await world.settle()
        await world.settle()
        gave = [event[0] for event in world.events if event[1] == "gave way"]
        assert gave == ([] if how == "all have sent" else [older.number])
        assert seen["Keep"] == (0 if how == "all have sent" else 1)
        await finish(world)


@pytest.mark.parametrize("how", ["all have sent", "the newest is raised"])
def test_who_is_not_asked_and_who_says_no(tmp_path: Path, how: str) -> None:
    """Who has told of its first byte is not asked at all; where a worker says no, the next one is asked."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_asked(tmp_path, how))


async def _place(folder: Path, count: int) -> None:
    async with workers(folder, count) if count else one_process(folder) as world:
        await world.settle()
        came = world.clock.now
        running = [world.start(wish(2)) for _ in range(3)]
        await world.settle()
        world.clock.now += 2.0
        running[0].tell("answered", 5)
        await world.settle()
        world.clock.now += 1.0
        world.start(wish(2))
        world.start(wish(0, "initech"))
        await world.settle()
        await world.settle()
        assert (running[2].number, "gave way") in [event[:2] for event in world.events]
        batch = world.owner.lanes["turns"].scheduler.queue._lines[2]
        assert [entry.since for entry in batch.entries] == [came, came + 3.0]
        await finish(world)


@pytest.mark.parametrize("count", [0, 1], ids=["one process", "a worker"])
def test_its_place_is_that_of_its_coming(tmp_path: Path, count: int) -> None:
    """Not that of its dispatch: who waited for its first slot is before those who came meanwhile."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_place(tmp_path, count))
