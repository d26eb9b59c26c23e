"""Slots on a real event loop, and in virtual time where time matters."""

import asyncio
import gc
import math
import random
import weakref

import pytest

from limits.entry import State
from limits.slots import Scheduler
from limits.waiting import Order, Priority, QueueBounds, QueueFull, QueueTimeout, SlotAsk, Spent

REALTIME, STANDARD, BATCH = Priority
BOUNDS = QueueBounds(10_000, 10**9, 10**9, (10.0, 30.0, 300.0))


def ask(priority=STANDARD, tenant="acme", *, deadline=1e12, tokens=1, size=1) -> SlotAsk:
    return SlotAsk(priority, tenant, tokens, size, deadline)


def at_rest(scheduler: Scheduler) -> bool:
    """Nothing runs, nothing waits, nothing is remembered."""
    queue = scheduler.queue
    return (
        (scheduler.inflight, len(queue), scheduler.queued_bytes, scheduler.queued_tokens) == (0, 0, 0, 0)
        and not any(scheduler.depth(priority) for priority in Priority)
        and not queue._tenants
        and len(queue._deadlines) <= 64
        and not any(line.account.running or any(one.running for one in line._away.values()) for line in queue._lines)
    )


class Guest:
    """A task that takes a slot and keeps it until told to go."""

    def __init__(self, scheduler: Scheduler, wanted: SlotAsk) -> None:
        self.go = asyncio.Event()
        self.inside = asyncio.Event()
        self.slot = scheduler.slot(wanted)
        self.task = asyncio.create_task(self._visit())

    async def _visit(self) -> None:
        async with self.slot:
            self.inside.set()
            await self.go.wait()

    async def leave(self) -> None:
        self.go.set()
        await self.task


async def ticks(n: int = 3) -> None:
    for _ in range(n):
        await asyncio.sleep(0)


async def test_free_slot_is_taken_at_once():
    """With room and nobody waiting, entering does not wait, and leaving gives the slot back."""
    scheduler = Scheduler(BOUNDS, 2)
    entering = scheduler.slot(ask()).__aenter__()
    with pytest.raises(StopIteration) as entered:
        entering.send(None)
    slot = entered.value.value
    assert (scheduler.inflight, slot.queued) == (1, 0.0)
    slot.raise_priority(REALTIME)
    await slot.__aexit__(None, None, None)
    assert scheduler.inflight == 0
    assert scheduler.dispatched == 1
    slot.raise_priority(REALTIME)


async def test_inflight_never_passes_capacity():
    """As many run as there are slots; each that leaves lets the next in."""
    scheduler = Scheduler(BOUNDS, 3)
    guests = [Guest(scheduler, ask()) for _ in range(8)]
    await ticks()
    for i, guest in enumerate(guests):
        assert scheduler.inflight == min(3, 8 - i)
        assert scheduler.depth(STANDARD) == max(0, 5 - i)
        assert guest.inside.is_set()
        await guest.leave()
        await ticks()
    assert at_rest(scheduler)
    assert scheduler.dispatched == 8


async def test_a_resumed_slot_is_entered_at_once_beyond_capacity():
    """What runs already is counted above capacity too, and nobody follows until there is room."""
    scheduler = Scheduler(BOUNDS, 1)
    running = [scheduler.resume() for _ in range(3)]
    for slot in running:
        with pytest.raises(StopIteration):
            slot.__aenter__().send(None)
        slot.raise_priority(REALTIME)
    assert (scheduler.inflight, running[0].queued) == (3, 0.0)
    guest = Guest(scheduler, ask())
    for left, slot in enumerate(running, 1):
        await ticks()
        assert not guest.inside.is_set()
        await slot.__aexit__(None, None, None)
        assert scheduler.inflight == max(1, 3 - left)
    await ticks()
    assert guest.inside.is_set()
    await guest.leave()
    assert at_rest(scheduler)
    assert scheduler.dispatched == 1


