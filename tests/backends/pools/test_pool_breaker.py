import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.breaker import Breaker, BreakerRules, State
from backends.types import Outcome

OK, FAULTED, REFUSED, FAILED, NEUTRAL = Outcome


@pytest.fixture
def breaker():
    return Breaker(random.Random(3))


def fail(breaker, now, times=5):
    for _ in range(times):
        breaker.record(FAILED, now, breaker.epoch)


def probe(breaker, now, outcome):
    assert breaker.take_probe(now)
    breaker.record(outcome, now, breaker.epoch, probe=True)


def test_five_failures_in_a_row_open_it(breaker):
    """The fifth failure in a row opens the breaker, the fourth does not."""
    fail(breaker, 10.0, 4)
    assert breaker.state(10.0) is State.CLOSED
    fail(breaker, 10.0, 1)
    assert breaker.state(10.0) is State.OPEN
    assert not breaker.allows(10.0)


def test_a_success_ends_the_row(breaker):
    """Failures count only in a row: one success between them starts anew."""
    for _ in range(3):
        fail(breaker, 10.0, 4)
        breaker.record(OK, 10.0, breaker.epoch)
        fail(breaker, 10.0, 4)
        breaker.record(FAULTED, 10.0, breaker.epoch)
    assert breaker.allows(10.0)


def test_neutral_results_neither_fail_nor_heal(breaker):
    """Refusals never open a breaker, and do not end a row of failures either."""
    for _ in range(1000):
        breaker.record(REFUSED, 10.0, breaker.epoch)
        breaker.record(NEUTRAL, 10.0, breaker.epoch)
    assert breaker.allows(10.0)
    fail(breaker, 10.0, 4)
    breaker.record(REFUSED, 10.0, breaker.epoch)
    breaker.record(NEUTRAL, 10.0, breaker.epoch)
    fail(breaker, 10.0, 1)
    assert not breaker.allows(10.0)


def test_half_of_the_results_failing_opens_it_too(breaker):
    """A replica that fails every other request is opened by the share, though never five fail in a row."""
    for number in range(20):
        breaker.record(OK if number % 2 else FAILED, 10.0, 0)
    breaker.record(FAILED, 10.0, 0)
    assert breaker.tripped


def test_a_few_failures_of_an_old_minute_do_not_count_in_the_share(breaker):
    """The share is of the last seconds: results older than the window are forgotten."""
    for number in range(19):
        breaker.record(OK if number % 2 else FAILED, 10.0, 0)
    breaker.record(FAILED, 25.0, 0)
    assert not breaker.tripped


def test_it_heals_by_itself(breaker):
    """After its time, and without any restart, an open breaker lets a probe through, and its success closes it."""
    fail(breaker, 10.0)
    assert breaker.state(15.0) is State.HALF_OPEN
    probe(breaker, 15.0, OK)
    assert breaker.state(15.0) is State.CLOSED
    assert breaker.allows(15.0)


def test_half_open_lets_exactly_one_probe_through(breaker):
    """Of many that ask at once when the time has come, one gets the probe."""
    fail(breaker, 10.0)
    assert not breaker.take_probe(12.0)
    assert [breaker.take_probe(15.0) for _ in range(50)].count(True) == 1
    assert not breaker.allows(15.0)


def test_a_neutral_probe_is_free_again(breaker):
    """A probe that showed nothing (its client left, or a 429) is given back, and the next request takes it."""
    fail(breaker, 10.0)
    probe(breaker, 15.0, NEUTRAL)
    assert breaker.allows(15.0)
    probe(breaker, 15.0, OK)
    assert not breaker.tripped


def test_the_opening_doubles_up_to_its_bound_and_never_passes_it(breaker):
    """Each failed probe doubles the opening: 5, 10, 20, 40 and then 60 seconds, shortened by up to a fifth of jitter."""
    fail(breaker, 0.0)
    now = 0.0
    for longest in (5, 10, 20, 40, 60, 60, 60):
        assert 0.8 * longest <= breaker.open_until - now <= longest
        now = breaker.open_until
        probe(breaker, now, FAILED)


def test_the_jitter_differs_between_breakers():
    """Two breakers that open at the same instant do not probe at the same instant."""
    one, other = Breaker(random.Random(1)), Breaker(random.Random(2))
    fail(one, 0.0)
    fail(other, 0.0)
    assert one.open_until != other.open_until


