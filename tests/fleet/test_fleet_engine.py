"""The simulated engine: what a lone request takes, what is cached, what its memory holds, against plain models of the same."""

import random
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.lab.fleet.blocks import Blocks
from gateway.lab.fleet.costs import Costs, Shape
from gateway.lab.fleet.engine import Engine
from gateway.lab.fleet.job import Job
from gateway.lab.simulate.timeline import Timeline

COSTS = Costs()


class Told:
    """Who hears of an engine, and looks into it at each moment."""

    def __init__(self, shape, costs=COSTS):
        self.timeline = Timeline()
        self.first, self.last, self.cached, self.gaps, self.most = {}, {}, {}, [], 0
        self.engine = Engine(self.timeline, costs, shape, self, lambda seconds, tokens: self.gaps.append((seconds, tokens)))

    def first_token(self, run):
        assert run.job.number not in self.first
        self.first[run.job.number] = self.timeline.now
        self.cached[run.job.number] = run.cached
        self.look()

    def ended(self, run):
        assert run.job.number not in self.last
        self.last[run.job.number] = self.timeline.now
        self.look()

    def look(self):
        blocks = self.engine.blocks
        self.most = max(self.most, blocks.held + blocks.idle)

    def serve(self, jobs):
        for job in jobs:
            self.timeline.at(job.at, lambda job=job: self.engine.submit(job))
        self.timeline.run()
        return self


@pytest.mark.parametrize("prompt", [1, 511, 512, 8192, 8193, 40_000])
def test_a_lone_request_takes_what_the_formula_says(prompt):
    """Its first token comes after the published cost of its prompt, in however many steps, each other one a step later."""
    told = Told(Shape()).serve([Job(0, 5.0, prompt, 101)])
    assert told.first[0] - 5.0 == pytest.approx(0.066 + 0.057e-3 * prompt + 0.0044e-6 * prompt**2)
    steps = 100 * (0.0106 + 0.42e-3) + 1.42e-7 * sum(prompt + 1 + made for made in range(100))
    assert told.last[0] - told.first[0] == pytest.approx(steps)
    assert told.engine.computed == prompt


def test_what_is_cached_is_not_computed_again_but_the_last_block():
    """The second of two equal prompts finds all of its blocks but the one with its last token."""
    keys = tuple(range(8))
    told = Told(Shape()).serve([Job(0, 0.0, 4096, 1, keys), Job(1, 10.0, 4096, 1, keys), Job(2, 20.0, 4200, 1, keys)])
    assert told.cached == {0: 0, 1: 3584, 2: 4096}
    assert told.first[1] - 10.0 == pytest.approx(COSTS.alone(4096, 3584))
    assert told.engine.computed == 4096 + 512 + 104


def test_a_prompt_waits_for_those_before_it_and_slows_those_that_decode():
    """Prompts are computed in the order in which they came, and a step with a piece of one in it is a long gap for the others."""
    told = Told(Shape()).serve([Job(0, 0.0, 100, 2000), Job(1, 3.0, 30_000, 5), Job(2, 3.1, 9000, 5)])
    assert told.first[1] < told.first[2]
    assert told.first[2] - 3.1 > COSTS.alone(30_000)
    assert max(told.gaps)[0] > 0.5
    assert sum(tokens for _, tokens in told.gaps) == 1999 + 4 + 4


def test_without_a_seat_a_request_waits_for_one_to_be_free():
    """An engine with one seat serves one after the other."""
    told = Told(Shape(seats=1)).serve([Job(number, 0.0, 1000, 50) for number in range(4)])
    for one, other in pairwise(range(4)):
        assert told.first[other] == pytest.approx(told.last[one] + COSTS.alone(1000))


