"""Files of outcomes, good and hostile; pairs and scales; folds that keep templates together."""

import gzip
import json
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.lab.routing import data
from gateway.lab.routing.data import BadData, load
from gateway.lab.routing.folds import LETTERS, grouped, keys, others, sample
from gateway.lab.routing.outcomes import outcomes


def row(prompt="why?", category="c", **scores):
    return {"id": "1", "prompt": prompt, "category": category, "scores": scores or {"a": 0, "b": 1}}


def written(path, rows):
    path.write_text("".join(json.dumps(it) + "\n" for it in rows), encoding="utf-8")
    return path


def many(count=30, **scores):
    return [row(f"question {'x' * place}", **scores) for place in range(count)]


def test_gzipped_or_not_with_or_without_the_optional_fields(tmp_path):
    """The content says what a file is, not its name; a mark of byte order and empty lines are no matter."""
    lines = "\ufeff" + json.dumps({"prompt": "p", "scores": {"m": 1, "n": None}}) + "\n\n" + json.dumps(row()) + "\n"
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    (tmp_path / "b.txt").write_text(lines, encoding="utf-8")
    one, other = load(tmp_path / "a.jsonl.gz"), load(tmp_path / "b.txt")
    assert one.name == "a"
    assert one.rows == other.rows
    assert [it.scores for it in one.rows] == [{"m": 1}, {"a": 0, "b": 1}]


def test_contaminated_rows_are_left_out_and_counted(tmp_path):
    """A row that its makers mark as contaminated tells nothing."""
    found = load(written(tmp_path / "x", [{**row(), "contaminated": True}, row()]))
    assert (len(found.rows), found.contaminated) == (1, 1)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"{", "not JSON"),
        (b"[1]", "expected `object`|Expected `object`"),
        (b'{"prompt": 3, "scores": {}}', r"prompt"),
        (b'{"prompt": "p"}', "scores"),
        (b'{"prompt": "p", "scores": {"a": "1"}}', "scores"),
        (b'{"prompt": "p", "scores": {"a": true}}', "scores"),
        (b'{"prompt": "p", "scores": {"a": NaN}}', "not JSON"),
        (b'{"prompt": "p", "scores": {"a": 1e999}}', "out of range"),
        (b'{"prompt": " ", "scores": {"a": 1}}', "empty prompt"),
        (b'{"prompt": "p", "scores": {"": 1}}', "a name of 1 to"),
        (b'{"prompt": "\xff", "scores": {"a": 1}}', "JSON"),
        (b'{"prompt": "p", "scores": ' + b"[" * 100_000, "scores|JSON"),
    ],
)
def test_a_bad_line_is_named_with_its_number(tmp_path, line, says):
    """What cannot be read is an error that says where and what."""
    path = tmp_path / "x.jsonl"
    path.write_bytes(json.dumps(row()).encode() + b"\n" + line + b"\n")
    with pytest.raises(BadData, match=says) as error:
        load(path)
    assert f"{path}:2: " in str(error.value)
    assert len(str(error.value)) < 400


def test_sizes_are_bounded(tmp_path, monkeypatch):
    """A long line, a large file once inflated, too many rows, a broken gzip file, a folder, nothing at all."""
    bomb = tmp_path / "bomb"
    bomb.write_bytes(gzip.compress(b" " * (data.MAX_LINE + 2)))
    with pytest.raises(BadData, match=":1: a line of more than"):
        load(bomb)
    monkeypatch.setattr(data, "MAX_FILE", 10_000)
    bomb.write_bytes(gzip.compress((b" " * 99 + b"\n") * 1000))
    with pytest.raises(BadData, match="MiB"):
        load(bomb)
    monkeypatch.setattr(data, "MAX_ROWS", 3)
    with pytest.raises(BadData, match="more than 3 rows"):
        load(written(tmp_path / "x", many(4)))
    bomb.write_bytes(gzip.compress(b"{}\n" * 999)[:-20])
    with pytest.raises(BadData, match="broken gzip"):
        load(bomb)
    with pytest.raises(BadData):
        load(tmp_path)
    with pytest.raises(BadData, match="no rows"):
        load(written(tmp_path / "none", []))


