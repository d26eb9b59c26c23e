"""What conversations, load and health make of a decision, in the order that the module states."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from routing.aims import Cut
from routing.decide import decide
from routing.load import LoadRules, PoolLoad
from routing.sessions import Held, Sticky
from routing.types import Model, Needs, Resolution, Target, Verdict

ORDER = ("small", "medium", "large")
FALLBACK = {"small": "large", "large": "small"}
RULES = LoadRules(band=0.5, idle=0.25, others=1.0)
IDLE, GONE = PoolLoad(True, 8, 8, 0.0), PoolLoad(False, 0, 0, None)
LATE = PoolLoad(True, 0, 8, 5.0)


def target(name, tier, context=None, capabilities=None):
    return Target(name, Model(name, tier, name, context, None if capabilities is None else frozenset(capabilities)), name)


S1, S2 = target("s1", "small", 8_192, ["tools"]), target("s2", "small", 8_192, ["tools"])
L1, L2 = target("l1", "large", 131_072, ["tools", "vision"]), target("l2", "large", 131_072, ["tools", "vision"])
M1 = target("m1", "medium", 32_768, ["tools", "vision"])


def choose(*candidates, score=None, held=None, pools=None, capabilities=(), prompt=100, asked=None, named=None, **more):
    """`asked` gets a mark for each time that the classifier is."""

    def verdict():
        if asked is not None:
            asked.append(1)
        return Verdict(score, named, idle=more.get("idle", False))

    return decide(
        Resolution("auto", None, candidates or (S1, S2, L1, L2), auto=True),
        Needs(frozenset(capabilities), prompt),
        verdict,
        override=more.pop("override", None),
        default_tier=more.pop("default", "large"),
        cut=more.pop("cut", Cut(more.pop("threshold", 0.5))),
        order=ORDER,
        fallback=FALLBACK,
        talk=lambda: held,
        sticky=Sticky(3, 1000),
        load=(pools or {}).get,
        rules=more.pop("rules", RULES),
        near=lambda tier, share: {"medium": 0.5, "large": 0.75 if M1 in candidates else 0.5}[tier] + 0.2 * share,
    )


def told(decision):
    return decision.target.name, decision.reason


def test_an_easy_turn_of_a_hard_conversation_stays_for_its_sake():
    """The reason is `session`, the score is told, and the count goes on."""
    decision = choose(score=0.1, held=Held("large", easy=1))
    assert (told(decision), decision.score) == (("l1", "session"), 0.1)
    assert (decision.wanted, decision.keeps, decision.easy, decision.turned) == ("small", "large", 2, "kept")


def test_a_turn_that_wants_what_its_conversation_holds_is_decided_by_itself():
    """And so are one that goes up, and one that may go down."""
    assert told(choose(score=0.9, held=Held("large"))) == ("l1", "score")
    assert told(choose(score=0.9, held=Held("small"))) == ("l1", "score")
    assert told(choose(score=0.1, held=Held("large", easy=3))) == ("s1", "score")


def test_what_goes_on_and_cannot_be_rated_stays():
    """Short words that no classifier knows inherit; a long text that it does not know goes where the unknown goes."""
    assert told(choose(held=Held("small", leans=True))) == ("s1", "session")
    assert told(choose(held=Held("small"))) == ("l1", "default")


def test_where_a_target_lets_nobody_up_no_conversation_stays_up():
    """Else who once asked something hard would have the dear tier for whatever he says next; a loop that was begun goes on."""
    above = {"threshold": math.inf}
    assert told(choose(score=0.9, held=Held("large"), **above)) == ("s1", "score")
    assert told(choose(score=0.1, held=Held("large", leans=True), **above)) == ("s1", "score")
    assert told(choose(score=0.1, held=Held("large", "l2"), **above)) == ("l2", "session")


def test_a_tool_loop_keeps_its_model_and_is_not_judged():
    """Also one that is not the first of its tier, and whatever the score would be by now."""
    asked = []
    decision = choose(score=0.1, held=Held("large", "l2", easy=2), asked=asked)
    assert (told(decision), decision.score, asked) == (("l2", "session"), None, [])
    assert [t.name for t in decision.alternatives] == ["l1", "s1", "s2"]
    assert (decision.keeps, decision.easy, decision.turned) == ("large", 2, "looped")


@pytest.mark.parametrize(
    ("more", "goes"),
    [
        ({"pools": {"s2": GONE}}, ("s1", "score")),
        ({"prompt": 20_000}, ("l1", "context")),
        ({"capabilities": ["vision"]}, ("l1", "capability")),
        ({"override": "large"}, ("l1", "override")),
    ],
    ids=["no replica", "context", "capability", "override"],
)
def test_a_tool_loop_leaves_a_model_that_cannot_go_on(more, goes):
    """Its pool is gone, its context is full, it lacks what is needed now, or the client says otherwise."""
    assert told(choose(score=0.1, held=Held("small", "s2"), **more)) == goes


def test_a_model_that_is_not_configured_any_more_holds_no_loop():
    """The tier still counts."""
    assert told(choose(score=0.1, held=Held("large", "gone"))) == ("l1", "session")


def test_capability_and_context_take_what_a_conversation_holds():
    """The nearest tier that can do it answers, for that reason."""
    assert told(choose(S1, M1, L1, score=0.1, held=Held("small"), capabilities=["vision"])) == ("m1", "capability")
    assert told(choose(S1, M1, L1, score=0.1, held=Held("small"), prompt=10_000)) == ("m1", "context")


def test_a_pool_without_a_replica_is_passed_over():
    """Within the tier, and along the fallback map; the reason says so, and the conversation does not move."""
    assert told(choose(score=0.1, pools={"s1": GONE, "s2": IDLE})) == ("s2", "fallback")
    decision = choose(score=0.1, pools={"s1": GONE, "s2": GONE, "l1": GONE})
    assert (told(decision), decision.keeps) == (("l2", "fallback"), "small")
    assert [t.name for t in decision.alternatives] == ["s1", "s2", "l1"]
    assert told(choose(score=0.9, pools={"l1": GONE, "l2": GONE})) == ("s1", "fallback")


def test_when_all_pools_are_down_or_nobody_knows_nothing_is_passed_over():
    """The first choice is refused in its own words, then."""
    assert told(choose(score=0.1, pools=dict.fromkeys(("s1", "s2", "l1", "l2"), GONE))) == ("s1", "score")
    assert told(choose(score=0.1)) == ("s1", "score")


def test_a_pinned_model_is_asked_whatever_its_health_and_load():
    """A pin is a pin."""
    pinned = Resolution("s1", S1, (S1, L1), auto=False)
    decision = decide(pinned, Needs(frozenset(), 10), lambda: Verdict(0.9), override=None, default_tier="large", cut=Cut(0.5),
                      order=ORDER, fallback={}, load=lambda _: GONE, rules=RULES)  # fmt: skip
    assert told(decision) == ("s1", "pinned")


def test_load_moves_what_the_score_decided():
    """Down what is near the cut, up what is easy; what the conversation holds stays the cheaper of the two."""
    spilled = choose(score=0.55, pools={"s1": IDLE, "l1": LATE})
    assert (told(spilled), spilled.move, spilled.keeps, spilled.wanted) == (("s1", "load"), "spilled", "small", "large")
    borrowed = choose(score=0.2, pools={"s1": LATE, "l1": IDLE})
    assert (told(borrowed), borrowed.move, borrowed.keeps) == (("l1", "load"), "borrowed", "small")


def test_what_nobody_can_rate_needs_room_in_a_target():
    """Below the line it goes to the cheapest tier, for the budget's sake; not where the classifier names a tier."""
    assert told(choose(cut=Cut(0.6, 0.5))) == ("s1", "budget")
    assert told(choose(cut=Cut(0.5, 0.5))) == ("l1", "default")
    assert told(choose(cut=Cut(0.6, 0.5), named="large")) == ("l1", "default")
    assert told(choose(cut=Cut(0.6, 0.5), default="small")) == ("s1", "default")
    borrowed = choose(cut=Cut(0.6, 0.5), pools={"s1": LATE, "l1": IDLE})
    assert (told(borrowed), borrowed.move, borrowed.wanted) == (("l1", "load"), "borrowed", "small")


