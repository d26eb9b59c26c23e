"""What is learned and what is told are apart, by every protocol."""

import json

import numpy as np
import pytest

from gateway.lab.routing.data import load
from gateway.lab.routing.folds import keys
from gateway.lab.routing.lessons import Lesson, School, Taught, Told, ask_of
from gateway.lab.routing.outcomes import outcomes
from gateway.lab.routing.protocols import REST, cross, own, tasks, together
from gateway.lab.routing.scored import Scored, body_of
from gateway.lab.routing.splits import by_row
from routing.learned.classifier import Learned
from routing.learned.train import Row, train

TEMPLATE = "For which of these two scenarios does the main character, who tells it, do something that is clearly morally wrong?"


@pytest.fixture
def sets(tmp_path):
    def made(name, prompts):
        rows = [
            {"prompt": prompt, "category": f"c{place % 4}", "scores": {"weak": place % 2, "strong": 1}}
            for place, prompt in enumerate(prompts)
        ]
        path = tmp_path / name
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return outcomes(load(path))

    def alone(word, count):
        return [f"{word} {chr(97 + place // 26)}{chr(97 + place % 26)}" for place in range(count)]

    shared = alone("shared", 40)
    templated = [f"{TEMPLATE} {place}" for place in range(30)]
    return [
        made("one", [*alone("one", 150), *shared, *templated]),
        made("two", [*alone("two", 150), *shared]),
        made("three", alone("three", 120)),
    ]


def places(lesson, sets):
    """The keys that a lesson learns and tells."""
    every = keys([prompt for rows in sets for prompt in rows.prompts])
    starts = np.cumsum([0, *(len(rows) for rows in sets)])
    return [
        {every[starts[number] + place] for number, chosen in side for place in chosen} for side in (lesson.learn, lesson.tell)
    ]


def test_labels_of_the_same_set_come_from_other_folds(sets):
    """Each row is told once, by a policy that saw nothing of its template, from as many labels as asked."""
    by_key = keys(sets[0].prompts)
    parts = own(by_key, 0, 100, 0)
    assert sorted(place for _, told in parts for place in told) == list(range(len(sets[0])))
    for lesson, _ in parts:
        learned, told = places(lesson, sets)
        assert not learned & told
        assert len(lesson.learn[0][1]) == 100
    assert all(len(lesson.learn[0][1]) == len(sets[0]) - len(told) for lesson, told in own(by_key, 0, 5000, 0))
    assert own(by_key[:60], 0, 5000, 0) == []


def test_a_task_is_told_by_what_never_saw_it(sets):
    """Neither its rows nor those of other tasks that share a template with it."""
    parts = tasks(keys(sets[0].prompts), sets[0].categories, 0, 0)
    assert len(parts) == 4
    for lesson, told in parts:
        learned, asked = places(lesson, sets)
        assert not learned & asked
        assert len({sets[0].categories[place] for place in told}) == 1
    assert tasks(["a", "b"], ["same", "same"], 0, 0) == []


def test_what_two_files_share_is_not_learned(sets, tmp_path):
    """Trained on one file, or on all others, and told on another: no question is on both sides."""
    found = cross(sets, 0, tmp_path)
    assert [(it.learned_from, it.tells) for it in found] == [
        (REST, (0,)),
        (REST, (1,)),
        (REST, (2,)),
        ("one", (1, 2)),
        ("two", (0, 2)),
        ("three", (0, 1)),
    ]
    for it in found:
        learned, told = places(it.lesson, sets)
        assert learned
        assert not learned & told
    assert cross(sets[:1], 0, tmp_path) == []
    assert [it.learned_from for it in cross(sets[:2], 0, tmp_path)] == ["two", "one"]


def test_rows_by_chance_are_learned_or_told(sets):
    """Every split learns as many as asked and is told all others; no two splits are alike, and templates are on both sides."""
    parts = by_row(len(sets[0]), 0, 120, 0)
    assert len({lesson.learn for lesson, _ in parts}) == len(parts) > 1
    for lesson, told in parts:
        ((_, learned),) = lesson.learn
        assert len(learned) == 120
        assert sorted([*learned, *told]) == list(range(len(sets[0])))
        assert set.intersection(*places(lesson, sets))


@pytest.mark.parametrize(
    "prompt", ["one aa", f"{TEMPLATE} 3", "继续", "x" * 30_000, "<system-reminder>be kind</system-reminder> one ab"]
)
def test_what_is_told_is_what_is_served(sets, prompt):
    """A policy says the same of a prompt that a lesson tells and of a request that has it as its only message."""
    learned = tuple(range(100))
    rows = Taught((*sets[0].prompts[:100], prompt), np.append(sets[0].weak[:100], 0), np.append(sets[0].strong[:100], 1))
    policy = train(
        [Row(ask_of(rows.prompts[place]), rows.weak[place], rows.strong[place]) for place in learned], base=None, seed=3
    )
    said = School([rows]).teach(Lesson("x", ((0, learned),), ((0, (100,)),), 3)).said[0]
    verdict = Learned(policy).classify(body_of(prompt), "chat")
    known = [np.nan if value is None else value for value in (verdict.score, verdict.small, verdict.large)]
    np.testing.assert_array_equal([said.scores[0], said.small[0], said.large[0]], known)


def test_answers_come_together_where_they_belong(sets):
    """Each fold's scores at its own places, as ranks where asked, "don't know" as it is."""
    parts = own(keys(sets[2].prompts), 2, 50, 0)
    told = {}
    for number, (lesson, chosen) in enumerate(parts):
        scores = np.array([float(place) + 1000 * number for place in chosen])
        scores[0] = np.nan
        said = (Scored("x", scores, scores * 0, scores * 0 + 1),)
        told[lesson.name] = Told(said, np.array([[0.0, 1.0]]), np.array([0.5 + 1000 * number]))
    plain = together("x", parts, told, "bare")
    ranks = together("x", parts, told, "ranks")
    levelled = together("x", parts, told, "levelled")
    for number, (_, chosen) in enumerate(parts):
        assert np.isnan(plain.scores[chosen[0]])
        assert np.isnan(ranks.scores[chosen[0]])
        assert plain.scores[chosen[1]] == chosen[1] + 1000 * number
        assert levelled.scores[chosen[1]] == chosen[1]
        assert (np.diff(ranks.scores[chosen[1:]]) > 0).all()
        assert ranks.scores[chosen[1]] == pytest.approx(0.5 / len(chosen))
