"""How good a kept answer still is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from caches.directives import Directives
from caches.freshness import Freshness, freshness
from caches.policy import ExactPolicy
from caches.types import Entry

FRESH, STALE, GONE = Freshness.FRESH, Freshness.STALE, Freshness.GONE
NOW = 1_000_000.0


def policy(ttl=60.0, stale=30.0):
    return ExactPolicy(enabled=True, ttl=ttl, keep="all", max_entry=1, stale=stale)


def entry(age, lives=90.0):
    return Entry(
        id="ce-1", key=b"k", tenant="acme", model="m", tier="small", endpoint="chat", body=b"{}",
        stored_at=NOW - age, expires_at=NOW - age + lives,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("age", "max_age", "expected"),
    [
        (0, None, FRESH),
        (59, None, FRESH),
        (60, None, STALE),
        (89, None, STALE),
        (90, None, GONE),
        (1000, None, GONE),
        (-5, None, FRESH),
        (10, 10, FRESH),
        (11, 10, GONE),
        (-5, 10, FRESH),
        (59, 1000, FRESH),
        (60, 1000, GONE),
    ],
)
def test_fresh_then_stale_then_gone(age, max_age, expected):
    """Fresh for `ttl`, stale for `stale` more; a client's `max-age` bounds the age and rules out a stale answer."""
    assert freshness(entry(age), policy(), NOW, max_age) is expected


def test_without_a_stale_time_nothing_is_stale():
    """By default an answer is fresh or it is a miss."""
    assert freshness(entry(59), policy(stale=0.0), NOW) is FRESH
    assert freshness(entry(60), policy(stale=0.0), NOW) is GONE


def test_a_client_that_shortened_the_life_of_its_answer_is_obeyed():
    """An answer kept with `ttl=20` is never stale: it is fresh until it is gone."""
    lives = policy().lifetime(Directives(ttl=20))
    assert [freshness(entry(age, lives), policy(), NOW) for age in (0, 19, 20)] == [FRESH, FRESH, GONE]


def test_the_policy_in_force_counts():
    """An operator who shortens the ttl ages what is kept already."""
    assert freshness(entry(30), policy(ttl=10.0, stale=30.0), NOW) is STALE
    assert freshness(entry(30), policy(ttl=10.0, stale=10.0), NOW) is GONE


ages = st.floats(-100, 1000)
times = st.floats(0, 500)


@given(ages, times, times, st.none() | st.integers(0, 99_999_999), st.none() | st.integers(1, 1000), times)
def test_it_only_gets_worse(age, ttl, stale, client_ttl, max_age, later):
    """However ages and wishes fall: never better with time, never served past its end, and never older than the client takes."""
    order = [FRESH, STALE, GONE]
    kept = policy(ttl, stale)
    lives = kept.lifetime(Directives(ttl=client_ttl))
    told = freshness(entry(age, lives), kept, NOW, max_age)
    after = freshness(entry(age + later, lives), kept, NOW, max_age)
    assert order.index(after) >= order.index(told)
    if told is not GONE:
        assert age < lives
        assert max_age is None or (told is FRESH and age <= max_age)
