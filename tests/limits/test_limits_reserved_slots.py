"""Reserved shares through the scheduler: slots that are held, handed on, taken over and taken away."""

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st
from test_limits_slots import BATCH, BOUNDS, REALTIME, Guest, ask, at_rest, ticks

from limits.slots import Scheduler
from limits.waiting import ReservedShare, Spent


def scheduler(slots, *shares):
    return Scheduler(BOUNDS, slots, reserved=[ReservedShare(*share) for share in shares])


def inside(guests):
    return [guest.inside.is_set() for guest in guests]


async def leave(guests):
    for guest in guests:
        await guest.leave()
    await ticks()


async def test_the_owner_that_returns_has_the_next_slots():
    """Others use all slots while it is away, and it is inside after as many of them have left as it has requests."""
    pool = scheduler(4, ("own", 2))
    flood = [Guest(pool, ask(REALTIME, "x")) for _ in range(12)]
    await ticks()
    assert sum(inside(flood)) == pool.inflight == 4
    mine = [Guest(pool, ask(BATCH, "own")) for _ in range(3)]
    await ticks()
    await leave(flood[:2])
    assert inside(mine) == [True, True, False]
    await leave(mine[:1])
    assert inside(mine) == [True, True, True]
    await leave(mine[1:])
    await leave(flood[2:])
    assert at_rest(pool)
    assert pool.reserved()[0].used == 0


async def test_a_slot_whose_holder_never_woke_goes_to_the_same_share():
    """Who is cancelled between being given a slot and waking up leaves it to the owner's next."""
    pool = scheduler(2, ("own", 1))
    first, other, waits = Guest(pool, ask(tenant="own")), Guest(pool, ask(tenant="x")), Guest(pool, ask(REALTIME, "x"))
    await ticks()
    second, third = Guest(pool, ask(BATCH, "own")), Guest(pool, ask(BATCH, "own"))
    await ticks()
    first.go.set()
    await asyncio.sleep(0)
    assert pool.queue.depth(BATCH) == 1
    assert pool.reserved()[0].used == 1
    second.task.cancel()
    await ticks(5)
    assert inside([second, third, waits]) == [False, True, False]
    await leave([third, other, waits])
    assert at_rest(pool)
    assert pool.reserved()[0].used == 0


async def test_tokens_are_those_that_were_used():
    """A share of tokens is charged what the slot says was spent, in plain tokens of prompt and answer."""
    pool = scheduler(4, ("own", None, 6000))
    async with pool.slot(ask(tenant="own")) as slot:
        slot.spent = Spent(1000, 500, whole=True)
    left = pool.reserved()[0].tokens_left
    assert 4500 <= left < 4600


async def test_a_resumed_request_is_on_its_share():
    """What a predecessor began counts, so that the owner has no more than its share before others; its end is settled."""
    pool = scheduler(2, ("own", 1, 6000))
    resumed = pool.resume("own")
    async with resumed:
        other = Guest(pool, ask(tenant="x"))
        await ticks()
        mine, waits = Guest(pool, ask(BATCH, "own")), Guest(pool, ask(REALTIME, "x"))
        await ticks()
        await leave([other])
        assert inside([mine, waits]) == [False, True]
        resumed.spent = Spent(3000, 0, whole=True)
    await ticks()
    assert inside([mine]) == [True]
    assert pool.reserved()[0].tokens_left < 3100
    await leave([mine, waits])
    assert at_rest(pool)


async def test_shares_follow_the_capacity():
    """With fewer slots than were promised each owner has its part, the rest have one; it is whole again with the slots."""
    pool = scheduler(8, ("a", 4), ("b", 2))
    pool.set_capacity(4)
    assert [share.slots for share in pool.reserved()] == [2, 1]
    guests = [Guest(pool, ask(tenant=tenant)) for tenant in "abx" for _ in range(4)]
    await ticks()
    pool.set_capacity(0)
    assert [share.slots for share in pool.reserved()] == [0, 0]
    pool.set_capacity(12)
    await ticks()
    assert all(inside(guests))
    assert [(share.slots, share.used) for share in pool.reserved()] == [(4, 2), (2, 2)]
    await leave(guests)
    assert at_rest(pool)


STEPS = st.tuples(st.sampled_from(["own", "two", "x", "y", "leave", "cancel", "capacity"]), st.integers(0, 9))


@settings(max_examples=40, deadline=None)
@given(steps=st.lists(STEPS, max_size=60))
def test_no_slot_is_idle_while_anybody_waits(steps):
    """Whatever comes, leaves, is cancelled or changes: slots are used by whoever waits, never more than there are."""

    async def main():
        pool, here = scheduler(3, ("own", 2), ("two", None, 100)), []
        for what, number in steps:
            if what == "capacity":
                pool.set_capacity(number)
            elif what in ("leave", "cancel") and here:
                guest = here.pop(number % len(here))
                guest.go.set()
                if what == "cancel":
                    guest.task.cancel()
            elif what not in ("leave", "cancel"):
                here.append(Guest(pool, ask(list(type(REALTIME))[number % 3], what)))
            before = pool.inflight
            await ticks(4)
            assert pool.inflight <= max(pool.capacity, before)
            assert not len(pool.queue) or pool.inflight >= pool.capacity
        pool.set_capacity(1000)
        for guest in here:
            guest.go.set()
        await asyncio.gather(*(guest.task for guest in here))
        await ticks()
        assert at_rest(pool)
        assert [share.used for share in pool.reserved()] == [0, 0]

    asyncio.run(main())