def test_one_that_flaps_stays_open_longer_and_a_calm_minute_forgives(breaker):
    """Reopening soon after healing doubles the opening; after a minute of calm it starts small again."""
    fail(breaker, 0.0)
    probe(breaker, 5.0, OK)
    fail(breaker, 6.0)
    assert breaker.open_until - 6.0 > 5.0
    probe(breaker, 20.0, OK)
    fail(breaker, 81.0)
    assert breaker.open_until - 81.0 <= 5.0


def test_healing_starts_the_share_anew(breaker):
    """What failed or succeeded before a breaker healed does not count in the share after it."""
    for _ in range(10):
        breaker.record(OK, 10.0, breaker.epoch)
    for _ in range(4):
        fail(breaker, 10.0)
        breaker.record(OK, 10.0, breaker.epoch)
    for _ in range(3):
        fail(breaker, 10.0, 4)
        assert not breaker.tripped
        breaker.record(OK, 10.0, breaker.epoch)


def test_old_successes_do_not_fill_the_share(breaker):
    """Successes from before the opening do not make up the samples that it takes to open by share."""
    for _ in range(10):
        breaker.record(OK, 10.0, breaker.epoch)
    fail(breaker, 10.0)
    breaker.record(OK, 10.0, breaker.epoch)
    for _ in range(3):
        fail(breaker, 10.0, 4)
        assert not breaker.tripped
        breaker.record(OK, 10.0, breaker.epoch)


def test_stragglers_from_before_the_opening_change_nothing(breaker):
    """Results of attempts that began before the opening neither close it, nor prolong it, nor take its probe away."""
    old = breaker.epoch
    fail(breaker, 10.0)
    until = breaker.open_until
    for outcome in Outcome:
        assert not breaker.record(outcome, 11.0, old)
    assert breaker.take_probe(15.0)
    breaker.record(OK, 15.0, old)
    assert breaker.tripped
    assert not breaker.allows(15.0)
    assert breaker.open_until == until


def test_stragglers_from_the_opening_do_not_reopen_it(breaker):
    """Failures of attempts that began while it was open do not count once it has closed."""
    fail(breaker, 10.0)
    during = breaker.epoch
    probe(breaker, 15.0, OK)
    for _ in range(100):
        breaker.record(FAILED, 16.0, during)
    assert breaker.allows(16.0)


def test_attempts_in_spite_of_it_heal_but_do_not_harm(breaker):
    """An attempt that ran while it was open closes it when it succeeds, and leaves the opening alone when it fails."""
    fail(breaker, 10.0)
    until = breaker.open_until
    breaker.record(FAILED, 11.0, breaker.epoch)
    assert breaker.open_until == until
    breaker.record(OK, 11.0, breaker.epoch)
    assert breaker.allows(11.0)


def test_the_rules_can_be_set():
    """The number of failures and the first opening follow the rules that were given."""
    breaker = Breaker(random.Random(1), BreakerRules(failures=2, open_seconds=1.0))
    fail(breaker, 0.0, 2)
    assert breaker.tripped
    assert breaker.open_until <= 1.0


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(0, 30), st.sampled_from(Outcome)), max_size=200), st.integers(0, 2**32))
def test_whatever_happened_it_can_heal(history, seed):
    """After any history there is a time, at most a minute away, at which a single success closes the breaker."""
    breaker, now = Breaker(random.Random(seed)), 0.0
    for pause, outcome in history:
        now += pause
        taken = breaker.take_probe(now)
        breaker.record(outcome, now, breaker.epoch, probe=taken)
        assert breaker.open_until <= now + 60
    now = max(now, breaker.open_until)
    assert breaker.allows(now)
    breaker.record(OK, now, breaker.epoch, probe=breaker.take_probe(now))
    assert breaker.state(now) is State.CLOSED


@settings(deadline=None)
@given(st.lists(st.sampled_from(["take", "ok", "failed", "neutral", "wait"]), max_size=100))
def test_never_two_probes_at_a_time(steps):
    """Whatever the order of events, at most one probe of an epoch is out."""
    breaker, now, held = Breaker(random.Random(5)), 0.0, []
    fail(breaker, now)
    for step in steps:
        if step == "wait":
            now += 20
        elif step == "take":
            if breaker.take_probe(now):
                assert not any(epoch == breaker.epoch for epoch in held)
                held.append(breaker.epoch)
        elif held:
            breaker.record(Outcome(step), now, held.pop(0), probe=True)
            if not breaker.tripped:
                fail(breaker, now)