def test_what_nobody_can_rate_borrows_where_it_was_sent_to_the_cheap_tier():
    """By a budget or by default; not where the classifier names the tier, nor where its conversation keeps it."""
    borrowed = choose(default="small", pools={"s1": LATE, "l1": IDLE})
    assert (told(borrowed), borrowed.move, borrowed.keeps, borrowed.wanted) == (("l1", "load"), "borrowed", "small", "small")
    assert told(choose(default="small", pools={"s1": IDLE, "l1": IDLE})) == ("s1", "default")
    assert told(choose(default="small", named="small", pools={"s1": LATE, "l1": IDLE})) == ("s1", "default")
    assert told(choose(held=Held("small", leans=True), pools={"s1": LATE, "l1": IDLE})) == ("s1", "session")


@pytest.mark.parametrize(
    "more",
    [
        {"score": 0.55, "override": "large"},
        {"score": None},
        {"score": 0.55, "held": Held("large")},
        {"score": 0.3, "held": Held("large")},
        {"score": 0.55, "held": Held("large", "l1")},
        {"score": 0.55, "capabilities": ["vision"]},
        {"score": 0.55, "prompt": 20_000},
        {"score": 0.61},
    ],
    ids=["override", "unknown", "held", "kept", "loop", "capability", "context", "hard"],
)
def test_load_takes_nothing_down_that_is_not_plainly_near_the_cut(more):
    """Neither what somebody asked for, nor what a conversation holds, nor what only one tier can do."""
    assert choose(**more, pools={"s1": IDLE, "s2": IDLE, "l1": LATE, "l2": LATE}).target.model.tier == "large"


