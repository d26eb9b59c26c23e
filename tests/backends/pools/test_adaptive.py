"""Adaptive slots: what an engine or its first bytes tell goes in, slots and tokens come out."""

import math
from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.adaptive import Adaptive
from backends.engine import EngineView

LOOK = 2.0


@dataclass
class Load:
    inflight: int = 0
    peak: int = 0
    tokens: int = 0


class Engine:
    """Has so many seats; the replica is asked for everything it is given. One look every two seconds."""

    def __init__(self, governor, seats, *, demand=10**6, kv=None):
        self.governor, self.seats, self.demand, self.kv = governor, seats, demand, kv
        self.now, self.preempted, self.load, self.waited = 1000.0, 0, Load(), []

    def look(self, times=1, **said):
        load = self.load
        for _ in range(times):
            self.now += LOOK
            load.inflight = load.peak = min(self.governor.slots, self.demand)
            waiting = max(0, load.inflight - self.seats)
            self.waited.append(waiting)
            view = {"running": load.inflight - waiting, "waiting": waiting, "preemptions": self.preempted, "kv_tokens": self.kv}
            self.governor.engine(EngineView(**(view | said)), load, self.now)
        return self.governor.slots


def first_bytes(governor, seconds, count, now, *, inflight=None, prompt=100):
    load = Load()
    for _ in range(count):
        now += 0.25
        load.inflight = load.peak = governor.slots if inflight is None else inflight
        governor.first_byte(prompt, now - seconds, load, now)
    return now


def test_it_begins_at_its_floor_and_doubles_while_all_is_well():
    """A new replica is not thrown a full load, and has it after a few looks."""
    engine = Engine(Adaptive(4, 256), seats=300)
    assert [engine.governor.slots, *(engine.look() for _ in range(6))] == [4, 8, 16, 32, 64, 128, 256]
    assert engine.look(10) == 256


def test_what_nobody_uses_does_not_grow():
    """Slots that were not all in use prove nothing."""
    engine = Engine(Adaptive(4, 256), seats=300, demand=3)
    assert engine.look(20) == 4


@pytest.mark.parametrize("seats", [7, 24, 100, 200])
def test_it_finds_the_seats_of_an_engine_and_stays_there(seats):
    """Told only how many wait, it comes to what the engine has, and stays within one step and without swinging."""
    engine = Engine(Adaptive(4, 256), seats)
    engine.look(60)
    found = [engine.look() for _ in range(300)]
    assert min(found) >= 0.9 * seats
    assert max(found) <= 1.1 * seats + 1
    assert sum(engine.waited[-300:]) / 300 <= max(0.15, 0.01 * seats)
    assert sum(a != b for a, b in pairwise(found)) < 60


@pytest.mark.parametrize(("before", "after"), [(100, 50), (50, 100), (200, 10), (10, 200)])
def test_it_follows_an_engine_that_changes(before, after):
    """Half the seats, or twice as many: two minutes later it has found them."""
    engine = Engine(Adaptive(4, 256), before)
    engine.look(100)
    engine.seats = after
    engine.look(60)
    assert 0.85 * after <= engine.governor.slots <= 1.15 * after + 1


def test_a_moment_of_waiting_is_no_trouble():
    """Requests that wait at one look came since the engine's last step."""
    engine = Engine(Adaptive(4, 256), seats=300)
    engine.look(6)
    assert [engine.look(waiting=100.0), engine.look(waiting=0.0), engine.look(waiting=100.0)] == [256, 256, 256]
    assert engine.look(waiting=100.0) < 256
    assert engine.governor.reason == "waiting"


def test_others_requests_are_not_our_slots_fault_unless_they_are_many():
    """Where the slots were not all in use, little waiting changes nothing; much makes room for the others."""
    engine = Engine(Adaptive(4, 256), seats=300)
    engine.look(6)
    engine.demand = 60
    assert engine.look(5, running=60.0, waiting=3.0) == 256
    assert engine.look(2, running=100.0, waiting=100.0) == 30