@pytest.mark.parametrize(("high", "scale"), [(1, 1), (1.5, 10), (10, 10), (70, 100)])
def test_scores_are_divided_by_the_least_scale_that_holds_them(tmp_path, high, scale):
    """0-1, 0-10 and 0-100 are told apart over the whole file, all models together."""
    found = outcomes(load(written(tmp_path / "x", [*many(a=0, b=1), row(a=1, b=high)])))
    assert found.scale == scale
    assert found.strong.max() == pytest.approx(high / scale)


@pytest.mark.parametrize(("low", "high"), [(-1, 1), (0, 101)])
def test_scores_beyond_every_scale_are_refused(tmp_path, low, high):
    """What is below zero or above a hundred has no meaning here."""
    with pytest.raises(BadData, match="0-1, 0-10 or 0-100"):
        outcomes(load(written(tmp_path / "x", many(a=low, b=high))))


def test_the_pair_is_the_asked_the_known_or_the_extremes(tmp_path):
    """The first asked pair that a file has, else a known one, else the worst and the best by mean score."""
    rows = load(
        written(tmp_path / "x", many(**{"a": 0.2, "b": 0.9, "llama-3.1-8b-instruct": 0.3, "llama-3.1-70b-instruct": 0.5}))
    )
    asked = outcomes(rows, [("no", "b"), ("b", "a")])
    assert (asked.pair, asked.chosen) == (("b", "a"), "asked")
    assert outcomes(rows).pair == ("llama-3.1-8b-instruct", "llama-3.1-70b-instruct")
    plain = outcomes(load(written(tmp_path / "y", many(a=0.5, b=0.2, c=0.9))))
    assert (plain.pair, plain.chosen) == (("b", "c"), "extremes")
    with pytest.raises(BadData, match="it has a, b"):
        outcomes(rows, [("a", "nobody")])
    with pytest.raises(BadData, match="two models"):
        outcomes(load(written(tmp_path / "z", many(a=1))))


def test_rows_without_both_scores_are_left_out(tmp_path):
    """And counted; with hardly any left nothing is told."""
    found = outcomes(load(written(tmp_path / "x", [*many(40), row(a=1)])))
    assert (len(found), found.unpaired) == (40, 1)
    with pytest.raises(BadData, match="at least 20"):
        outcomes(load(written(tmp_path / "y", many(19))))


def test_questions_that_begin_alike_share_a_key():
    """The same first letters are one key, whatever the case, the digits and the signs."""
    long = (
        "How many apples has the farmer who sold three baskets on a fine Sunday morning in the May of this year, and what is left"
    )
    one, same, other = keys([f"1. {long} two?", f"2) {long.upper()} five!", "Something else"])
    assert one == same != other


def test_an_instruction_that_all_share_is_no_key():
    """A set that begins with one instruction everywhere is told apart by what follows it."""
    instruction = (
        "Solve the following problem. Reason step by step, and put the final answer in a box at the very end of it all. " * 2
    )
    prompts = [
        f"{instruction} What does person {'abcdefghij'[place % 10] * 3} in the town of {chr(97 + place) * 5} own?"
        for place in range(26)
    ]
    assert len(set(keys(prompts))) == 26
    assert len(set(keys([f"{place} + {place}" for place in range(10)]))) == 10


@settings(max_examples=40)
@given(st.lists(st.sampled_from(["a", "b", "c", "dd", "e" * 200]), min_size=1, max_size=60), st.integers(1, 6), st.integers(0, 3))
def test_folds_hold_whole_groups_and_every_place_once(groups, folds, seed):
    """No group lies in two folds; nothing is lost or there twice; the same seed gives the same folds."""
    made = grouped(groups, folds, seed)
    assert Counter(place for fold in made for place in fold) == Counter(range(len(groups)))
    homes = {group: {number for number, fold in enumerate(made) for place in fold if groups[place] == group} for group in groups}
    assert all(len(home) == 1 for home in homes.values())
    assert made == grouped(groups, folds, seed)


def test_a_smaller_sample_is_the_beginning_of_a_larger_one():
    """So that more labels are the same ones and others."""
    assert sample(range(100), 50, 1)[:10] == sample(range(100), 10, 1)
    assert others([1, 2], 4) == [0, 3]
    assert LETTERS == 90
