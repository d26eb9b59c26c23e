"""Tokens in flight beside slots: who fits, who waits, and that nobody waits for ever."""

import asyncio
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_limits_slots import BATCH, BOUNDS, REALTIME, STANDARD, Guest, at_rest, ticks

from limits.slots import Scheduler
from limits.tokens import Tokens
from limits.types import Order, QueueTimeout, SlotAsk

FIRST_COME = Order()


def scheduler(slots=10, tokens=1000, largest=None, order=FIRST_COME):
    made = Scheduler(BOUNDS, 0, tokens=Tokens(), order=order)
    made.set_room(slots, tokens, tokens if largest is None else largest)
    return made


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


async def test_prompt_and_answer_count_while_it_runs():
    """A request takes up what it has and what it is thought to get, from its slot to its end."""
    line = scheduler()
    first, second, third = await guests(line, ask(300, output=300), ask(200, output=200), ask(1))
    assert inside(first, second, third) == [True, True, False]
    assert (line.tokens.inflight, line.inflight, line.full) == (1000, 2, True)
    await first.leave()
    await ticks()
    assert inside(third) == [True]
    await leave(second, third)
    assert at_rest(line)
    assert line.tokens.inflight == 0


async def test_who_does_not_fit_is_not_overtaken():
    """The next in line waits for tokens though slots are free, and small requests behind it wait too; it goes first."""
    line = scheduler()
    small, large, *later = await guests(line, ask(600), ask(900), ask(1), ask(1))
    assert inside(small, large, *later) == [True, False, False, False]
    await small.leave()
    await ticks()
    assert inside(large, *later) == [True, True, True]
    await leave(large, *later)
    assert line.tokens.inflight == 0


async def test_who_is_alone_fits_whatever_his_size():
    """An idle fleet takes one request larger than all of it, and nothing beside it."""
    line = scheduler()
    huge, other = await guests(line, ask(50_000), ask(1))
    assert inside(huge, other) == [True, False]
    await huge.leave()
    await ticks()
    assert inside(other) == [True]
    await other.leave()


async def test_the_largest_replica_is_the_most_that_one_request_takes():
    """Of two idle replicas one takes a request that is larger than either, and the other is still there."""
    line = scheduler(tokens=2000, largest=1000)
    huge, other = await guests(line, ask(50_000), ask(900))
    assert inside(huge, other) == [True, True]
    await leave(huge, other)
    assert line.tokens.inflight == 0


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


@pytest.mark.parametrize("how", ["cancelled", "raised"])
async def test_when_the_next_in_line_goes_those_behind_are_looked_at(how):
    """Cancelled, or passed by one that moved to another class: nobody waits for tokens that he does not need."""
    line = scheduler()
    running, large, small = await guests(line, ask(600), ask(900, BATCH, deadline=1e12), ask(100, BATCH))
    assert inside(large, small) == [False, False]
    if how == "cancelled":
        large.task.cancel()
    else:
        small.slot.raise_priority(REALTIME)
    await ticks()
    assert inside(small) == [True]
    if how == "raised":
        await leave(running)
        await ticks()
        assert inside(large) == [True]
        await leave(large, small)
    else:
        with pytest.raises(asyncio.CancelledError):
            await large.task
        await leave(running, small)
    assert (line.tokens.inflight, line.inflight) == (0, 0)


def test_a_deadline_of_the_next_in_line_frees_those_behind(virtual):
    """The timer ends its wait, and who is next fits."""

    async def main():
        loop = asyncio.get_running_loop()
        line = Scheduler(BOUNDS, 0, loop.time, tokens=Tokens())
        line.set_room(10, 1000.0, 1000.0)
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
    line.set_room(10, 2000.0, 1000.0)
    await ticks()
    assert inside(second) == [True]
    line.set_room(10, 100.0, 100.0)
    (third,) = await guests(line, ask(10))
    assert inside(first, second, third) == [True, True, False]
    await leave(first, second)
    await ticks()
    assert inside(third) == [True]
    await third.leave()
    assert line.tokens.inflight == 0


async def test_a_request_that_was_taken_over_counts_until_it_ends():
    """Entered whether there is room or not; nobody follows until there is."""
    line = scheduler()
    async with line.resume(5000):
        (guest,) = await guests(line, ask(1))
        assert (line.tokens.inflight, line.inflight, inside(guest)) == (5000, 1, [False])
    await ticks()
    assert inside(guest) == [True]
    await guest.leave()
    assert line.tokens.inflight == 0


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_a_large_request_is_served_under_a_flood_of_small_ones(data):
    """Whatever classes, tenants and sizes flood it: small requests that come for ever do not keep a large one out."""
    weights, order = (16, 4, 1), data.draw(st.sampled_from([Order(), Order(0.03, 512), Order(promote_after=5.0)]))
    assert BOUNDS.weights == weights
    line, now, rng = scheduler(8, 1000, order=order), 0.0, random.Random(data.draw(st.integers(0, 1000)))
    line._clock = lambda: now
    line._arm = lambda loop: None

    class Waiter:
        told = False

        def done(self):
            return self.told

        def set_result(self, _):
            self.told = True

        def get_loop(self):
            return None

    large = Waiter()
    running, waiting = [], []
    for step in range(3000):
        now += 0.05
        for _ in range(2):  # twice of what is served
            wanted = ask(rng.randint(20, 200), rng.choice([REALTIME, STANDARD, BATCH]), rng.choice("ab"))
            if line.admits(wanted):
                running.append(line.take(wanted))
            else:
                waiter = Waiter()
                waiting.append((line.join(wanted, waiter), waiter))
        if step == 100:
            entry = line.join(ask(1000, BATCH, "big"), large)
        started = [entry for entry, waiter in waiting if waiter.told]
        running += started
        waiting = [pair for pair in waiting if not pair[1].told]
        assert sum(entry.held for entry in running) + (entry.held if large.told else 0) == line.tokens.inflight
        assert line.tokens.inflight <= 1000
        if large.told:
            break
        if running:
            done = running.pop(rng.randrange(len(running)))
            line.settle(done, None)
            line.release()
    assert large.told
