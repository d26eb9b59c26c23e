"""Work that nobody waits for takes no slot that anybody wants, whatever comes and goes."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from queue_talk import bounds

from limits.slots import Scheduler
from limits.spare import MOST
from limits.waiting import Order, Priority, QueueTimeout, ReservedShare, SlotAsk, Spent

FAR = 1e9


def ask(priority: Priority = Priority.STANDARD, tenant: str = "acme") -> SlotAsk:
    return SlotAsk(priority, tenant, 10, 10, FAR)


class Shadow:
    """As the gateway holds such a slot; `go` is how its task hears that it is to end."""

    def __init__(self, pool: Scheduler) -> None:
        self.slot = pool.spare(ask(Priority.BATCH, "own"))
        self.told = 0

    async def begin(self) -> "Shadow":
        await self.slot.__aenter__()
        self.slot.lend(self.order)
        return self

    def order(self) -> bool:
        self.told += 1
        return True

    async def end(self, spent: Spent | None = None) -> None:
        self.slot.keep()
        self.slot.spent = spent
        await self.slot.__aexit__(None, None, None)


def pool_of(capacity: int, reserved: bool = False) -> Scheduler:
    shares = (ReservedShare("acme", 1, None),) if reserved else ()
    return Scheduler(bounds(), capacity, lambda: 1000.0, Order(), shares)


async def fill(pool: Scheduler, count: int) -> list[object]:
    slots = [pool.slot(ask()) for _ in range(count)]
    for slot in slots:
        await slot.__aenter__()
    return slots


@pytest.mark.parametrize(("capacity", "most"), [(0, 0), (1, 0), (2, 1), (4, 1), (8, 2), (32, 8), (400, MOST)])
async def test_how_many_there_are(capacity: int, most: int) -> None:
    """A quarter of an idle pool, a few in all, and none of a pool of one slot; the next one is refused at once."""
    pool = pool_of(capacity)
    for _ in range(most):
        await Shadow(pool).begin()
    with pytest.raises(QueueTimeout):
        await Shadow(pool).begin()
    assert pool.inflight == len(pool.spares) == most


@pytest.mark.parametrize(("busy", "may"), [(0, True), (6, True), (7, False), (8, False)])
async def test_a_free_slot_stays(busy: int, may: bool) -> None:
    """Begun is such work only where the next request finds a slot free at once all the same."""
    pool = pool_of(8)
    await fill(pool, busy)
    if may:
        await Shadow(pool).begin()
    else:
        with pytest.raises(QueueTimeout):
            await Shadow(pool).begin()


@pytest.mark.parametrize("priority", Priority)
async def test_who_waits_has_the_slot_back(priority: Priority) -> None:
    """Of whatever class it is: the newest is told, once; its slot is the waiter's, and it has cost its class nothing."""
    pool = pool_of(8)
    shadows = [await Shadow(pool).begin() for _ in range(2)]
    held = await fill(pool, 6)
    waiter = pool.slot(ask(priority))
    task = asyncio.create_task(waiter.__aenter__())
    await asyncio.sleep(0)
    assert [shadow.told for shadow in shadows] == [0, 1]
    await shadows[1].end()
    await task
    assert (pool.inflight, len(pool.spares)) == (8, 1)
    for slot in (waiter, *held):
        await slot.__aexit__(None, None, None)
    await shadows[0].end(Spent(1, 1, whole=True))
    assert pool.inflight == len(pool.spares) == 0


async def test_one_that_is_over_is_not_told() -> None:
    """From `keep` on it is about to leave by itself: it is not told in the middle of that."""
    pool = pool_of(4)
    shadow = await Shadow(pool).begin()
    shadow.slot.keep()
    await fill(pool, 3)
    task = asyncio.create_task(pool.slot(ask()).__aenter__())
    await asyncio.sleep(0)
    assert not shadow.told
    await shadow.end()
    await task


async def test_one_that_is_reached_late_is_told_then() -> None:
    """Somebody waited before it had said how it is told."""
    pool = pool_of(4)
    shadow = Shadow(pool)
    await shadow.slot.__aenter__()
    await fill(pool, 3)
    task = asyncio.create_task(pool.slot(ask()).__aenter__())
    await asyncio.sleep(0)
    shadow.slot.lend(shadow.order)
    assert shadow.told == 1
    await shadow.end()
    await task


STEPS = st.lists(st.tuples(st.sampled_from(["spare", "asks", "ends", "spare ends", "gives up"]), st.integers(0, 9)), max_size=60)


@given(capacity=st.integers(0, 12), reserved=st.booleans(), steps=STEPS)
def test_nobody_waits_while_one_of_them_runs_that_was_not_told(
    capacity: int, reserved: bool, steps: list[tuple[str, int]]
) -> None:
    """However they come and go: the pool is never too full, of spare slots there are never too many, and all slots come back."""

    async def run() -> None:
        pool = pool_of(capacity, reserved)
        shadows: list[Shadow] = []
        slots: list[tuple[object, asyncio.Task[object]]] = []
        for verb, which in steps:
            if verb == "spare":
                try:
                    shadows.append(await Shadow(pool).begin())
                except QueueTimeout:
                    free = capacity - pool.inflight
                    full = len(shadows) >= min(MOST, max(1, capacity // 4))
                    assert free < 2 or full or pool.queue.load.requests or reserved
            elif verb == "asks":
                slot = pool.slot(ask(Priority(which % 3), "acme" if which % 2 else "globex"))
                slots.append((slot, asyncio.create_task(slot.__aenter__())))
            elif verb == "ends" and (running := [pair for pair in slots if pair[1].done()]):
                pair = running[which % len(running)]
                slots.remove(pair)
                await pair[0].__aexit__(None, None, None)
            elif verb == "gives up" and (waiting := [pair for pair in slots if not pair[1].done()]):
                pair = waiting[which % len(waiting)]
                slots.remove(pair)
                pair[1].cancel()
            elif verb == "spare ends" and shadows:
                await shadows.pop(which % len(shadows)).end()
            for _ in range(3):
                await asyncio.sleep(0)
            assert pool.inflight <= capacity
            assert len(pool.spares) == len(shadows) <= MOST
            waits = pool.queue.load.requests
            told = [shadow.told for shadow in shadows]
            assert max(told, default=0) <= 1
            if waits:
                assert sum(told) >= min(waits, len(shadows)), "whoever waits has had one told"
        for shadow in shadows:
            await shadow.end()
        while slots:
            for _ in range(3):
                await asyncio.sleep(0)
            done = [pair for pair in slots if pair[1].done()] if capacity else []
            for pair in done:
                slots.remove(pair)
                await pair[0].__aexit__(None, None, None)
            if not done:
                for pair in slots:
                    pair[1].cancel()
                break
        await asyncio.sleep(0)
        assert pool.inflight == len(pool.spares) == 0

    asyncio.run(run())
