import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.load import OFF, LoadRules, PoolLoad, moved, nobody_near, reach
from routing.recent import LEAST, SIZE, Recent

TIERS = ("small", "large")
RULES = LoadRules(band=0.5, idle=0.25, others=1.0, wait={"small": 0.2})
IDLE = PoolLoad(True, 8, 8, 0.0)
GONE = PoolLoad(False, 0, 0, None)


def waits(seconds, free=0, slots=8):
    return PoolLoad(True, free, slots, seconds)


def near(tier, share):
    """What goes up has scores from 0.5 to 0.7, each as often."""
    return 0.5 + 0.2 * share if tier == "large" else None


def move(tier, score, small, large, *, rules=RULES, settled=False, near=near):
    pools = {"small": small, "large": large}
    return moved(tier, score, TIERS, pools.get, rules, near, settled=settled)


def test_what_is_near_the_cut_spills_when_the_wait_is_too_long():
    """At twice the wait that is meant the whole band does, and what is above it never."""
    assert move("large", 0.59, IDLE, waits(2.0)) == ("small", "spilled")
    assert move("large", 0.61, IDLE, waits(2.0)) is None
    assert move("large", 0.61, IDLE, waits(1000.0)) is None
    assert move("large", 0.51, IDLE, waits(1.0)) is None


def test_the_nearer_the_more_it_spills():
    """Nothing at the wait that is meant, half of the band half as much above it."""
    assert [round(reach(wait, 1.0, 0.5), 3) for wait in (0.0, 1.0, 1.5, 2.0, 9.0)] == [0.0, 0.0, 0.25, 0.5, 0.5]
    assert move("large", 0.54, IDLE, waits(1.5)) == ("small", "spilled")
    assert move("large", 0.56, IDLE, waits(1.5)) is None


def test_nothing_spills_where_it_is_no_better():
    """Neither into a tier that waits too long itself, nor into one without a replica, nor into one of which nothing is known.

    Nor where nobody knows what lately went up.
    """
    assert move("large", 0.5, IDLE, waits(5.0), near=nobody_near) is None
    for small in (waits(0.3), GONE, waits(None), None):
        assert move("large", 0.5, small, waits(5.0)) is None
    assert move("large", 0.5, waits(0.3, free=1), waits(5.0)) == ("small", "spilled")
    assert move("large", 0.5, waits(0.1), waits(5.0)) == ("small", "spilled")


def test_a_conversation_that_is_there_already_does_not_spill():
    """The other tier would have to compute all of it."""
    assert move("large", 0.5, IDLE, waits(5.0), settled=True) is None


def test_easy_work_borrows_idle_slots():
    """Where its own tier is full and late, and enough of the dear one is free: some stay for hard work."""
    assert move("small", 0.1, waits(0.5), waits(0.0, free=3)) == ("large", "borrowed")
    assert move("small", 0.1, waits(None), waits(0.0, free=3)) == ("large", "borrowed")
    assert move("small", 0.1, waits(0.5), waits(0.0, free=2)) is None
    assert move("small", 0.1, waits(0.5, free=1), waits(0.0, free=8)) is None
    assert move("small", 0.1, waits(0.1), waits(0.0, free=8)) is None
    for large in (GONE, None):
        assert move("small", 0.1, waits(0.5), large) is None


def test_work_that_nobody_can_rate_borrows_and_never_spills():
    """Who waits for a full tier has no more against an idle one for that nobody knows how hard he is."""
    assert move("small", None, waits(0.5), waits(0.0, free=3)) == ("large", "borrowed")
    assert move("small", None, waits(0.5), waits(0.0, free=2)) is None
    assert move("small", None, waits(0.1), waits(0.0, free=8)) is None
    assert move("large", None, IDLE, waits(1000.0)) is None


@pytest.mark.parametrize("rules", [OFF, LoadRules(band=0.0, idle=1.0)])
def test_off_is_off(rules):
    """Without a band nothing spills, with all slots kept nothing is borrowed."""
    assert move("large", 0.5, IDLE, waits(99.0), rules=rules) is None
    assert move("small", 0.1, waits(99.0), IDLE, rules=rules) is None


pools = st.none() | st.builds(
    PoolLoad, st.booleans(), st.integers(0, 8), st.integers(0, 8), st.none() | st.floats(0, 1e6)
)  # fmt: skip


@given(st.floats(0, 1), pools, pools, st.floats(0, 1), st.floats(0, 1), st.booleans())
def test_hard_work_never_goes_down(score, small, large, band, idle, settled):
    """And a move is always to a tier that has a replica."""
    rules = LoadRules(band, idle, 1.0)
    tier = "large" if score >= 0.5 else "small"
    found = move(tier, score, small, large, rules=rules, settled=settled)
    if found is None:
        return
    to, kind = found
    assert {"small": small, "large": large}[to].ready
    assert (to, kind) == (("small", "spilled") if tier == "large" else ("large", "borrowed"))
    assert kind == "borrowed" or score < 0.5 + 0.2 * band


@given(st.lists(st.floats(0, 1), max_size=400), st.floats(0, 1))
def test_what_is_near_is_a_quantile_of_the_newest_scores(scores, share):
    """Of too few nobody knows; no more than that share of them are below it."""
    recent = Recent()
    for score in scores:
        recent.add(score)
    found, last = recent.near(share), scores[-SIZE:]
    if len(last) < LEAST:
        assert found is None
        return
    assert found in last
    assert sum(score < found for score in last) <= share * len(last)
    assert recent.near(0.0) == min(last)