async def test_queued_amounts_are_told():
    """Depth per class, bytes and tokens are of those that wait."""
    scheduler = Scheduler(BOUNDS, 0)
    guests = [Guest(scheduler, ask(priority, size=10, tokens=7)) for priority in (REALTIME, BATCH, BATCH)]
    await ticks()
    assert [scheduler.depth(priority) for priority in Priority] == [1, 0, 2]
    assert (scheduler.queued_bytes, scheduler.queued_tokens, scheduler.capacity) == (30, 21, 0)
    scheduler.set_capacity(3)
    for guest in guests:
        await guest.leave()
    assert at_rest(scheduler)


async def test_pools_do_not_share_slots():
    """A full pool queues on its own; another with room lets in at once."""
    small, large = Scheduler(BOUNDS, 5), Scheduler(BOUNDS, 1)
    running, waiting = Guest(large, ask()), Guest(large, ask())
    await ticks()
    async with small.slot(ask()) as slot:
        assert slot.queued == 0.0
        assert (large.depth(STANDARD), small.depth(STANDARD)) == (1, 0)
    await running.leave()
    await waiting.leave()
    assert at_rest(small)
    assert at_rest(large)


async def test_growing_lets_waiting_ones_in():
    """New capacity is used at once by those that wait, and no more than there is."""
    scheduler = Scheduler(BOUNDS, 0)
    guests = [Guest(scheduler, ask()) for _ in range(5)]
    await ticks()
    assert (scheduler.inflight, len(scheduler.queue)) == (0, 5)
    scheduler.set_capacity(2)
    await ticks()
    assert [guest.inside.is_set() for guest in guests] == [True, True, False, False, False]
    scheduler.set_capacity(100)
    for guest in guests:
        await guest.leave()
    assert at_rest(scheduler)


async def test_shrinking_lets_running_ones_finish():
    """Below what runs, nobody follows until enough have left; below nothing counts as nothing."""
    scheduler = Scheduler(BOUNDS, 4)
    guests = [Guest(scheduler, ask()) for _ in range(6)]
    await ticks()
    scheduler.set_capacity(2)
    assert scheduler.inflight == 4
    for i in (0, 1):
        await guests[i].leave()
        await ticks()
    assert (scheduler.inflight, len(scheduler.queue)) == (2, 2)
    await guests[2].leave()
    await ticks()
    assert (scheduler.inflight, len(scheduler.queue)) == (2, 1)
    scheduler.set_capacity(-3)
    assert scheduler.capacity == 0
    scheduler.set_capacity(1)
    for guest in guests[3:]:
        await guest.leave()
    assert at_rest(scheduler)


async def test_newcomer_does_not_overtake():
    """While somebody waits, even a free-looking slot goes to the one that waits."""
    scheduler = Scheduler(BOUNDS, 1)
    first, second = Guest(scheduler, ask()), Guest(scheduler, ask())
    await ticks()
    first.go.set()
    await first.task
    third = Guest(scheduler, ask())
    await ticks()
    assert (second.inside.is_set(), third.inside.is_set()) == (True, False)
    await second.leave()
    await third.leave()
    assert at_rest(scheduler)


@pytest.mark.parametrize("error", [ValueError, asyncio.CancelledError])
async def test_slot_comes_back_whatever_ends_the_request(error):
    """An error or a cancellation inside gives the slot back."""
    scheduler = Scheduler(BOUNDS, 1)
    with pytest.raises(error):
        async with scheduler.slot(ask()):
            raise error
    assert at_rest(scheduler)


async def test_cancelled_waiter_leaves_the_line():
    """A client that goes away while queued is out of the line at once."""
    scheduler = Scheduler(BOUNDS, 1)
    running, gone, next_ = (Guest(scheduler, ask()) for _ in range(3))
    await ticks()
    gone.task.cancel()
    await ticks()
    assert len(scheduler.queue) == 1
    await running.leave()
    await next_.leave()
    assert gone.task.cancelled()
    assert at_rest(scheduler)


