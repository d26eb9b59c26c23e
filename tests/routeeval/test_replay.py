"""Cascades replayed over answers, and budgets over streams: what must hold for any answers."""

import operator
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.lab.routing.answers import Question, load_answers, text_of
from gateway.lab.routing.data import BadData
from gateway.lab.routing.replay import Trio, replayed
from gateway.lab.routing.scored import Scored
from gateway.lab.routing.stream import Leg, shifted

TRIO = Trio("a", "b", "c")
ANSWERS = st.sampled_from(["1", "2", None])


def questions(answers):
    return [
        Question(str(place), "d", "1", dict(zip("abc", it, strict=True)), {"a": 10.0, "b": 20.0, "c": 30.0})
        for place, it in enumerate(answers)
    ]


class Never:
    """A switch that is off."""

    def tries(self):
        return False

    def saw(self, *, escalated):
        raise AssertionError("nothing was tried")


@settings(max_examples=30)
@given(st.lists(st.tuples(ANSWERS, ANSWERS, ANSWERS), min_size=1, max_size=20))
def test_a_cascade_costs_two_small_calls_and_the_large_one_where_they_differ(answers):
    """Accuracy is the small one's where both agree and the large one's elsewhere; no answer never agrees."""
    found = replayed(questions(answers), TRIO, operator.eq, None, 20, 0)
    escalated = [a is None or a != b for a, b, _ in answers]
    assert found["escalated"] == pytest.approx(np.mean(escalated))
    assert found["accuracy"] == pytest.approx(
        np.mean([(c if up else a) == "1" for (a, _, c), up in zip(answers, escalated, strict=True)])
    )
    assert found["cost_by_call"] == pytest.approx(0.2 + np.mean(escalated))
    assert found["cost_by_character"] == pytest.approx(0.1 + np.mean(escalated))


@settings(max_examples=20)
@given(st.lists(st.tuples(ANSWERS, ANSWERS, ANSWERS), min_size=1, max_size=20))
def test_switched_off_a_cascade_is_the_large_model(answers):
    """It costs what the large model costs, and answers what it answers."""
    found = replayed(questions(answers), TRIO, operator.eq, Never(), 20, 0)["switched"]
    assert found["tried"] == 0
    assert found["cost_by_call"] == 1
    assert found["cost_by_character"] == pytest.approx(1)
    assert found["over_large"]["value"] == 0


@pytest.mark.parametrize(
    "line", ["{}", '{"id": 1, "gold": [], "answers": {}}', '{"id": 1, "gold": 1, "answers": {"a": {}}}', "nonsense"]
)
def test_a_bad_line_of_answers_is_named(tmp_path, line):
    """With its number."""
    path = tmp_path / "x"
    path.write_text(f'{{"id": 1, "gold": 18.0, "answers": {{"a": 18}}}}\n{line}\n')
    with pytest.raises(BadData, match=":2: "):
        load_answers(path)


def test_numbers_are_written_as_a_model_would():
    """Eighteen is 18, however it is kept."""
    assert [text_of(it) for it in (18.0, 18, "18 ", 0.5, 70000.0, 1234567.0)] == ["18", "18", "18", "0.5", "70000", "1234567"]


@pytest.mark.parametrize("budget", [0.1, 0.3, 0.5])
@pytest.mark.parametrize("seed", range(3))
def test_a_budget_is_kept_whatever_the_shift(budget, seed):
    """From 500 requests after it, no 500 in a row are farther than three points from the budget."""
    rng = np.random.default_rng(seed)
    legs = []
    for low, high in ((0.2, 0.5), (0.45, 0.95)):
        small = rng.uniform(low, high, 800)
        large = np.clip(small + rng.normal(0.1, 0.1, 800), 0, 1)
        score = np.where(rng.random(800) < 0.1, np.nan, (1 + large - small) / 2)
        legs.append(Leg(Scored("x", score, small, large), small, large))
    prior = np.stack([legs[0].said.small, legs[0].said.large], axis=1)[:100]
    found = shifted(legs[0], legs[1], budget, prior, random.Random(seed).randrange(99))
    assert abs(found["worst_window"] - budget) <= 0.03
    assert abs(found["before"] - budget) <= 0.03
