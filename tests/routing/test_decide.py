import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from routing.aims import Cut
from routing.decide import able, decide, fits, room, tier_for
from routing.fixed import Fixed
from routing.types import Model, Needs, Resolution, Target, UnknownTier, Verdict

ORDER = ("small", "medium", "large")
FALLBACK = {"small": "large", "large": "small"}


def target(name, tier, context=None, capabilities=None):
    return Target(name, Model(name, tier, name, context, None if capabilities is None else frozenset(capabilities)), name)


SMALL = target("s", "small", 8_192, ["tools"])
SMALL_LONG = target("s-long", "small", 65_536, ["tools"])
MEDIUM = target("m", "medium", 32_768, ["tools", "vision"])
LARGE = target("l", "large", 131_072, ["tools", "vision", "json_schema"])
UNKNOWN = target("u", "small")


def auto(*candidates):
    return Resolution("auto", None, candidates, auto=True)


def needs(*capabilities, prompt=100, max_tokens=None):
    return Needs(frozenset(capabilities), prompt, max_tokens)


def never():
    raise AssertionError("the classifier was asked although nothing was open")


def says(score, tier=None):
    return lambda: Verdict(score, tier, (("proof", 2.4),))


def choose(resolution, wants=None, verdict=never, *, override=None, default_tier="large", threshold=0.5, fallback=FALLBACK):
    wants = wants or needs()
    return decide(
        resolution,
        wants,
        verdict,
        override=override,
        default_tier=default_tier,
        cut=Cut(threshold),
        order=ORDER,
        fallback=fallback,
    )


def names(decision):
    return [decision.target.name, *(t.name for t in decision.alternatives)]


def test_a_pinned_model_is_taken_whatever_it_lacks():
    """A pin is never refused for a capability or for its context, and never asks the classifier."""
    pinned = Resolution("s", SMALL, (SMALL, MEDIUM, LARGE), auto=False)
    decision = choose(pinned, needs("vision", prompt=1_000_000), override="large")
    assert (decision.target, decision.reason, decision.score) == (SMALL, "pinned", None)


def test_the_fallbacks_of_a_pin_are_its_own_and_must_satisfy_the_needs():
    """A pinned model's alternatives keep their order, without those that could not do it."""
    pinned = Resolution("s", SMALL, (SMALL, LARGE, MEDIUM), auto=False)
    assert names(choose(pinned)) == ["s", "l", "m"]
    assert names(choose(pinned, needs("json_schema"))) == ["s", "l"]
    assert names(choose(pinned, needs(prompt=50_000))) == ["s", "l"]


@pytest.mark.parametrize(("score", "name"), [(0.0, "s"), (0.49, "s"), (0.5, "l"), (1.0, "l")])
def test_the_score_against_the_threshold_chooses_the_tier(score, name):
    """Below the threshold the cheap tier answers, from it on the dear one; the score and its terms are kept."""
    decision = choose(auto(SMALL, LARGE), verdict=says(score))
    assert (decision.target.name, decision.reason, decision.score, decision.terms) == (name, "score", score, (("proof", 2.4),))


def test_not_knowing_leads_to_the_default_tier():
    """ "Don't know" is not "easy"."""
    decision = choose(auto(SMALL, LARGE), verdict=says(None))
    assert (decision.target, decision.reason, decision.score) == (LARGE, "default", None)
    assert choose(auto(SMALL, LARGE), verdict=says(None), default_tier="small").target is SMALL


def test_a_fixed_classifier_names_the_tier():
    """The fixed classifier's tier answers, and the reason is `default`."""
    fixed = Fixed("small")
    decision = choose(auto(SMALL, LARGE), verdict=lambda: fixed.classify({}, "chat"))
    assert (decision.target, decision.reason) == (SMALL, "default")


def test_a_classifier_may_name_a_tier_with_its_score():
    """A tier that the classifier names wins over the threshold."""
    decision = choose(auto(SMALL, LARGE), verdict=says(0.9, "small"))
    assert (decision.target, decision.reason, decision.score) == (SMALL, "score", 0.9)


def test_a_capability_that_leaves_one_tier_decides():
    """When only one tier can do it, the reason is `capability` and nobody is asked."""
    decision = choose(auto(SMALL, LARGE), needs("vision"))
    assert (decision.target, decision.reason, names(decision)) == (LARGE, "capability", ["l"])