async def test_waiter_cancelled_in_the_tick_of_its_dispatch_hands_the_slot_on():
    """The slot was given and the task was cancelled before it woke: the next one gets it."""
    scheduler = Scheduler(BOUNDS, 1)
    running, unlucky, next_ = (Guest(scheduler, ask()) for _ in range(3))
    await ticks()
    running.go.set()
    entry = scheduler.queue.head(0.0)
    while entry.state is State.WAITING:
        await asyncio.sleep(0)
    assert not unlucky.inside.is_set()
    unlucky.task.cancel()
    await next_.inside.wait()
    assert unlucky.task.cancelled()
    assert not unlucky.inside.is_set()
    await next_.leave()
    assert at_rest(scheduler)


async def test_waiter_cancelled_before_its_dispatch_in_the_same_tick_is_passed_over():
    """A waiter whose cancellation has not reached it yet is no longer given a slot."""
    scheduler = Scheduler(BOUNDS, 0)
    gone, next_ = Guest(scheduler, ask()), Guest(scheduler, ask())
    await ticks()
    gone.task.cancel()
    scheduler.set_capacity(1)
    assert (scheduler.inflight, scheduler.dispatched, len(scheduler.queue)) == (1, 1, 0)
    await next_.leave()
    assert gone.task.cancelled()
    assert at_rest(scheduler)


async def test_full_queue_refuses_and_pushes_out():
    """A newcomer is refused by a full line; a more urgent one takes the place of one that waits, which is told."""
    scheduler = Scheduler(QueueBounds(1, 100, 100, (10.0, 10.0, 10.0)), 0)
    waiting = Guest(scheduler, ask(BATCH))
    await ticks()
    with pytest.raises(QueueFull) as full:
        async with scheduler.slot(ask(BATCH, "other")):
            pass
    assert not full.value.tenant
    assert 1.0 <= full.value.retry_after <= 5.0
    urgent = Guest(scheduler, ask(REALTIME, "other"))
    with pytest.raises(QueueFull):
        await waiting.task
    scheduler.set_capacity(1)
    await urgent.leave()
    assert at_rest(scheduler)


async def test_raise_moves_a_waiting_request_forward():
    """A waiting batch request that is raised is served before those of its old class."""
    scheduler = Scheduler(BOUNDS, 1)
    running = Guest(scheduler, ask())
    await ticks()
    first, raised = Guest(scheduler, ask(BATCH)), Guest(scheduler, ask(BATCH))
    await ticks()
    raised.slot.raise_priority(REALTIME)
    assert (scheduler.depth(REALTIME), scheduler.depth(BATCH)) == (1, 1)
    await running.leave()
    await raised.inside.wait()
    assert not first.inside.is_set()
    raised.slot.raise_priority(REALTIME)
    await raised.leave()
    await first.leave()
    assert at_rest(scheduler)


def test_wait_ends_at_the_deadline(virtual):
    """Each waiter is told at its own time, its class's or the request's, and how long it waited."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        scheduler = Scheduler(BOUNDS, 0, loop.time)
        start = loop.time()
        waits = {}

        async def visit(name, wanted) -> None:
            with pytest.raises(QueueTimeout) as late:
                async with scheduler.slot(wanted):
                    pass
            waits[name] = (loop.time() - start, late.value.waited)

        await asyncio.gather(
            visit("batch", ask(BATCH)),
            visit("hasty", ask(BATCH, deadline=start + 2.5)),
            visit("realtime", ask(REALTIME)),
            visit("standard", ask(STANDARD)),
            visit("late", ask(deadline=start - 1)),
        )
        due = {"late": 0.0, "hasty": 2.5, "realtime": 10.0, "standard": 30.0, "batch": 300.0}
        assert list(waits) == list(due)
        for name, (when, waited) in waits.items():
            assert when == pytest.approx(due[name], abs=0.002)
            assert waited == pytest.approx(due[name], abs=0.002)
        assert at_rest(scheduler)

    virtual(main())


def test_capacity_that_comes_back_in_time_serves(virtual):
    """Without any capacity the line waits; when some is back before the deadline all is well."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        scheduler = Scheduler(BOUNDS, 1, loop.time)
        running = Guest(scheduler, ask())
        await ticks()
        scheduler.set_capacity(0)
        await running.leave()
        waiting = Guest(scheduler, ask(STANDARD))
        doomed = Guest(scheduler, ask(REALTIME))
        loop.call_later(20, scheduler.set_capacity, 1)
        await waiting.inside.wait()
        assert waiting.slot.queued == pytest.approx(20)
        with pytest.raises(QueueTimeout):
            await doomed.task
        await waiting.leave()
        assert at_rest(scheduler)

    virtual(main())


