"""The breaker in front of what a cache asks of others."""

import asyncio
import random
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from caches.breaker import Breaker, BreakerOpen, BreakerRules

RULES = BreakerRules(failures=3, open_seconds=1.0, max_open_seconds=8.0)


class World:
    def __init__(self):
        self.now = 0.0
        self.told = []
        self.breaker = Breaker(lambda: self.now, random.Random(1), RULES, lambda error: self.told.append(error is not None))

    def attempt(self, error=None):
        with suppress(BreakerOpen, OSError, asyncio.CancelledError), self.breaker.attempt():
            if error is not None:
                raise error

    def fail(self, times=1):
        for _ in range(times):
            self.attempt(OSError())

    def refuses(self):
        try:
            self.breaker.attempt().__exit__(None, asyncio.CancelledError(), None)
        except BreakerOpen:
            return True
        return False


def test_failures_in_a_row_open_it():
    """A success in between begins the count anew; the third failure in a row opens it, and that is told once."""
    world = World()
    world.fail(2)
    world.attempt()
    world.fail(2)
    assert not world.breaker.is_open
    world.fail()
    assert world.breaker.is_open
    assert world.refuses()
    assert world.told == [True]


def test_one_probe_at_a_time():
    """When its time has passed one attempt is let in, and all others are refused until that one ends."""
    world = World()
    world.fail(3)
    world.now = 1.0
    with world.breaker.attempt():
        assert world.refuses()
    assert not world.breaker.is_open
    assert world.told == [True, False]


def test_a_probe_that_fails_opens_it_for_longer():
    """The openings double up to their bound, and nobody is told of a state that did not change."""
    world, lengths = World(), []
    world.fail(3)
    for _ in range(6):
        lengths.append(world.breaker.open_until - world.now)
        world.now = world.breaker.open_until
        world.fail()
    for n, length in enumerate(lengths):
        longest = min(2**n, 8)
        assert longest / 2 <= length <= longest
    assert world.told == [True]


def test_a_cancelled_probe_is_given_back():
    """Who leaves in the middle says nothing of the other side, and the next one may try."""
    world = World()
    world.fail(3)
    world.now = 1.0
    world.attempt(asyncio.CancelledError())
    assert world.breaker.is_open
    world.attempt()
    assert not world.breaker.is_open


@pytest.mark.parametrize("error", [None, OSError()])
def test_stragglers_count_for_nothing(error):
    """An attempt that began before the breaker opened neither closes it nor prolongs it, whatever came of it."""
    world = World()
    straggler = world.breaker.attempt()
    world.fail(3)
    until = world.breaker.open_until
    straggler.__exit__(None, error, None)
    assert world.breaker.is_open
    assert world.breaker.open_until == until


@given(st.lists(st.tuples(st.sampled_from(["ok", "failed", "cancelled"]), st.floats(0, 20)), max_size=60))
def test_it_always_lets_somebody_in_again(steps):
    """Whatever happened, it admits an attempt once its bound has passed, and a success of that one closes it."""
    world = World()
    ends = {"ok": None, "failed": OSError(), "cancelled": asyncio.CancelledError()}
    for end, seconds in steps:
        world.attempt(ends[end])
        world.now += seconds
    world.now += RULES.max_open_seconds
    with world.breaker.attempt():
        pass
    assert not world.breaker.is_open
    assert world.told == [True, False] * (len(world.told) // 2)
