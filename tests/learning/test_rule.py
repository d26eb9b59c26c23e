"""When a new policy takes over, and what it means to calibrate one anew."""

import random
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.own_traffic import desk
from gateway.lab.calibrate.measure import Draws, Outcomes, Told, measure
from gateway.lab.calibrate.recalibrate import recalibrated
from gateway.lab.calibrate.rule import rule
from gateway.lab.calibrate.samples import Sample
from gateway.lab.routing.metrics import Resamples
from routing.grams import grams_of
from routing.learned.classifier import Learned
from routing.learned.shipped import shipped
from routing.learned.train import Row, train

SAID = Told(np.array([0.1, 0.9]), np.array([0.9, 0.1]), np.ones(2), 0.0)
FIGURES, _ = measure(SAID, Outcomes(np.array([1.0, 0.0]), np.ones(2)), Resamples(2))


def draws(better_order, truer):
    """Of a hundred, in how many the new policy is better."""
    order = np.where(np.arange(100) < better_order, 0.7, 0.5)
    truth = np.where(np.arange(100) < truer, 0.1, 0.3)
    return Draws(order, truth), Draws(np.full(100, 0.6), np.full(100, 0.2))


@pytest.mark.parametrize(
    ("order", "truth", "reorders", "swap"),
    [
        (95, 50, True, True),
        (94, 50, True, False),
        (95, 5, True, False),
        (75, 95, True, True),
        (74, 95, True, False),
        (50, 95, False, True),
        (49, 95, False, False),
        (50, 94, False, False),
    ],
)
def test_the_rule(order, truth, reorders, swap):
    """Surely better in one way and not worse in the other; who changes an order has to show something for it."""
    assert rule(FIGURES, *draws(order, truth), None, reorders=reorders).swap is swap


@given(st.integers(0, 100), st.integers(0, 100), st.booleans(), st.floats(0, 0.59))
def test_what_is_not_believed_never_takes_over(order, truth, reorders, agreeing):
    """However good it looks by them: labels of answers that mostly differ are no reason."""
    assert not rule(FIGURES, *draws(order, truth), agreeing, reorders=reorders).swap


@given(st.lists(st.floats(0, 1), min_size=1, max_size=50), st.booleans())
def test_the_same_never_takes_over(values, reorders):
    """A policy that is as good as the one in force, draw by draw, stays out."""
    same = Draws(np.array(values), np.array(values))
    assert not rule(FIGURES, same, same, None, reorders=reorders).swap


@given(st.integers(0, 99), st.integers(0, 99), st.booleans())
def test_more_evidence_never_keeps_one_out(order, truth, reorders):
    """Whoever takes over would do so with one more draw in its favour, too."""
    if rule(FIGURES, *draws(order, truth), None, reorders=reorders).swap:
        assert rule(FIGURES, *draws(order + 1, truth), None, reorders=reorders).swap
        assert rule(FIGURES, *draws(order, truth + 1), None, reorders=reorders).swap


def test_calibrating_anew_keeps_the_order_and_tells_what_is_true():
    """Its probabilities come near to what was seen, and no two requests change places."""
    base = train([Row(one.text, float(one.small_right), 1.0) for one in desk(300, 3)], base=None, seed=0)
    draw = random.Random(1)
    samples = []
    for number, one in enumerate(desk(300, 4)):  # the small tier is right half as often here
        good = float(one.small_right and draw.random() < 0.5)
        samples.append(Sample(float(number), bytes([number % 256]), grams_of(one.text), one.text, good, 1.0))
    made = recalibrated(base, samples)
    before, after = ([policy.judge_grams(one.grams) for one in samples] for policy in (base, made))
    assert made.version != base.version
    assert abs(np.mean([one.small for one in after]) - np.mean([one.small for one in samples])) < 0.03
    assert abs(np.mean([one.small for one in before]) - np.mean([one.small for one in samples])) > 0.2
    gaps = sorted(zip((one.gap for one in before), (one.gap for one in after), strict=True))
    assert all(one[1] <= other[1] + 1e-9 for one, other in pairwise(gaps))


@pytest.mark.parametrize("good", [1.0, 0.97, 0.9, 0.1, 0.0], ids=str)
def test_scores_keep_the_order_of_the_policy_that_ships_whatever_was_seen(good):
    """Also where both tiers are nearly always good enough, or nearly never, so that probabilities meet their bounds."""
    draw, samples = random.Random(2), []
    for number, one in enumerate(desk(300, 5)):
        small, large = (float(draw.random() < good * part) for part in (0.98, 1.0))
        samples.append(Sample(float(number), bytes([number % 256]), grams_of(one.text), one.text, small, large))
    base, made = shipped(), recalibrated(shipped(), samples)
    before, after = ([policy.judge_grams(one.grams) for one in samples] for policy in (base, made))
    order = sorted(range(len(samples)), key=lambda place: before[place].gap)
    assert len({one.score for one in after}) == len({one.score for one in before})
    assert all(after[one].score <= after[other].score for one, other in pairwise(order))
    for policy, judged in ((base, before), (made, after)):
        classifier = Learned(policy)
        asked = [classifier.classify({"messages": [{"role": "user", "content": one.text}]}, "chat") for one in samples]
        assert [verdict.score for verdict in asked] == [one.score if one.known else None for one in judged]


def test_the_prior_of_a_policy_that_is_calibrated_anew_is_of_its_own_scores():
    """Half of the requests like those that it was made of are above the middle of its prior, and as many as promised above any
    other cut.
    """
    draw, samples = random.Random(3), []
    for number, one in enumerate(desk(600, 6)):
        good = float(one.small_right and draw.random() < 0.4)
        samples.append(Sample(float(number), bytes([number % 256]), grams_of(one.text), one.text, good, 1.0))
    made = recalibrated(shipped(), samples[:300])
    scores = [one.score for one in (made.judge_grams(sample.grams) for sample in samples[300:]) if one.known]
    for share in (0.1, 0.3, 0.5, 0.8):
        cut = np.quantile(made.scores, 1 - share)
        assert np.mean([score > cut for score in scores]) == pytest.approx(share, abs=0.08)


def test_calibrating_on_labels_of_one_kind():
    """Where every label says the same there is nothing to divide by, and nothing breaks."""
    samples = [Sample(float(n), b"", grams_of("x"), "x", 1.0, 1.0) for n in range(30)]
    judged = recalibrated(shipped(), samples).judge("something else")
    assert 0.0 < judged.small < 1.0
