"""Gap recovered, calls needed and calibration, as definitions that must hold for any scores and outcomes."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.lab.routing.metrics import (
    Resamples,
    apgr,
    brier,
    cpt,
    curves,
    drawn,
    ece,
    interval,
    placed,
    quality_at,
)

OUTCOMES = st.sampled_from([0.0, 0.25, 0.5, 1.0])
SCORES = st.sampled_from([-1.5, 0.0, 0.25, 0.5, 0.75, 9.0])
ROWS = st.lists(st.tuples(SCORES, OUTCOMES, OUTCOMES), min_size=2, max_size=12)
GAINING = ROWS.filter(lambda rows: sum(strong - weak for _, weak, strong in rows) > 0)
SHARES = st.floats(0, 1)
FEW = settings(max_examples=30)
PROBABILITIES = st.floats(0, 1)


def columns(rows):
    return [np.array(column, dtype=float) for column in zip(*rows, strict=True)]


@FEW
@given(GAINING, SCORES)
def test_one_score_for_all_recovers_exactly_half(rows, score):
    """A constant scorer has .50, and needs the share of calls that it recovers of the gap."""
    _, weak, strong = columns(rows)
    same = np.full(len(weak), score)
    assert apgr(same, weak, strong) == pytest.approx(0.5)
    assert cpt(same, weak, strong, 0.8) == pytest.approx(0.8)


@FEW
@given(st.lists(st.tuples(st.sampled_from([0.0, 1.0]), OUTCOMES, OUTCOMES), min_size=2, max_size=5), st.integers(0, 5))
def test_ties_are_the_mean_over_all_orders(rows, sent):
    """With k of n sent, the quality is the mean over every order that the scores allow."""
    sent = min(sent, len(rows))
    score, weak, strong = columns(rows)
    allowed = [order for order in permutations(range(len(rows))) if (np.diff(score[list(order)]) <= 0).all()]
    means = [(strong[list(order[:sent])].sum() + weak[list(order[sent:])].sum()) / len(rows) for order in allowed]
    assert quality_at(score, weak, strong, sent / len(rows)) == pytest.approx(np.mean(means))


@FEW
@given(GAINING)
def test_the_other_way_round_recovers_the_rest(rows):
    """An order and its reverse recover 1 between them."""
    score, weak, strong = columns(rows)
    assert apgr(score, weak, strong) + apgr(-score, weak, strong) == pytest.approx(1)


@FEW
@given(GAINING)
def test_only_the_order_of_the_scores_counts(rows):
    """A rising function of the scores changes nothing."""
    score, weak, strong = columns(rows)
    bent = np.exp(score) * 3 - 7
    assert apgr(bent, weak, strong) == pytest.approx(apgr(score, weak, strong))
    assert cpt(bent, weak, strong, 0.5) == pytest.approx(cpt(score, weak, strong, 0.5))


@FEW
@given(GAINING)
def test_no_order_beats_the_order_of_the_gaps(rows):
    """The oracle recovers most, and needs fewest calls."""
    score, weak, strong = columns(rows)
    best = strong - weak
    assert apgr(score, weak, strong) <= apgr(best, weak, strong) + 1e-9
    assert cpt(score, weak, strong, 0.5) >= cpt(best, weak, strong, 0.5) - 1e-9


@FEW
@given(GAINING)
def test_the_calls_needed_do_recover_so_much_and_fewer_do_not(rows):
    """At CPT(x) the quality is x of the gap; more of the gap never needs fewer calls."""
    score, weak, strong = columns(rows)
    gap = (strong - weak).mean()
    half, most = (cpt(score, weak, strong, share) for share in (0.5, 0.8))
    assert 0 <= half <= most <= 1
    assert quality_at(score, weak, strong, most) == pytest.approx(weak.mean() + 0.8 * gap)
    for fewer in np.linspace(0, half, 7)[:-1]:
        assert quality_at(score, weak, strong, fewer) < weak.mean() + 0.5 * gap + 1e-9


@FEW
@given(ROWS, SHARES)
def test_quality_starts_with_the_weak_model_and_ends_with_the_strong_one(rows, share):
    """Nothing sent is the weak model, all sent the strong one; between them no worse than the worse of each row."""
    score, weak, strong = columns(rows)
    assert quality_at(score, weak, strong, 0) == pytest.approx(weak.mean())
    assert quality_at(score, weak, strong, 1) == pytest.approx(strong.mean())
    quality = quality_at(score, weak, strong, share)
    assert np.minimum(weak, strong).mean() - 1e-9 <= quality <= np.maximum(weak, strong).mean() + 1e-9


@FEW
@given(ROWS)
def test_where_the_strong_model_is_no_better_nothing_is_told(rows):
    """Without a gap there is none to recover."""
    score, weak, strong = columns(rows)
    if strong.sum() <= weak.sum():
        assert np.isnan(apgr(score, weak, strong))
        assert np.isnan(cpt(score, weak, strong, 0.5))


@FEW
@given(GAINING, st.data())
def test_a_row_drawn_twice_is_a_row_that_is_there_twice(rows, data):
    """Counts mean what repeating the rows means."""
    score, weak, strong = columns(rows)
    counts = np.array(data.draw(st.lists(st.integers(0, 3), min_size=len(rows), max_size=len(rows))))
    if not counts.sum():
        return
    repeated = [np.repeat(column, counts) for column in (score, weak, strong)]
    by_counts = curves(score, weak, strong, counts[None, :])
    assert by_counts.apgr()[0] == pytest.approx(apgr(*repeated), nan_ok=True)
    assert by_counts.quality(0.3)[0] == pytest.approx(quality_at(*repeated, 0.3))
    assert by_counts.cpt(0.5)[0] == pytest.approx(cpt(*repeated, 0.5), nan_ok=True)


def test_not_knowing_is_a_tie_on_the_default_side():
    """What is not known goes first where the default is large, and last where it is small."""
    scores = [0.9, None, 0.1, None]
    assert placed(scores).tolist() == [0.9, np.inf, 0.1, np.inf]
    assert placed(scores, "small").tolist() == [0.9, -np.inf, 0.1, -np.inf]
    assert apgr(placed([None, None, None]), [0, 0, 1], [1, 0, 1]) == pytest.approx(0.5)


@FEW
@given(st.lists(st.tuples(PROBABILITIES, OUTCOMES), min_size=1, max_size=40))
def test_calibration_error_lies_between_the_whole_and_the_rows(pairs):
    """ECE is at least the distance of the means, at most the mean distance; the Brier score at most that too."""
    told, was = columns(pairs)
    error = ece(told, was)[0]
    assert abs((told - was).mean()) - 1e-9 <= error <= np.abs(told - was).mean() + 1e-9
    assert brier(told, was) <= np.abs(told - was).mean() + 1e-9


def test_calibration_error_of_known_cases():
    """The share that comes true in each bin, against what was told."""
    assert ece([0.75] * 4, [1, 1, 1, 0])[0] == pytest.approx(0)
    assert ece([0.95] * 4 + [0.05] * 4, [1, 1, 1, 0, 0, 0, 0, 0])[0] == pytest.approx((0.2 + 0.05) / 2)
    assert ece([1.0, 0.0], [1, 0])[0] == 0
    with pytest.raises(ValueError, match="from 0 to 1"):
        ece([1.2], [1])


def test_draws_are_the_same_each_time_and_for_every_router():
    """Resamples of the same rows and seed repeat, hold as many rows, and differ by seed."""
    first, second, other = ([np.asarray(it) for it in Resamples(50, 30, seed)] for seed in (1, 1, 2))
    assert all((a == b).all() for a, b in zip(first, second, strict=True))
    assert sum(len(it) for it in first) == 30
    assert all((it.sum(axis=1) == 50).all() for it in first)
    assert not all((a == b).all() for a, b in zip(first, other, strict=True))


def test_the_interval_holds_the_truth_as_often_as_it_says():
    """Of intervals over fresh samples about 95 % hold what a random order truly recovers."""
    random = np.random.default_rng(7)
    held = 0
    for _ in range(60):
        score, weak, strong = random.random(300), random.random(300) < 0.4, random.random(300) < 0.7
        found = interval(drawn(score, weak.astype(float), strong.astype(float), Resamples(300, 200)).apgr)
        held += found.low <= 0.5 <= found.high
    assert 51 <= held <= 60


def test_no_interval_where_the_gap_is_not_sure():
    """Draws in which the strong model is not the better one leave no interval."""
    random = np.random.default_rng(3)
    weak, strong = random.random(40), random.random(40)
    found = drawn(random.random(40), weak, strong, Resamples(40, 100), shares=(0.3, 0.5))
    assert interval(found.apgr) is None
    assert found.qualities.shape == (100, 2)
    assert interval(found.qualities[:, 0]) is not None