def test_a_second_cut_waits_for_the_first_to_come_to_effect():
    """What runs cannot be taken back: until it has ended, more of the same trouble says nothing new."""
    governor, load = Adaptive(4, 256), Load(200, 200)
    for number in range(12):
        governor.engine(EngineView(100.0, 0.0), load, number * LOOK)
        load.inflight = load.peak = governor.slots
    heard = []
    for number in range(12, 18):
        governor.engine(EngineView(128.0, 128.0), load, number * LOOK)
        heard.append(governor.slots)
    assert heard == [256, 128, 128, 128, 128, 128]


def test_preemptions_bound_the_tokens_and_leave_the_slots():
    """Memory is short: fewer tokens at once, not fewer requests; the KV cache's own size is where it begins."""
    engine = Engine(Adaptive(4, 256), seats=300, kv=100_000)
    engine.look(6)
    assert engine.governor.tokens == 100_000
    engine.load.tokens, engine.preempted = 99_000, 5
    engine.look()
    assert (engine.governor.slots, engine.governor.reason) == (256, "memory")
    assert engine.governor.tokens == pytest.approx(99_000 * 0.9)


def test_preemptions_bound_the_slots_where_the_memory_is_unknown():
    """An engine that does not tell its KV cache has fewer requests instead."""
    engine = Engine(Adaptive(4, 256), seats=300)
    engine.look(6)
    engine.preempted = 5
    assert engine.look() < 256
    assert engine.governor.reason == "memory"


def test_a_cache_that_is_nearly_full_is_a_reason_to_stay():
    """Nothing grows from nine tenths on."""
    engine = Engine(Adaptive(4, 256), seats=300, kv=100_000)
    assert engine.look(5, usage=0.95) == 4
    assert engine.look(2, usage=0.5) == 16


def test_tokens_grow_beyond_the_cache_while_it_is_not_full():
    """Shared prefixes are counted for each request: where the engine has room all the same, it is used."""
    engine = Engine(Adaptive(4, 256), seats=300, kv=100_000)
    engine.look(6)
    for _ in range(60):
        engine.load.tokens = int(engine.governor.tokens)
        engine.look(usage=0.4)
    assert 200_000 < engine.governor.tokens <= 1_600_000


def test_an_operators_bound_of_tokens_is_never_passed():
    """`tokens` of the config is a ceiling, from the first moment and for ever."""
    engine = Engine(Adaptive(4, 256, most_tokens=50_000), seats=300, kv=100_000)
    assert engine.governor.tokens == 50_000
    for _ in range(60):
        engine.load.tokens = int(engine.governor.tokens)
        engine.look(usage=0.4)
    assert engine.governor.tokens == 50_000


def test_an_engine_that_was_started_anew_is_begun_with_slowly():
    """Its count of preemptions goes back: a quarter, and doubling up to where it was."""
    engine = Engine(Adaptive(4, 256), seats=300)
    engine.preempted = 7
    engine.look(7)
    engine.preempted = 0
    assert [engine.look() for _ in range(4)] == [64, 128, 256, 256]


