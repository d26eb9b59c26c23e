import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.rules import leans
from routing.sessions import Held, Sticky, fold, turn

TIERS = ("small", "medium", "large")
STICKY = Sticky(turns=3, tokens=1000)


def goes(held, wanted, *, known=True, sticky=STICKY):
    return turn(held, wanted, TIERS, sticky, known=known)


def test_a_harder_turn_goes_up_at_once():
    """Nothing of what a conversation holds keeps it down, and the easy turns begin anew."""
    assert goes(Held("small", easy=2), "large") == ("large", 0, "up")
    assert goes(Held("small", leans=True), "medium") == ("medium", 0, "up")


def test_easy_turns_stay_up_and_are_counted():
    """So many as are configured; the one after them goes down."""
    held, seen = Held("large"), []
    for _ in range(4):
        where = goes(held, "small")
        seen.append(where.tier)
        held = Held(where.tier, easy=where.easy)
    assert seen == ["large", "large", "large", "small"]


def test_a_harder_turn_between_easy_ones_begins_the_count_anew():
    """They must come in a row."""
    assert goes(Held("large", easy=2), "large") == ("large", 0, "same")


def test_what_was_read_keeps_a_conversation_up():
    """As long as the other tier would have to compute more than the bound."""
    assert goes(Held("large", easy=9, cost=1001), "small") == ("large", 10, "kept")
    assert goes(Held("large", easy=9, cost=1000), "small") == ("small", 0, "down")


def test_a_turn_that_leans_stays_and_is_not_counted():
    """Four times "continue" do not take hard work down."""
    held = Held("large", easy=3, leans=True)
    assert goes(held, "small") == ("large", 3, "kept")


def test_what_leans_and_is_not_known_stays_where_it_is():
    """It inherits, also from a cheap tier; what does not lean and is not known goes where the unknown goes."""
    assert goes(Held("small", leans=True), "large", known=False).tier == "small"
    assert goes(Held("small"), "large", known=False).tier == "large"


def test_a_tier_that_is_not_there_any_more_holds_nothing():
    """The config may have changed, or the key."""
    assert goes(Held("huge", easy=1), "small") == ("small", 0, "same")


@given(
    st.lists(st.tuples(st.sampled_from(TIERS), st.booleans()), max_size=12),
    st.integers(0, 2000),
    st.integers(0, 4),
)
def test_a_folded_conversation_is_one_that_was_gone_through(wants, cost, turns):
    """What is made out from the body is what a memory of the same turns would hold."""
    sticky, held = Sticky(turns, 1000), None
    for wanted, known in wants:
        here = None if held is None else turn(held, wanted, TIERS, sticky, known=known)
        held = Held(wanted, cost=cost) if here is None else Held(here.tier, easy=here.easy, cost=cost)
    found = fold(wants, cost, TIERS, sticky)
    assert found == (None if held is None else held._replace(kept=False))


@given(st.builds(Held, st.sampled_from(TIERS), easy=st.integers(0, 9), cost=st.integers(0, 9999), leans=st.booleans()),
       st.sampled_from(TIERS), st.booleans())  # fmt: skip
def test_a_turn_is_either_where_it_wants_or_where_it_was(held, wanted, known):
    """There is no third place, and never one cheaper than wanted, but for what leans and is not known."""
    where = goes(held, wanted, known=known)
    assert where.tier in (wanted, held.tier)
    assert TIERS.index(where.tier) >= TIERS.index(wanted) or (held.leans and not known)


@pytest.mark.parametrize(
    "text",
    ["yes", "commit it", "continue", "继续", "改一下", "ok, do that", "go ahead", "好的", "the second one", "fix it", "thanks!"],
)
def test_short_words_that_go_on_lean(text):
    """They mean nothing without what was said before; and small talk asks for nothing."""
    assert leans(text)


@pytest.mark.parametrize(
    "text",
    ["", "What is the capital of France?", "17 * 23", "xyzzy", "Прочитай и объясни", "yes " * 100, "it " * 5000],
)
def test_what_stands_alone_does_not_lean(text):
    """A fact, an unknown language, a long text."""
    assert not leans(text)
