"""The decision: what is served at which cosine, what is put to a verifier, and what neither."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from caches.guards import Reading
from caches.semantic.decision import BALANCED, STRICT, judge
from caches.semantic.presets import MEASURED, preset_for


def verdict(a, b, cosine, preset=STRICT, cut=None):
    return judge(Reading.of(a), Reading.of(b), cosine, preset, cut)


def test_the_same_words_are_served_from_afar():
    """Another order or form of the same words is served at a cosine where a changed word is not."""
    assert verdict("How do I report a missed bin collection?", "How can I report missed bin collections?", 0.8).serve
    assert not verdict("How do I report a missed bin collection?", "How can I report a missed parcel collection?", 0.85).serve


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("Is service charge included for delivery orders?", "Is service charge included for walk-in orders?"),
        ("What's covered under the warranty?", "What's covered under the lifetime warranty?"),
        ("How do I reset my password?", "How do I reset my colleague's password?"),
        ("Does the shampoo contain sulphates?", "Does the conditioner contain sulphates?"),
    ],
)
def test_one_word_that_nothing_explains_is_not_served(a, b):
    """A substituted or inserted word of weight needs a cosine that such pairs hardly reach, in either direction."""
    for one, other in ((a, b), (b, a)):
        found = verdict(one, other, 0.87)
        assert not found.serve
        assert found.grey
        assert found.reason in {"similarity", "word"}


def test_one_word_for_another_is_never_served_in_strict():
    """A pair of words that no table knows for the same is not served however near it is; a known one is, and so is a negation."""
    found = verdict("Does the shampoo contain sulphates?", "Does the conditioner contain sulphates?", 0.99)
    assert (found.serve, found.reason, found.grey) == (False, "word", True)
    assert verdict("Does the shampoo contain sulphates?", "Does the conditioner contain sulphates?", 0.99, BALANCED).serve
    assert verdict("Is the pudding delicious?", "Is the pudding tasty?", 0.95).serve
    assert verdict("Which foods are not safe during pregnancy?", "Which foods are unsafe during pregnancy?", 0.96).serve


def test_a_veto_names_itself_and_is_final_on_a_small_edit():
    """A guard's name is the reason, and no verifier is asked about an edit of one number."""
    found = verdict("Can I return it after 14 days?", "Can I return it after 40 days?", 0.99)
    assert (found.serve, found.reason, found.grey) == (False, "numbers", False)


def test_a_veto_on_reworded_texts_may_be_verified():
    """Where nearly all words differ a guard may err: a verifier is asked."""
    a = "How do I stop my annual plan from auto-renewing?"
    b = "My yearly subscription renews automatically, which I never wanted: how can it be switched off for good?"
    found = verdict(a, b, 0.8)
    assert not found.serve
    assert found.grey


def test_a_veto_of_numbers_is_always_final():
    """Different numbers are never put to a verifier, however different the rest is."""
    assert not verdict("Can I rent a flat at 17?", "Would somebody of 19 be let sign a lease on an apartment?", 0.9).grey


def test_what_is_far_is_not_even_grey():
    """Under the grey zone nothing is verified, and the score is nothing."""
    found = verdict("How do I boil an egg?", "How do I boil eggs?", 0.2)
    assert (found.serve, found.reason, found.grey, found.score) == (False, "similarity", False, 0.0)


def test_a_learned_cut_stands_for_the_presets():
    """A learned cut decides in the preset's place, and what guards forbid it does not touch."""
    pair = ("How do I delete a photo?", "How can I remove a picture?")
    score = verdict(*pair, 0.8).score
    assert score > STRICT.serve
    assert verdict(*pair, 0.8, cut=score).serve
    assert not verdict("Is it open on Monday?", "Is it open on Friday?", 0.99, cut=0.0).serve
    assert not verdict(*pair, 0.8, cut=min(1.0, score + 0.01)).serve
    assert not verdict(*pair, 0.8, cut=math.inf).serve


def test_balanced_serves_what_strict_serves():
    """The presets are nested for questions that no guard tells apart."""
    a, b = "How do I cancel my mobile contract?", "How can I cancel my cellphone contract?"
    for cosine in (0.6, 0.7, 0.75, 0.8, 0.9):
        assert verdict(a, b, cosine, BALANCED).serve or not verdict(a, b, cosine).serve


def test_words_in_another_order_are_not_served_in_strict():
    """Who bites whom is not told by a cosine of 0.99."""
    a = "Did Germany invade Poland before Italy attacked Greece?"
    b = "Did Poland invade Germany before Greece attacked Italy?"
    assert not verdict(a, b, 0.99).serve


def test_an_embedder_that_nobody_measured_gets_stricter_cuts():
    """Cuts belong to a fingerprint: an unknown one serves the same words only, and nearer."""
    known, unknown = (preset_for("strict", fingerprint) for fingerprint in (next(iter(MEASURED)), "0"))
    a, b = "How do I delete a photo?", "How can I remove a picture?"
    assert verdict(a, b, 0.85, known).serve
    assert not verdict(a, b, 0.85, unknown).serve
    assert verdict(a, b, 0.97, unknown).serve
    assert not verdict("What is a bond?", "What is a junk bond?", 0.99, unknown).serve
    assert preset_for("balanced", "0").name == "balanced"


@pytest.mark.parametrize("fingerprint", [next(iter(MEASURED)), "0"])
def test_a_cut_of_ones_own_takes_the_place_of_the_presets(fingerprint: str) -> None:
    """It is held against the score of the preset as it was measured, whatever embedder it was calibrated for."""
    for preset in (STRICT, BALANCED):
        assert preset_for(preset.name, fingerprint, 0.9) == replace(preset, serve=0.9)