def test_entry_whose_time_has_come_gets_no_slot(virtual):
    """When a slot comes free at the moment of the deadline, the timed-out request does not take it."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        scheduler = Scheduler(BOUNDS, 0, loop.time)
        late, next_ = Guest(scheduler, ask(REALTIME)), Guest(scheduler, ask(BATCH))
        loop.call_later(10.0, scheduler.set_capacity, 1)
        with pytest.raises(QueueTimeout):
            await late.task
        await next_.leave()
        assert at_rest(scheduler)

    virtual(main())


def test_one_timer_serves_all(virtual):
    """However many wait, one timer is set; none is left when its time is past and nobody waits."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        scheduler = Scheduler(BOUNDS, 0, loop.time)
        guests = [Guest(scheduler, ask(BATCH, deadline=loop.time() + 100 - i)) for i in range(50)]
        await ticks()
        assert sum(not timer.cancelled() for timer in loop._scheduled) == 1
        timer = scheduler._timer
        guests.append(Guest(scheduler, ask(BATCH)))
        await ticks()
        assert scheduler._timer is timer
        scheduler.set_capacity(51)
        for guest in guests:
            await guest.leave()
        await asyncio.sleep(200)
        assert not loop._scheduled
        assert scheduler._timer is None

    virtual(main())


def test_failed_waits_leave_no_garbage_cycle(virtual):
    """Timeouts, refusals and pushed-out requests are freed as they go, without the collector."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        scheduler = Scheduler(QueueBounds(1, 100, 100, (1.0, 1.0, 1.0)), 0, loop.time)

        async def failing(wanted) -> weakref.ref:
            try:
                async with scheduler.slot(wanted):
                    raise AssertionError("got a slot")
            except (QueueFull, QueueTimeout) as error:
                return weakref.ref(error)

        async def pushed_out() -> weakref.ref:
            waiting = asyncio.create_task(failing(ask(BATCH)))
            await ticks()
            urgent = asyncio.create_task(failing(ask(REALTIME)))
            assert (await failing(ask(BATCH)))() is None
            assert (await urgent)() is None
            return await waiting

        gc.disable()
        try:
            assert (await pushed_out())() is None
            assert (await failing(ask()))() is None
        finally:
            gc.enable()

    virtual(main())


def test_wait_without_end_sets_a_timer_that_a_loop_can_bear(virtual):
    """No deadline at all is not a timer for ever."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        endless = QueueBounds(10, 10, 10, (float("inf"),) * 3)
        scheduler = Scheduler(endless, 0, loop.time)
        guest = Guest(scheduler, ask(deadline=float("inf")))
        await ticks()
        assert scheduler._timer.when() - loop.time() <= 3600
        loop.call_later(10_000, scheduler.set_capacity, 1)
        await guest.inside.wait()
        await guest.leave()
        assert at_rest(scheduler)

    virtual(main())


