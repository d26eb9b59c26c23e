"""Slots that find themselves, before engines that queue and preempt inside: the product's own parts in virtual time."""

from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.lab.simulate.capacity import ENGINES, Front, Setting, halved, overload
from gateway.lab.simulate.engine import Build, Engine
from gateway.lab.simulate.timeline import Timeline

BY_NAME = {build.name: build for build in ENGINES}
BEST = {"few seats": 24, "little memory": 20, "large": 256}
"""The fixed numbers that `python -m bench.slots` finds to be the best."""
HALF_BEST = {"few seats": 12, "little memory": 12, "large": 128}
END, WARM = 150.0, 50.0


@cache
def jobs(name, end):
    return overload(BY_NAME[name], end, seed=4)


def served(name, setting, *, end=END, warm=WARM, change=None):
    front = Front(setting, [BY_NAME[name]], jobs(name, end), end, warm)
    if change is not None:
        front.timeline.at(change, lambda: setattr(front.engines[0], "build", halved(front.engines[0].build)))
    return front, front.run()


@pytest.mark.parametrize("name", list(BY_NAME))
def test_it_comes_near_the_best_fixed_number_without_being_told(name):
    """Under overload, of three engines that differ tenfold: at least 0.95 of the goodput, and next to nothing waits inside."""
    _, best = served(name, Setting("", BEST[name]))
    front, own = served(name, Setting("adaptive"))
    assert own.good >= 0.95 * best.good
    assert own.engine_waited / own.seconds <= 0.04 * front.pool.capacity()
    assert own.preemptions <= max(5, best.preemptions)


def test_a_fixed_number_that_is_too_large_queues_inside():
    """What adaptive slots are for: as many tokens, but nine tenths of the requests wait where no class or tenant counts."""
    _, fixed = served("few seats", Setting("", 256))
    _, own = served("few seats", Setting("adaptive"))
    assert fixed.engine_waited / fixed.seconds > 100
    assert fixed.good < 0.2 * own.good
    assert own.tokens > 0.93 * fixed.tokens


@pytest.mark.parametrize("name", list(BY_NAME))
def test_without_metrics_first_bytes_do_nearly_as_well(name):
    """An engine that tells nothing: at least 0.7 of the best fixed number's goodput, the first minutes included."""
    _, best = served(name, Setting("", BEST[name]))
    _, own = served(name, Setting("untold", told=False))
    assert own.good >= 0.7 * best.good


@pytest.mark.parametrize("name", ["few seats", "little memory"])
def test_it_follows_an_engine_that_loses_half(name):
    """Half a minute after half of seats and memory are gone it does as well as the best number for what is left."""
    _, best = served(name, Setting("", HALF_BEST[name]), end=360.0, warm=180.0, change=150.0)
    front, own = served(name, Setting("adaptive"), end=360.0, warm=180.0, change=150.0)
    assert own.good >= 0.9 * best.good
    later = [waiting for at, waiting in front.waiting if at > 240]
    assert sum(later) / len(later) <= 2


def test_unlike_replicas_of_one_pool_each_have_what_they_can():
    """The one with few seats has few slots, the one with little memory few tokens, and the pool is the sum of both."""
    builds = [BY_NAME["few seats"], BY_NAME["little memory"]]
    front = Front(Setting("adaptive"), builds, jobs("little memory", END), END, WARM)
    own = front.run()
    seats, memory = front.pool.replicas
    assert 16 <= seats.slots <= 30
    assert memory.most_tokens < 80_000
    assert own.good / own.seconds > 1100
    assert own.engine_waited / own.seconds < 2


BUILDS = st.builds(
    Build,
    name=st.just("large"),
    seats=st.integers(1, 300),
    kv_tokens=st.integers(9_000, 400_000),
    base=st.floats(0.01, 0.05),
    per_seat=st.floats(0.00005, 0.001),
)


@settings(max_examples=8, deadline=None)
@given(build=BUILDS, told=st.booleans(), ceiling=st.sampled_from([1, 16, 256]))
def test_of_any_engine_no_slot_is_lost_and_no_bound_passed(build, told, ceiling):
    """Whatever it is like: requests are served, slots stay within bounds, and what runs is what is counted."""
    front = Front(Setting("", None, told, 4, ceiling), [build], jobs("few seats", 60.0), 60.0)
    tally = front.run()
    assert tally.answers > 0
    replica, scheduler = front.pool.replicas[0], front.scheduler
    assert all(1 <= slots <= ceiling for _, slots in front.slots)
    assert 0 < replica.inflight == scheduler.inflight <= ceiling
    assert replica.inflight == len(front.engines[0]._waiting) + int(front.engines[0].view().running)


def test_the_model_of_an_engine_preempts_and_loses_nothing():
    """With too little memory for all its seats every answer is made all the same, each once and whole."""
    timeline = Timeline()
    engine = Engine(replace(BY_NAME["little memory"], kv_tokens=3000), timeline)
    firsts, overs = [], []
    for number in range(40):
        engine.submit(100, 500 + number, lambda n=number: firsts.append(n), lambda n=number: overs.append(n))
    timeline.run()
    assert sorted(firsts) == sorted(overs) == list(range(40))
    assert engine.preemptions > 0
    assert (engine._held, engine.view().running, engine.view().waiting) == (0, 0, 0)


def test_the_model_of_an_engine_takes_the_time_of_its_steps():
    """One request alone: a step for its prompt and first token, and one for each of the others."""
    timeline = Timeline()
    engine = Engine(Build("", 4, 10_000, base=0.02, per_seat=0.001, per_token=0.0001, budget=2048), timeline)
    at = []
    engine.submit(1000, 11, lambda: at.append(timeline.now), lambda: at.append(timeline.now))
    timeline.run()
    assert at == pytest.approx([0.12, 0.12 + 10 * 0.021])