def test_a_replica_that_is_back_has_a_quarter_and_doubles_to_what_it_had():
    """An outage says nothing of its size, but its cache is cold and the queue has grown."""
    engine = Engine(Adaptive(4, 256), seats=80)
    engine.look(60)
    before = engine.governor.slots
    assert engine.governor.recovered()
    assert (engine.governor.slots, engine.governor.reason) == (before // 4, "recovered")
    assert engine.look(3) >= before - 1
    fresh = Adaptive(4, 256)
    assert not fresh.recovered()
    assert Engine(fresh, seats=300).look(6) == 256


def test_a_load_that_was_taken_over_is_not_choked():
    """Where more runs well than there are slots, of a predecessor's dispatching, that many are proven at once."""
    governor = Adaptive(4, 256)
    governor.engine(EngineView(180.0, 0.0), Load(180, 180), 0.0)
    assert governor.slots == 180


# -- first bytes


def test_without_metrics_first_bytes_decide():
    """Quick ones with all slots in use are room; late ones are trouble."""
    governor = Adaptive(4, 64)
    now = first_bytes(governor, 0.1, 200, 1000.0)
    assert (governor.slots, governor.reason) == (64, "room")
    first_bytes(governor, 1.0, 40, now)
    assert governor.slots < 64
    assert governor.reason == "late"


def test_each_size_of_prompt_has_a_measure_of_its_own():
    """A long prompt that takes long is not late; a short one that takes as long is."""
    governor = Adaptive(4, 64)
    now = first_bytes(governor, 0.1, 20, 1000.0, inflight=2)
    now = first_bytes(governor, 2.0, 20, now, inflight=2, prompt=10_000)
    now = first_bytes(governor, 2.0, 100, now, prompt=10_000)
    grown = governor.slots
    assert grown > 4
    first_bytes(governor, 2.0, 40, now, prompt=100)
    assert governor.slots < grown


def test_late_first_bytes_cut_once_a_round():
    """What was dispatched before a cut, or in its first moment, says nothing of it."""
    governor = Adaptive(4, 64)
    now = first_bytes(governor, 0.1, 200, 1000.0)
    load = Load(64, 64)
    for _ in range(100):
        governor.first_byte(100, now - 5.0, load, now)
    assert governor.slots in (51, 64)


def test_a_fresh_word_of_the_engine_is_worth_more_than_first_bytes():
    """While the metrics are fresh nothing else decides, and first bytes need not be told at once."""
    governor = Adaptive(4, 64, fresh=7.0)
    assert governor.wants_first_byte(1000.0)
    now = first_bytes(governor, 0.1, 20, 1000.0, inflight=2)
    governor.engine(EngineView(1.0, 0.0), Load(1, 1), now)
    before = governor.slots
    assert not governor.wants_first_byte(now + 7.0)
    assert governor.wants_first_byte(now + 7.1)
    first_bytes(governor, 3.0, 20, now)
    assert governor.slots == before


VIEWS = st.builds(
    EngineView,
    running=st.floats(0, 1e12),
    waiting=st.floats(0, 1e12),
    preemptions=st.none() | st.floats(0, 1e12),
    usage=st.none() | st.floats(0, 1),
    kv_tokens=st.none() | st.floats(1, 1e12),
)
LOADS = st.builds(Load, inflight=st.integers(0, 1000), peak=st.integers(0, 1000), tokens=st.integers(0, 10**9))


@settings(max_examples=60, deadline=None)
@given(
    floor=st.integers(1, 50),
    ceiling=st.integers(1, 300),
    most=st.none() | st.integers(1, 10**6),
    steps=st.lists(st.tuples(st.sampled_from("eefr"), VIEWS, LOADS, st.floats(0, 20), st.integers(0, 10**7)), max_size=25),
)
def test_whatever_is_told_the_bounds_hold(floor, ceiling, most, steps):
    """Never no slot, never above the ceiling or below the floor; tokens above nothing and within the operator's bound; and the
    verbs tell of every change.
    """
    governor, now = Adaptive(floor, ceiling, most_tokens=most), 0.0
    for kind, view, load, passed, prompt in steps:
        now += passed
        before = governor.slots, governor.tokens
        if kind == "e":
            told = governor.engine(view, load, now)
        elif kind == "f":
            told = governor.first_byte(prompt, now - passed, load, now)
        else:
            told = governor.recovered()
        assert told == (before != (governor.slots, governor.tokens))
        assert 1 <= min(floor, ceiling) <= governor.slots <= ceiling
        assert 0 < governor.tokens <= (math.inf if most is None else most)