JOBS = st.lists(
    st.tuples(st.floats(0, 20), st.integers(1, 900), st.integers(1, 200), st.integers(0, 3), st.integers(0, 14)),
    min_size=1, max_size=40,
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(JOBS, st.integers(1, 6))
def test_every_request_ends_once_and_the_memory_is_never_exceeded(rows, seats):
    """Whatever comes: all first and last tokens, as many gaps as tokens, blocks within bounds, nothing held in the end."""
    shape = Shape(chunk=256, seats=seats, blocks=24, block=64)
    jobs = []
    for number, (at, prompt, output, family, common) in enumerate(sorted(rows)):
        keys = tuple(family * 1000 + depth if depth < common else 10_000 * (number + 1) + depth for depth in range(prompt // 64))
        jobs.append(Job(number, at, prompt, output, keys))
    told = Told(shape).serve(jobs)
    assert set(told.first) == set(told.last) == set(range(len(jobs)))
    assert sum(tokens for _, tokens in told.gaps) == sum(job.output - 1 for job in jobs)
    assert told.engine.computed + sum(told.cached.values()) == sum(job.prompt for job in jobs)
    assert told.most <= shape.blocks
    assert told.engine.blocks.held == 0
    for job in jobs:
        assert job.at < told.first[job.number] <= told.last[job.number]


class Plain:
    """The same memory as lists: whole sets of blocks, looked through each time."""

    def __init__(self, capacity):
        self.capacity, self.idle, self.holders, self.unknown = capacity, [], Counter(), 0

    def known(self, keys):
        return next((n for n, key in enumerate(keys) if key not in self.idle and not self.holders[key]), len(keys))

    def take(self, keys, fresh):
        waking = [key for key in keys if key in self.idle]
        held = self.unknown + len([key for key in self.holders if self.holders[key]])
        if held + len(waking) + fresh > self.capacity:
            return False
        self.idle = [key for key in self.idle if key not in keys]
        self.holders.update(keys)
        self.unknown += fresh
        self.idle = self.idle[max(0, held + len(waking) + fresh + len(self.idle) - self.capacity) :]
        return True

    def learn(self, key):
        self.unknown -= 1
        self.holders[key] += 1
        self.idle = [other for other in self.idle if other != key]

    def leave(self, keys, others):
        self.unknown -= others
        for key in reversed(keys):
            self.holders[key] -= 1
            if not self.holders[key]:
                self.idle.append(key)


@settings(max_examples=150, deadline=None)
@given(st.integers(1, 12), st.randoms(use_true_random=False))
def test_the_memory_is_what_a_plain_model_says(capacity, rng):
    """Who is found, who is let in and who is forgotten first are the same as in lists that are looked through."""
    blocks, plain, running = Blocks(capacity), Plain(capacity), []
    for _ in range(40):
        if running and rng.random() < 0.45:
            keys, others = running.pop(rng.randrange(len(running)))
            blocks.leave(keys, others)
            plain.leave(keys, others)
        else:
            family, length = rng.randrange(3), rng.randrange(6)
            keys = tuple(family * 10 + depth for depth in range(length))
            found = blocks.known(keys)
            assert found == plain.known(keys)
            extra = rng.randrange(2)
            let_in = blocks.take(keys[:found], length - found + extra)
            assert let_in == plain.take(keys[:found], length - found + extra)
            if let_in:
                blocks.learn(keys[found:])
                for key in keys[found:]:
                    plain.learn(key)
                running.append((keys, extra))
        assert blocks.held + blocks.idle <= capacity
        assert blocks.idle == len(plain.idle)


def test_steps_that_are_one_event_take_as_long_as_one_by_one():
    """Somebody who comes amid many steps of decoding begins at the end of the one that is under way."""
    rng = random.Random(3)
    for _ in range(20):
        at = rng.uniform(0.1, 3.0)
        told = Told(Shape()).serve([Job(0, 0.0, 100, 400), Job(1, at, 100, 1)])
        now, context = COSTS.alone(100), 101
        while now < at:
            now, context = now + COSTS.decode(1, context), context + 1
        if at > COSTS.alone(100):
            assert told.first[1] == pytest.approx(now + COSTS.decode(1, context) + COSTS.alone(100))