def test_a_capability_that_leaves_several_tiers_does_not_decide():
    """The classifier chooses among the tiers that can do it."""
    decision = choose(auto(SMALL, MEDIUM, LARGE), needs("vision"), says(0.6))
    assert (decision.target, decision.reason) == (MEDIUM, "score")


def test_a_tier_that_the_score_wants_and_a_capability_took_gives_way_upwards():
    """The nearest dearer tier answers, and the reason is what took the wanted one."""
    decision = choose(auto(SMALL, MEDIUM, LARGE), needs("vision"), says(0.1))
    assert (decision.target, decision.reason, decision.score) == (MEDIUM, "capability", 0.1)


def test_unknown_capabilities_are_not_lacking():
    """A model whose capabilities are not configured stays a candidate."""
    assert choose(auto(UNKNOWN, LARGE), needs("vision"), says(0.1)).target is UNKNOWN


def test_when_no_candidate_can_do_it_the_step_is_passed_over():
    """A need that nobody fills removes nobody: the backend may say it."""
    decision = choose(auto(SMALL, MEDIUM), needs("audio"), says(0.1))
    assert (decision.target, decision.reason) == (SMALL, "score")


def test_a_prompt_that_fits_only_one_tier_decides():
    """A model that cannot hold the prompt is not chosen while another can: `context`."""
    decision = choose(auto(SMALL, LARGE), needs(prompt=20_000))
    assert (decision.target, decision.reason, names(decision)) == (LARGE, "context", ["l"])


def test_the_output_that_was_asked_for_must_fit_too():
    """Backends refuse a prompt and its `max_tokens` that together exceed the context."""
    assert choose(auto(SMALL, LARGE), needs(prompt=1_000, max_tokens=8_000)).reason == "context"
    assert choose(auto(SMALL, LARGE), needs(prompt=1_000, max_tokens=1_000), says(0.1)).reason == "score"


def test_the_margin_of_the_estimate_moves_a_tight_prompt_up():
    """A prompt that fits only by its estimate goes where it surely fits."""
    assert choose(auto(SMALL, LARGE), needs(prompt=8_000)).target is LARGE
    assert room(needs(prompt=8_000, max_tokens=0)) == 8_000 + 1_000 + 32


def test_a_longer_model_of_the_same_tier_is_enough():
    """Context chooses within the tier that the score wants."""
    decision = choose(auto(SMALL, SMALL_LONG, LARGE), needs(prompt=20_000), says(0.1))
    assert (decision.target, decision.reason) == (SMALL_LONG, "score")


def test_when_nothing_fits_the_largest_context_takes_it():
    """The largest model gets a prompt that no model holds, so that its backend can say so."""
    decision = choose(auto(SMALL, MEDIUM, LARGE), needs(prompt=10_000_000))
    assert (decision.target, decision.reason) == (LARGE, "context")


def test_an_unknown_context_fits():
    """A model whose context is not configured is not ruled out by a long prompt."""
    assert choose(auto(UNKNOWN, LARGE), needs(prompt=1_000_000)).target is UNKNOWN


def test_models_with_the_same_largest_context_stay_when_nothing_fits():
    """Among equals the score still chooses."""
    twin = target("twin", "small", 131_072, ["tools"])
    decision = choose(auto(twin, LARGE), needs(prompt=10_000_000), says(0.1))
    assert (decision.target, decision.reason) == (twin, "score")


def test_an_override_obeys_without_asking():
    """The client's tier is taken as it is."""
    decision = choose(auto(SMALL, MEDIUM, LARGE), override="medium")
    assert (decision.target, decision.reason, decision.score) == (MEDIUM, "override", None)


def test_an_override_to_a_tier_that_cannot_do_it_gives_way():
    """What the request needs wins over the override, and the reason says so."""
    assert choose(auto(SMALL, MEDIUM, LARGE), needs("vision"), override="small").reason == "capability"
    assert choose(auto(SMALL, MEDIUM, LARGE), needs("vision"), override="small").target is MEDIUM
    assert choose(auto(SMALL, MEDIUM, LARGE), needs(prompt=10_000), override="small").reason == "context"
    assert choose(auto(SMALL, MEDIUM, LARGE), needs("vision", prompt=50_000), override="small").target is LARGE