def test_batch_is_served_among_endless_realtime(virtual):
    """With realtime work always waiting, a batch request is through within the stated share of the slots."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        scheduler = Scheduler(BOUNDS, 1, loop.time)
        served = 0

        async def visit(priority) -> None:
            nonlocal served
            async with scheduler.slot(ask(priority)):
                await asyncio.sleep(0.1)
                served += 1

        async def endless() -> None:
            while True:
                await visit(REALTIME)

        flood = [asyncio.create_task(endless()) for _ in range(20)]
        await asyncio.sleep(10)
        before = served
        await visit(BATCH)
        assert served - before <= 16 + 2 + 1
        for task in flood:
            task.cancel()
        await asyncio.gather(*flood, return_exceptions=True)
        assert at_rest(scheduler)

    virtual(main())


class Crowd:
    """Thousands that come, are cancelled, time out, are raised and leave while capacity moves."""

    def __init__(self, seed: int, clock, pause) -> None:
        self.rng = random.Random(seed)
        self.clock = clock
        self.pause = pause
        bounds = QueueBounds(200, 20_000, 200_000, (0.5, 2.0, 5.0), (5, 2, 1), 0.4)
        self.scheduler = Scheduler(bounds, 8, clock, Order(0.01, 300, promote_after=0.5 if seed % 2 else None))
        self.ends = dict.fromkeys(("served", "cancelled", "full", "late", "failed"), 0)
        self.running = 0

    def ask(self) -> SlotAsk:
        rng = self.rng
        return SlotAsk(
            Priority(rng.randrange(3)),
            f"t{rng.randrange(6)}",
            tokens=rng.randrange(3000),
            size=rng.randrange(300),
            deadline=self.clock() + rng.random() * 3,
            weight=rng.randint(1, 4),
            due=self.clock() + rng.random() * 3 if rng.random() < 0.3 else math.inf,
            prompt=rng.randrange(500),
            form="chat",
            most=rng.choice([None, 10, 1000]),
        )

    async def visit(self, slot) -> None:
        try:
            async with slot:
                await self.work()
                slot.spent = Spent(self.rng.randrange(500), self.rng.randrange(900), whole=True)
            end = "served"
        except asyncio.CancelledError:
            self.ends["cancelled"] += 1
            raise
        except QueueFull:
            end = "full"
        except QueueTimeout:
            end = "late"
        except ValueError:
            end = "failed"
        self.ends[end] += 1

    async def work(self) -> None:
        self.running += 1
        try:
            await self.pause(self.rng.random() * 0.2)
            if self.rng.random() < 0.1:
                raise ValueError
        finally:
            self.running -= 1

    async def run(self, count: int) -> None:
        rng, scheduler = self.rng, self.scheduler
        tasks, slots = [], []
        for _ in range(count):
            slots.append(scheduler.slot(self.ask()))
            tasks.append(asyncio.create_task(self.visit(slots[-1])))
            for _ in range(rng.randrange(3)):
                rng.choice(tasks[-300:]).cancel()
            if rng.random() < 0.2:
                rng.choice(slots[-300:]).raise_priority(Priority(rng.randrange(3)))
            if rng.random() < 0.02:
                scheduler.set_capacity(rng.choice([0, 1, 8, 20]))
            if rng.random() < 0.5:
                await self.pause(rng.random() * 0.02)
            assert self.running <= scheduler.inflight <= 20
            assert scheduler.inflight >= scheduler.capacity or not len(scheduler.queue)
        scheduler.set_capacity(8)
        await asyncio.gather(*tasks, return_exceptions=True)
        never_started = sum(task.cancelled() for task in tasks) - self.ends["cancelled"]
        assert sum(self.ends.values()) + never_started == count
        assert min(self.ends.values()) > 0, f"a kind of end is missing: {self.ends}"
        assert self.running == 0
        assert at_rest(scheduler)


@pytest.mark.parametrize("seed", range(4))
def test_crowd_in_virtual_time_leaves_nothing_behind(virtual, seed):
    """Three thousand requests in any mixture of ends: work goes on while there is room, and all counters end at zero."""

    async def main() -> None:
        await Crowd(seed, asyncio.get_running_loop().time, asyncio.sleep).run(3000)

    virtual(main())


async def test_crowd_on_the_real_loop_leaves_nothing_behind():
    """The same on the production loop, where all race within single ticks."""
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += 0.0001
        return now

    async def pause(seconds: float) -> None:
        for _ in range(int(seconds * 100)):
            await asyncio.sleep(0)

    await Crowd(99, clock, pause).run(5000)
