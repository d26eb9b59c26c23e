"""How fast a replay goes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from caches.pace import AT_ONCE, Pace, paced


def groups(events, tokens, pace):
    return list(paced(events, tokens, pace))


EVENTS = [b"%d" % number for number in range(100)]


@given(st.lists(st.binary(max_size=3), max_size=200), st.integers(0, 10_000), st.floats(0, 1e6), st.floats(0, 100))
def test_nothing_is_lost_and_time_is_bounded(events, tokens, rate, most):
    """Every event comes once and in order, the first at once, and all of it within the bound."""
    made = groups(events, tokens, Pace(rate, most))
    assert b"".join(piece for _, piece in made) == b"".join(events)
    assert sum(delay for delay, _ in made) <= most * 1.000001
    assert len(made) <= len(events)
    assert all(delay == 0 for delay, _ in made[:1])
    assert all(delay >= 0.0199 for delay, _ in made[1:])


@pytest.mark.parametrize("pace", [AT_ONCE, Pace(rate=0.0), Pace(rate=1e9), Pace(rate=50.0, most=0.0)])
def test_at_once_is_one_write(pace):
    """Without a pace, or with one that is too fast to be seen, the replay is written in one go."""
    assert groups(EVENTS, 100, pace) == [(0.0, b"".join(EVENTS))]


def test_a_pace_is_kept():
    """100 tokens at 50 a second take two seconds, whatever the number of events."""
    for events in (EVENTS, EVENTS[:7], EVENTS * 20):
        made = groups(events, 100, Pace(rate=50.0))
        assert sum(delay for delay, _ in made) == pytest.approx(2.0)
        assert len(made) == min(len(events), 101)


def test_a_long_answer_is_hurried():
    """A replay takes no longer than the bound, however many tokens it has."""
    assert sum(delay for delay, _ in groups(EVENTS, 1_000_000, Pace(rate=10.0, most=3.0))) == pytest.approx(3.0)


def test_events_stand_for_tokens_where_nobody_counted():
    """An answer without a usage is paced by its events."""
    assert sum(delay for delay, _ in groups(EVENTS, 0, Pace(rate=50.0))) == pytest.approx(2.0)


def test_nothing_to_replay():
    """No events, no groups."""
    assert groups([], 0, Pace(rate=50.0)) == []
