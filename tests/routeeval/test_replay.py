"""Cascades replayed over answers, and budgets over streams: what must hold for any answers."""

import operator
import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.lab.routing.answers import Question, load_answers, text_of
from gateway.lab.routing.cascade import cascades
from gateway.lab.routing.data import BadData, load
from gateway.lab.routing.replay import Trio, replayed
from gateway.lab.routing.scored import Scored
from gateway.lab.routing.stream import UNRATED, Leg, shifted
from routing.cascade import Switch
from routing.cuts import Begin

PUBLIC = Path(__file__).parents[3] / "shared" / "data" / "routing"
TRIO = Trio("a", "b", "c")
ANSWERS = st.sampled_from(["1", "2", None])


def questions(answers):
    return [
        Question(str(place), "d", "1", dict(zip("abc", it, strict=True)), {"a": 10.0, "b": 20.0, "c": 30.0})
        for place, it in enumerate(answers)
    ]


@settings(max_examples=30)
@given(st.lists(st.tuples(ANSWERS, ANSWERS, ANSWERS), min_size=1, max_size=20))
def test_a_cascade_costs_two_small_calls_and_the_large_one_where_they_differ(answers):
    """Accuracy is the small one's where both agree and the large one's elsewhere; no answer never agrees."""
    found = replayed(questions(answers), TRIO, operator.eq, Switch(), 20, 0)
    escalated = [a is None or a != b for a, b, _ in answers]
    assert found["escalated"] == pytest.approx(np.mean(escalated))
    assert found["accuracy"] == pytest.approx(
        np.mean([(c if up else a) == "1" for (a, _, c), up in zip(answers, escalated, strict=True)])
    )
    assert found["cost_by_call"] == pytest.approx(0.2 + np.mean(escalated))
    assert found["cost_by_character"] == pytest.approx(0.1 + np.mean(escalated))


def test_the_switch_ends_a_cascade_that_does_not_pay():
    """Where the small models never agree it costs hardly more than the large one; where they do it goes on."""
    never = replayed(questions([("1", "2", "1")] * 2000), TRIO, operator.eq, Switch(), 20, 0)
    assert never["cost_by_call"] == pytest.approx(1.2)
    assert never["switched"]["cost_by_call"] < 1.02
    assert never["switched"]["over_large"]["value"] == 0
    always = replayed(questions([("1", "1", "1")] * 2000), TRIO, operator.eq, Switch(), 20, 0)
    assert always["switched"]["tried"] == 1
    assert always["switched"]["cost_by_call"] == pytest.approx(0.2)


@pytest.mark.skipif(not PUBLIC.is_dir(), reason="the public data is not here")
def test_on_public_answers_it_pays_on_word_problems_and_switches_itself_off_elsewhere():
    """GSM8K keeps .935 of accuracy at .45 of the cost; on mathematics of MMLU-Pro the switch is off almost always."""
    known = load_answers(PUBLIC / "cascade_answers.jsonl.gz")
    hard = {row.id for row in load(PUBLIC / "mmlu_pro.jsonl.gz").rows if row.category == "math"}
    wanted = [it for it in known if it.dataset == "gsm" or it.id in hard]
    found = list(cascades(wanted, [], [], draws=20, seed=0))
    grade_school = [it for it in found if it["subset"] == "gsm"]
    assert max(it["switched"]["accuracy"] for it in grade_school if it["switched"]["cost_by_call"] <= 0.45) >= 0.935
    assert all(it["switched"]["tried"] > 0.9 for it in grade_school)
    (hard,) = [it for it in found if it["subset"] == "mmlu_pro"]
    assert hard["cost_by_call"] > 0.85
    assert hard["switched"]["tried_at_the_end"] < 0.06
    assert hard["switched"]["cost_by_call"] <= 1.01
    assert hard["switched"]["accuracy"] >= hard["large_accuracy"] - 0.01


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
    begin = Begin(UNRATED, list(zip(legs[0].said.small[:100], legs[0].said.large[:100], strict=True)))
    found = shifted(legs[0], legs[1], budget, begin, random.Random(seed).randrange(99))
    assert abs(found["worst_window"] - budget) <= 0.03
    assert abs(found["before"] - budget) <= 0.03
