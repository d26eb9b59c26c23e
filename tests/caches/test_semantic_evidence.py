"""What verified answers show, and the cut that follows from it."""

from __future__ import annotations

import random
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from caches.semantic.evidence import Evidence, shown
from caches.semantic.wilson import interval

LABELS = st.lists(st.tuples(st.floats(0.5, 1.0), st.booleans(), st.floats(0.1, 100.0)), max_size=60)


def taught(labels: list[tuple[float, bool, float]], scope: str = "t:acme") -> Evidence:
    evidence = Evidence()
    for score, right, weight in labels:
        evidence.learn(scope, score, right=right, weight=weight)
    return evidence


def world(count: int, seed: int = 1) -> list[tuple[float, bool, float]]:
    """Answers above 0.9 are right, below they are wrong half the time."""
    rng = random.Random(seed)
    return [(score := rng.uniform(0.7, 1.0), score > 0.9 or rng.random() < 0.5, 1.0) for _ in range(count)]


@pytest.mark.parametrize(
    ("wrong", "trials", "low", "high"),
    [(0, 10, 0.0, 0.2775), (1, 10, 0.0179, 0.4042), (5, 10, 0.2366, 0.7634), (0, 300, 0.0, 0.0126)],
)
def test_the_interval_is_wilsons(wrong: int, trials: int, low: float, high: float) -> None:
    """Bounds as tables of Wilson's score interval have them."""
    assert interval(wrong / trials, trials) == (pytest.approx(low, abs=1e-4), pytest.approx(high, abs=1e-4))


def test_too_few_labels_leave_the_preset_in_force() -> None:
    """Before there are enough labels no bound is stated, whatever they say."""
    assert taught([(0.96, False, 1.0)] * 299).cut("t:acme", 0.95, 0.02, 0.02) == 0.95


def test_with_enough_labels_the_cut_is_the_lowest_that_keeps_the_bound() -> None:
    """The operator's bound finds its own cut, lower than the preset's where answers are right."""
    cut = taught(world(2000)).cut("t:acme", 0.95, 0.02, 0.03)
    assert 0.85 < cut < 0.93


def test_where_no_cut_keeps_the_bound_nothing_is_served() -> None:
    """The scope is off, and comes back when what is nearly served proves right."""
    evidence = taught([(0.9 + number % 10 / 100, number % 4 > 0, 1.0) for number in range(400)])
    assert evidence.cut("t:acme", 0.95, 0.02, 0.02) == inf
    for number in range(2000):
        evidence.learn("t:acme", 0.9 + number % 10 / 100, right=True)
    assert evidence.cut("t:acme", 0.95, 0.02, 0.02) <= 0.9


def test_without_a_bound_labels_only_tighten() -> None:
    """A preset is never loosened by what was learned; it is tightened when too much of what it serves is wrong."""
    good = taught([(0.8, True, 1.0)] * 500)
    assert good.cut("t:acme", 0.95, 0.02, None) == 0.95
    rng = random.Random(3)
    bad = taught([(score := rng.uniform(0.95, 1.0), score > 0.97, 1.0) for _ in range(1000)])
    assert 0.965 < bad.cut("t:acme", 0.95, 0.02, None) < 0.98


def test_a_scope_without_labels_borrows_everybodys() -> None:
    """What all scopes have shown holds for one that has shown too little."""
    evidence = taught([(0.96, number % 3 > 0, 1.0) for number in range(600)], scope="t:other")
    assert evidence.cut("t:acme", 0.95, 0.02, 0.02) == inf


def test_what_was_learned_is_taken_up_again() -> None:
    """Packed and loaded, evidence gives the same cuts; a damaged record gives none."""
    evidence, again = taught(world(500)), Evidence()
    again.load(evidence.packed())
    assert again.cut("t:acme", 0.95, 0.02, 0.05) == evidence.cut("t:acme", 0.95, 0.02, 0.05)
    assert not again.changed
    nothing = Evidence()
    nothing.load(evidence.packed()[:-5])
    nothing.load(b"\xff")
    assert nothing.scopes() == []


@given(labels=LABELS)
def test_the_estimate_lies_in_its_interval(labels: list[tuple[float, bool, float]]) -> None:
    """However labels are weighted, the share of wrong ones is between its bounds, and these between 0 and 1."""
    seen = shown(labels)
    assert 0.0 <= seen.low <= seen.share + 1e-9
    assert seen.share <= seen.high + 1e-9 <= 1.0 + 1e-8
    assert seen.labels == len(labels)


@given(
    labels=st.lists(st.tuples(st.floats(0.5, 1.0), st.booleans(), st.just(1.0)), min_size=300, max_size=320),
    bound=st.floats(0.01, 0.5),
)
def test_a_cut_keeps_its_bound_on_what_is_known(labels: list[tuple[float, bool, float]], bound: float) -> None:
    """Of the labels above a cut the upper bound of the error is under the operator's."""
    evidence = taught(labels)
    cut = evidence.cut("t:acme", 0.95, 0.02, bound)
    assert cut == inf or evidence.shown(cut, "t:acme").high <= bound