def test_an_override_keeps_to_the_models_of_its_tier_that_can_do_it():
    """Within the tier the first model that satisfies the needs answers."""
    decision = choose(auto(SMALL, SMALL_LONG, LARGE), needs(prompt=20_000), override="small")
    assert (decision.target, decision.reason) == (SMALL_LONG, "override")


@pytest.mark.parametrize("tier", ["huge", "", "SMALL", "medium"])
def test_an_override_must_name_a_tier_of_a_candidate(tier):
    """A tier that no candidate is in is an error that names the known ones."""
    with pytest.raises(UnknownTier) as caught:
        choose(auto(SMALL, LARGE), override=tier)
    assert caught.value.known == ("small", "large")


def test_a_single_tier_needs_no_judgement():
    """With one tier there is nothing to decide: `default`."""
    decision = choose(auto(SMALL, SMALL_LONG))
    assert (names(decision), decision.reason) == (["s", "s-long"], "default")


def test_alternatives_follow_the_tier_then_the_fallback_map_then_the_order():
    """First the tier's other models, then its fallback's, then the rest from cheap to dear."""
    candidates = auto(SMALL, SMALL_LONG, MEDIUM, LARGE)
    assert names(choose(candidates, verdict=says(0.1))) == ["s", "s-long", "l", "m"]
    assert names(choose(candidates, verdict=says(1.0))) == ["l", "s", "s-long", "m"]
    assert names(choose(candidates, verdict=says(0.6), fallback={"medium": "nowhere"})) == ["m", "s", "s-long", "l"]


def test_alternatives_satisfy_the_needs():
    """A model that cannot do it is no alternative."""
    assert names(choose(auto(SMALL, MEDIUM, LARGE), needs("vision"), says(0.9))) == ["l", "m"]


def test_a_default_tier_that_the_key_may_not_call_gives_way_to_the_nearest():
    """A default outside the candidates is replaced by the cheapest dearer tier, else by the dearest cheaper one."""
    assert choose(auto(SMALL, MEDIUM), verdict=says(None), default_tier="large").target is MEDIUM
    assert choose(auto(MEDIUM, LARGE), verdict=says(None), default_tier="small").target is MEDIUM
    assert choose(auto(SMALL, MEDIUM), verdict=says(None), default_tier="nowhere").reason == "default"


@pytest.mark.parametrize(("score", "tier"), [(0.0, "a"), (0.39, "a"), (0.4, "b"), (0.69, "b"), (0.71, "c"), (1.0, "c")])
def test_the_dearer_tiers_share_the_scale_above_the_threshold(score, tier):
    """With three tiers the part above the threshold is halved."""
    assert tier_for(score, 0.4, ("a", "b", "c")) == tier


def test_a_threshold_of_one_or_more_keeps_almost_everything_cheap():
    """The ends of the threshold's range do not break the scale."""
    assert tier_for(1.0, 1.0, ("a", "b", "c")) == "c"
    assert tier_for(0.99, 1.0, ("a", "b")) == "a"
    assert tier_for(0.0, 0.0, ("a", "b")) == "b"


models = st.builds(
    lambda name, tier, context, capabilities: target(f"m{name}", tier, context, capabilities),
    st.integers(0, 10_000),
    st.sampled_from(["small", "medium", "large", "odd"]),
    st.sampled_from([None, 4_096, 32_768, 131_072]),
    st.none() | st.sets(st.sampled_from(["tools", "vision", "audio"])),
)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(models, min_size=1, max_size=6, unique_by=lambda t: t.name),
    st.sets(st.sampled_from(["tools", "vision", "audio"])),
    st.integers(1, 200_000),
    st.none() | st.floats(0, 1),
    st.none() | st.sampled_from(["small", "medium", "large"]),
)
def test_the_decision_and_its_alternatives_hold_together(candidates, capabilities, prompt, score, override):
    """Nobody is chosen who lacks what another candidate has, and each candidate that satisfies the needs is named once."""
    wants = needs(*capabilities, prompt=prompt)
    if override is not None and override not in {t.model.tier for t in candidates}:
        override = None
    decision = choose(auto(*candidates), wants, says(score), override=override)
    ranked = names(decision)
    assert len(set(ranked)) == len(ranked)
    good = [t.name for t in candidates if able(t.model, wants) and fits(t.model, wants)]
    if good:
        assert set(ranked) == set(good)
    if decision.reason == "override":
        assert decision.target.model.tier == override