def test_the_load_of_a_tier_is_that_of_the_model_that_would_answer():
    """One that is down is not waited for."""
    assert told(choose(score=0.55, pools={"s1": IDLE, "l1": GONE, "l2": LATE})) == ("s1", "load")
    assert told(choose(score=0.55, pools={"s1": IDLE, "l1": GONE, "l2": IDLE})) == ("l2", "fallback")


def test_of_three_tiers_work_spills_into_the_next():
    """What is near the cut of the dearest goes to the middle, not to the bottom."""
    assert told(choose(S1, M1, L1, score=0.77, pools={"m1": IDLE, "l1": LATE})) == ("m1", "load")


SCORES = st.none() | st.floats(0, 1)
POOLS = st.none() | st.builds(PoolLoad, st.booleans(), st.integers(0, 8), st.integers(0, 8), st.none() | st.floats(0, 100))
HELD = st.none() | st.builds(
    Held, st.sampled_from((*ORDER, "gone")), st.sampled_from(("", "s1", "l2", "gone")), st.integers(0, 9), st.integers(0, 2000),
    st.booleans(),
)  # fmt: skip


@given(SCORES, HELD, st.fixed_dictionaries(dict.fromkeys(("s1", "s2", "l1", "l2"), POOLS)), st.booleans())
@settings(max_examples=300)
def test_whatever_is_held_and_loaded_the_answer_can_be_given(score, held, pools, vision):
    """One of the candidates answers; who lacks something never does; nobody without a replica does while another has one."""
    decision = choose(score=score, held=held, pools=pools, capabilities=["vision"] if vision else [])
    every = (decision.target, *decision.alternatives)
    assert len(set(every)) == len(every)
    assert not vision or all(t.model.tier == "large" for t in every)
    down = {name for name, pool in pools.items() if pool is not None and not pool.ready}
    assert decision.target.name not in down or {t.name for t in every} <= down
    assert decision.keeps in ORDER
    hard = score is not None and score >= 0.6
    if hard and not (held and held.model) and decision.reason != "fallback":
        assert decision.target.model.tier == "large"


@pytest.mark.parametrize("threshold", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("tier", ["small", "large"])
@pytest.mark.parametrize("easy", [0, 2, 3, 7])
def test_small_talk_moves_no_conversation_and_counts_as_no_turn(threshold, tier, easy):
    """Neither up, wherever the line is, nor down, and what was counted is counted."""
    held = Held(tier, easy=easy, leans=True)
    decision = choose(score=0.0, idle=True, held=held, threshold=threshold)
    assert (decision.target.model.tier, decision.keeps) == (tier, tier)
    assert decision.easy in (easy, 0) if decision.turned == "same" else decision.easy == easy


@pytest.mark.parametrize("threshold", [0.0, 0.5])
def test_a_conversation_that_begins_with_small_talk_holds_no_tier(threshold):
    """Even where all is sent up."""
    decision = choose(score=0.0, idle=True, threshold=threshold)
    assert (decision.target.model.tier == "large") == (threshold == 0.0)
    assert decision.keeps == ""
