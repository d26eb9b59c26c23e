"""Tokens in flight beside slots: who fits, who waits, and that nobody waits for ever."""

import asyncio
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_limits_slots import BATCH, BOUNDS, REALTIME, STANDARD, at_rest, ticks
from test_limits_slots import Guest as Plain

from limits.places import Places
from limits.slots import Scheduler
from limits.waiting import Order, QueueTimeout, SlotAsk

FIRST_COME = Order()
SEATS = 10


class Fleet:
    """Replicas that are told of as a pool does it: a guest that has its slot goes where it fitted."""

    def __init__(self, line, *bounds):
        self.line, self.bounds = line, bounds
        self.held = [[] for _ in bounds]
        self.tell()

    def place(self, key):
        return SEATS - len(self.held[key]), self.bounds[key] - sum(self.held[key]), self.bounds[key]

    def tell(self):
        self.line.tell({key: self.place(key) for key in range(len(self.bounds))})

    def enter(self, entry):
        size = entry.ask.prompt + entry.ask.output
        key, _ = entry.place
        self.line.places.placed(entry)
        self.held[key].append(size)
        self.line.move(key, self.place(key))
        return key, size

    def leave(self, key, size):
        self.held[key].remove(size)
        self.line.move(key, self.place(key))


def scheduler(*bounds, order=FIRST_COME):
    made = Scheduler(BOUNDS, SEATS * max(1, len(bounds)), order=order, places=Places())
    made.fleet = Fleet(made, *(bounds or (1000,)))
    return made


class Guest(Plain):
    """Takes a slot, then a replica, until told to go."""

    async def _visit(self):
        async with self.slot:
            fleet = self.slot._scheduler.fleet
            place = fleet.enter(self.slot._held)
            self.inside.set()
            try:
                await self.go.wait()
            finally:
                fleet.leave(*place)


def ask(prompt, priority=STANDARD, tenant="acme", *, output=0, deadline=1e12):
    return SlotAsk(priority, tenant, 1, 1, deadline, prompt=prompt, output=output)


async def guests(line, *asks):
    made = []
    for wanted in asks:
        made.append(Guest(line, wanted))
        await ticks()
    return made


def inside(*several):
    return [guest.inside.is_set() for guest in several]


async def leave(*several):
    for guest in several:
        await guest.leave()


def at_peace(line):
    """Nothing is left, neither there nor on its way."""
    return at_rest(line) and not line.places._due and not any(line.fleet.held)


async def test_prompt_and_answer_count_while_it_runs():
    """A request takes up what it has and what it is thought to get, from its slot to its end."""
    line = scheduler()
    first, second, third = await guests(line, ask(300, output=300), ask(200, output=200), ask(1))
    assert inside(first, second, third) == [True, True, False]
    assert (line.inflight, line.full) == (2, True)
    await first.leave()
    await ticks()
    assert inside(third) == [True]
    await leave(second, third)
    assert at_peace(line)


async def test_who_does_not_fit_is_not_overtaken():
    """The next in line waits for tokens though slots are free, and small requests behind it wait too; it goes first."""
    line = scheduler()
    small, large, *later = await guests(line, ask(600), ask(900), ask(1), ask(1))
    assert inside(small, large, *later) == [True, False, False, False]
    await small.leave()
    await ticks()
    assert inside(large, *later) == [True, True, True]
    await leave(large, *later)
    assert at_peace(line)


async def test_a_large_request_needs_half_of_a_replica():
    """However large: so it does not stand before a replica that serves next to nothing until the last of that has ended."""
    line = scheduler()
    half, huge, other = await guests(line, ask(500), ask(50_000), ask(1))
    assert inside(half, huge, other) == [True, True, False]
    await leave(huge)
    await ticks()
    assert inside(other) == [True]
    await leave(half, other)
    assert at_peace(line)


async def test_an_idle_replica_takes_whatever_comes():
    """Of two one is idle, and has it at once."""
    line = scheduler(1000, 1000)
    first, huge, other = await guests(line, ask(900), ask(50_000), ask(50))
    assert inside(first, huge, other) == [True, True, True]
    await leave(first, huge, other)
    assert at_peace(line)


async def test_it_must_fit_one_replica_not_the_sum_of_several():
    """Two that have 400 left each have no room for 450."""
    line = scheduler(1000, 1000)
    first, second, third = await guests(line, ask(600), ask(600), ask(450))
    assert inside(first, second, third) == [True, True, False]
    await second.leave()
    await ticks()
    assert inside(third) == [True]
    await leave(first, third)
    assert at_peace(line)


async def test_those_that_have_a_slot_and_no_replica_yet_count():
    """Room for two that is announced at once is given to two, though neither has come to its replica when the third is tried."""
    line = scheduler()
    full, *waiting = await guests(line, ask(1000), ask(400), ask(400), ask(400))
    await full.leave()
    assert line.inflight == 2
    await ticks()
    assert inside(*waiting) == [True, True, False]
    await leave(*waiting[:2])
    await ticks()
    await leave(waiting[2])
    assert at_peace(line)


async def test_seats_of_each_replica_count_too():
    """A replica whose seats are taken is no place, whatever its tokens."""
    line = scheduler(1_000_000, 1000)
    line.fleet.held[0] = [1] * SEATS
    line.fleet.tell()
    first, second = await guests(line, ask(600), ask(600))
    assert inside(first, second) == [True, False]
    line.fleet.leave(0, 1)
    await ticks()
    assert inside(second) == [True]
    await leave(first, second)


