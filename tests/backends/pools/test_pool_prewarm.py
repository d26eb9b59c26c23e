"""When a replica is to read ahead, and for how long that keeps it out."""

import pytest
from pool_fleet import make_replica

from backends.prewarm import ALONE, Prewarm, Prompt

PAGE = b'process_start_time_seconds %d\nvllm:engine_sleep_state{engine="0",sleep_state="awake"} %d\nvllm:prompt_tokens_total 5\n'
PROMPT = Prompt("/chat/completions", b"{}")


@pytest.fixture
def make(pool, clock):
    """Of a pool of so many replicas that are up: the pool, its prewarm, and the first of them."""

    def made(count=2, prompts=(PROMPT,), timeout=30.0):
        several = pool(count)
        several.prewarm = Prewarm(several, lambda: prompts, max_tokens=100, timeout=timeout, clock=clock)
        return several, several.prewarm, several.replicas[0]

    return made


def test_it_is_kept_out_until_its_time_is_up(make, clock):
    """As long as somebody else is ready."""
    _, prewarm, first = make()
    first.up = False
    prewarm.mark(first)
    assert prewarm.due(first)
    prewarm.begin(first)
    assert not prewarm.due(first)
    assert prewarm.holds(first)
    clock.now += 29
    assert prewarm.holds(first)
    clock.now += 1
    assert not prewarm.holds(first)


def test_a_pool_without_anybody_else_does_not_wait_long(make, clock):
    """From the moment that nobody else is ready."""
    both, prewarm, first = make()
    first.up = False
    prewarm.begin(first)
    clock.now += ALONE
    assert prewarm.holds(first)
    both.replicas[1].up = False
    assert not prewarm.holds(first)


def test_nothing_to_read_costs_nothing(make):
    """Nobody is due, then or later."""
    prompts = []
    _, prewarm, first = make(prompts=prompts)
    prewarm.mark(first)
    assert not prewarm.due(first)
    prompts.append(PROMPT)
    assert not prewarm.due(first)


@pytest.mark.parametrize(
    ("before", "after", "due"),
    [((1, 1), (1, 1), False), ((1, 1), (100, 1), True), ((1, 1), (1, 0), False), ((1, 0), (1, 1), True)],
)
def test_who_lost_its_cache_is_due(make, before, after, due):
    """Another start time, or awake after it slept; not while it sleeps."""
    _, prewarm, first = make()
    prewarm.scraped(first, PAGE % before)
    assert not prewarm.due(first)
    prewarm.scraped(first, PAGE % after)
    assert prewarm.due(first) == due


def test_one_that_joins_cold_is_due(make):
    """One that was there before is not."""
    both, prewarm, first = make()
    new, known = make_replica("new"), make_replica("known")
    both.add(new, cold=True)
    both.add(known)
    assert [prewarm.due(one) for one in (new, known, first)] == [True, False, False]
    prewarm.lost("known")
    assert prewarm.due(known)
    prewarm.lost("nobody")
    prewarm.left(new)
    assert not prewarm.due(new)


async def test_one_that_left_reads_nothing(make):
    """Also where it had begun."""
    _, prewarm, first = make()
    prewarm.begin(first)
    prewarm.left(first)
    await prewarm.run(first)
    assert prewarm.warmth() == {}
    assert not any(prewarm.totals.values())


async def test_several_engines_behind_one_address_are_not_read_to_all_the_time(make, clock):
    """A start time that changes with every look is a new start once in a minute at most; going down counts always."""
    both, prewarm, first = make()
    both.replicas[1].up = False
    first.pending = 1  # busy: it reads nothing
    prewarm._timeout = 0.01
    for start in range(0, 3000, 100):
        prewarm.scraped(first, PAGE % (start, 1))
        if prewarm.due(first):
            prewarm.begin(first)
            await prewarm.run(first)
        clock.now += 2
    assert prewarm.totals["skipped"] == PROMPT.likely
    prewarm.mark(first)
    assert prewarm.due(first)
