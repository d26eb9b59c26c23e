"""The cut that keeps a share of the dearest tier's quality."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.aims import Aim, Told
from routing.quality import REACH, Quality

PRIOR = [(0.3, 0.6), (0.6, 0.7), (0.8, 0.8), (0.1, 0.2)] * 16
CHANCES = st.tuples(st.floats(0, 1), st.floats(0, 1))


def send(scope, chances):
    """(went up, small, large) of each."""
    rows = []
    for place, (small, large) in enumerate(chances):
        score = (1 + large - small) / 2
        up = score >= scope.cut(lambda at=place: at * 0.618033988749895 % 1.0).threshold
        scope.tell(Told(up, True, score, small, large))
        rows.append((up, small, large))
    return rows


def kept(rows):
    return sum(large if up else small for up, small, large in rows) / sum(large for _, _, large in rows)


def ordinary(seed, count, easy):
    """Chances of a small tier that is good enough for some requests and not for others."""
    dice = random.Random(seed)
    larges = [dice.betavariate(5, 2) for _ in range(count)]
    return [(large * dice.betavariate(easy, 1.2), large) for large in larges]


@given(st.lists(st.lists(CHANCES, min_size=1, max_size=30), min_size=1, max_size=12), st.floats(0, 1))
def test_no_more_than_stated_is_ever_missing(pieces, value):
    """Whatever the chances are, what was given is at no time further below the aim than the stated number of answers."""
    rows = send(Quality(Aim("quality", value), PRIOR), [pair for piece in pieces for pair in piece * 4])
    missing = 0.0
    for up, small, large in rows:
        missing += value * large - (large if up else small)
        assert missing <= REACH + 1 + 1e-6


@given(st.lists(CHANCES, min_size=1, max_size=200), st.floats(0, 1))
def test_nobody_goes_up_to_a_tier_that_is_no_likelier_to_do_it(chances, value):
    """A request that the small tier does as well stays there, however much is owed."""
    for up, small, large in send(Quality(Aim("quality", value), PRIOR), chances):
        assert not up or large - small > -1e-9


@pytest.mark.parametrize("value", [0.85, 0.95, 0.99])
def test_the_floor_is_kept_with_nearly_the_least_that_can_go_up(value):
    """On ordinary traffic the floor is met within a point, with hardly more sent up than who knew them all would need."""
    chances = ordinary(7, 6000, 3)
    rows = send(Quality(Aim("quality", value), PRIOR), chances)
    gains = sorted((large - small for small, large in chances), reverse=True)
    need = value * sum(large for _, large in chances) - sum(small for small, _ in chances)
    least = 0
    while need > 0:
        need -= gains[least]
        least += 1
    assert kept(rows) == pytest.approx(value, abs=0.01)
    assert sum(up for up, _, _ in rows) <= least + 0.03 * len(rows)


def test_the_floor_is_kept_over_a_shift():
    """When the small tier gets worse at what is asked, more goes up, and each 500 requests keep the floor within two points."""
    rows = send(Quality(Aim("quality", 0.9), PRIOR), ordinary(1, 2000, 8) + ordinary(2, 2000, 1))
    for start in range(0, 3501, 50):
        assert kept(rows[start : start + 500]) >= 0.88
    assert sum(up for up, _, _ in rows[2000:]) > 2 * sum(up for up, _, _ in rows[:2000])


def test_where_the_small_tier_is_as_good_nobody_goes_up():
    """When nothing is to be gained nothing is sent."""
    rows = send(Quality(Aim("quality", 1.0), PRIOR), [(0.7, 0.7)] * 500)
    assert sum(up for up, _, _ in rows[50:]) == 0


def test_a_mass_of_one_gain_is_parted():
    """Requests that are all alike go up in the part that the floor needs."""
    rows = send(Quality(Aim("quality", 0.9), PRIOR), [(0.6, 0.8)] * 2000)
    assert kept(rows[500:]) == pytest.approx(0.9, abs=0.01)


def test_what_is_unrated_changes_nothing():
    """A request without chances moves neither the cut nor the account; only the share that went up counts it."""
    one = Quality(Aim("quality", 0.9), PRIOR)
    before = one.standing()
    for _ in range(100):
        one.tell(Told(True, True))
    after = one.standing()
    assert (after.cut, after.part, after.kept) == (before.cut, before.part, before.kept)
    assert (after.share, after.seen) == (1.0, 100)
    assert one.cut(lambda: 0.5).lets_up()