async def test_a_more_urgent_request_that_fits_goes_by_the_order():
    """Whose turn it is, is the order's to say: a class that has been served less is next, and what fits of it goes."""
    line = scheduler()
    running, batch = await guests(line, ask(600), ask(900, BATCH))
    (urgent,) = await guests(line, ask(300, REALTIME))
    assert inside(running, batch, urgent) == [True, False, True]
    await leave(running, urgent)
    await ticks()
    assert inside(batch) == [True]
    await batch.leave()


async def test_when_the_next_in_line_is_cancelled_those_behind_are_looked_at():
    """Nobody waits for tokens that he does not need."""
    line = scheduler()
    running, large, small = await guests(line, ask(600), ask(900), ask(100))
    assert inside(large, small) == [False, False]
    large.task.cancel()
    await ticks()
    assert inside(small) == [True]
    with pytest.raises(asyncio.CancelledError):
        await large.task
    await leave(running, small)
    assert at_peace(line)


async def test_one_that_is_raised_before_the_next_in_line_is_looked_at():
    """Moved to a class whose turn it is, it goes if it fits."""
    line = scheduler()
    running, large, small = await guests(line, ask(600), ask(900, BATCH), ask(100, BATCH))
    small.slot.raise_priority(REALTIME)
    await ticks()
    assert inside(large, small) == [False, True]
    await leave(running)
    await ticks()
    await leave(large, small)
    assert at_peace(line)


async def test_who_is_cancelled_with_his_slot_in_hand_takes_up_nothing():
    """Given a slot and cancelled in the same turn, before he came to a replica."""
    line = scheduler()
    running, next_one, last = await guests(line, ask(600), ask(900), ask(900))
    await running.leave()
    next_one.task.cancel()
    await ticks()
    assert inside(last) == [True]
    with pytest.raises(asyncio.CancelledError):
        await next_one.task
    await last.leave()
    assert at_peace(line)


def test_a_deadline_of_the_next_in_line_frees_those_behind(virtual):
    """The timer ends its wait, and who is next fits."""

    async def main():
        loop = asyncio.get_running_loop()
        line = Scheduler(BOUNDS, 10, loop.time, places=Places())
        line.fleet = Fleet(line, 1000)
        running, large, small = await guests(line, ask(600), ask(900, deadline=loop.time() + 5), ask(100))
        await asyncio.sleep(4)
        assert inside(small) == [False]
        await asyncio.sleep(2)
        assert inside(small) == [True]
        with pytest.raises(QueueTimeout):
            await large.task
        await leave(running, small)

    virtual(main())


async def test_more_room_is_given_at_once_and_less_takes_nothing_back():
    """As slots, tokens may change while requests run."""
    line = scheduler()
    first, second = await guests(line, ask(900), ask(900))
    assert inside(first, second) == [True, False]
    line.fleet.bounds = (2000,)
    line.fleet.tell()
    await ticks()
    assert inside(second) == [True]
    line.fleet.bounds = (100,)
    line.fleet.tell()
    (third,) = await guests(line, ask(10))
    assert inside(first, second, third) == [True, True, False]
    await leave(first, second)
    await ticks()
    assert inside(third) == [True]
    await third.leave()
    assert at_peace(line)


class Waiter:
    """Nobody's future."""

    def __init__(self):
        self.told = False

    def done(self):
        return self.told

    def set_result(self, _):
        self.told = True

    def get_loop(self):
        return None


@settings(max_examples=15, deadline=None)
@given(
    order=st.sampled_from([FIRST_COME, Order(0.03, 512), Order(promote_after=5.0)]),
    seed=st.integers(0, 1000),
    bounds=st.sampled_from([(1000,), (700, 300), (100, 100, 800)]),
)
def test_a_large_request_is_served_under_a_flood_of_small_ones(order, seed, bounds):
    """Whatever classes, tenants and sizes flood it: small requests that come for ever do not keep a large one out."""
    line, now, rng = scheduler(*bounds, order=order), 0.0, random.Random(seed)
    line._clock, line._arm = lambda: now, lambda loop: None
    large, running, waiting = Waiter(), [], []
    for step in range(3000):
        now += 0.05
        for _ in range(2):  # twice of what is served
            wanted = ask(rng.randint(20, 100), rng.choice([REALTIME, STANDARD, BATCH]), rng.choice("ab"))
            if line.admits(wanted):
                entry = line.take(wanted)
                running.append((entry, line.fleet.enter(entry)))
            else:
                waiter = Waiter()
                waiting.append((line.join(wanted, waiter), waiter))
        if step == 100:
            waiting.append((line.join(ask(1000, BATCH, "big"), large), large))
        started = [entry for entry, waiter in waiting if waiter.told]
        waiting = [pair for pair in waiting if not pair[1].told]
        running += [(entry, line.fleet.enter(entry)) for entry in started]
        if large.told:
            return
        assert all(sum(held) <= max(bound, bound / 2 + 100) for held, bound in zip(line.fleet.held, bounds, strict=True))
        if running:
            done, place = running.pop(rng.randrange(len(running)))
            line.fleet.leave(*place)
            line.settle(done, None)
            line.release()
    raise AssertionError("it waits for ever")
