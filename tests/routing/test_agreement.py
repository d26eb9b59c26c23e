"""Whether two answers say the same, as far as can be told without a model."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.agreement import Answer, agree, answer_of


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("B", "(b)"),
        ("The answer is (B).", "Let me think.\nIt must be so.\n\nAnswer: B"),
        ("**C**", "C. The mitochondria"),
        ("So we choose \\boxed{D}", "The correct option is D"),
        ("答案是 A", "A"),
        ("答案：42", "42"),
        ("18", "$18.00"),
        ("He pays 3 * 6 = 18.\n#### 18", "The final answer is 18 dollars."),
        ("1,234", "1234.0"),
        ("\\boxed{0.75}", "The answer is 3/4."),
        ("１２", "12"),
        ("The answer is 42.", "So we get 42"),
        ("6 * 7 = 42", "Six rows of seven seats make up the hall, so in all, multiplying them, we get **42**."),
        ("The total cost is $1,200.", "1200"),
        ("所以一共是 42 个", "答案是42。"),
        ('{"a": 1, "b": [1, 2.0]}', '```json\n{"b": [1, 2.0], "a": 1}\n```'),
        ("Paris", "  paris. "),
        ("The capital", "capital"),
        ("yes", "Yes!"),
        ("北京", "北京。"),
    ],
)
def test_answers_that_are_the_same(one, other):
    """The same answer in another dress agrees, whichever comes first."""
    assert agree(one, other) is True
    assert agree(other, one) is True


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("B", "C"),
        ("The answer is B", "Answer: C"),
        ("18", "-18"),
        ("#### 18", "#### 19"),
        ("1.5", "15"),
        ("So we get 42", "So we get 41"),
        ("The answer is 42.", "6 * 7 = 43"),
        ('{"a": 1}', '{"a": 2}'),
        ("Paris", "London"),
        ("positive", "negative"),
        ("北京", "上海"),
    ],
)
def test_answers_that_differ(one, other):
    """Two answers of one kind with different values disagree."""
    assert agree(one, other) is False
    assert agree(other, one) is False


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Paris", "It is Paris"),
        ("B", "42"),
        ("Python 3", "3"),
        ("We get 42, or 41 if it rains", "42"),
        ("It gets 3 points, and so does she", "3"),
        ("A long explanation. " * 30, "Another explanation of the same. " * 30),
        ("yes", "That depends on what is meant by it, and on who asks, and when."),
        ("", "B"),
        ('{"a": 1', '{"a": 1}'),
    ],
)
def test_nobody_can_tell(one, other):
    """What cannot be checked is neither agreement nor disagreement."""
    assert agree(one, other) is None


def test_the_last_place_counts():
    """A text that changes its mind answers what it says last."""
    assert answer_of("The answer is A. No, wait. The answer is B.") == Answer("choice", "B")


@given(st.text(max_size=300), st.text(max_size=300))
def test_it_is_symmetric_and_every_text_agrees_with_itself(one, other):
    """Whatever the texts are, nothing raises and the order does not matter."""
    assert agree(one, other) == agree(other, one)
    assert agree(one, one) is True


@given(st.integers(-(10**8), 10**8))
def test_numbers_agree_in_every_form(number):
    """A whole number is the same with separators, decimals, a box or a sentence around it."""
    for form in (f"{number:,}", f"{number}.0", f"\\boxed{{{number}}}", f"The answer is {number}.", f"#### {number}"):
        assert answer_of(form) == answer_of(str(number)), form


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda x: st.lists(x) | st.dictionaries(st.text(max_size=3), x),
        max_leaves=8,
    )
)
def test_json_agrees_whatever_its_layout(value):
    """The order of keys and the white space of a JSON answer say nothing."""
    whole = {"answer": value}
    assert agree(json.dumps(whole, indent=3), json.dumps(whole, sort_keys=True)) is True


@pytest.mark.parametrize(
    "text", ["[" * 50_000, "1" * 100_000, "answer is " * 20_000, "\\boxed{" * 20_000, "\ud800", "1/0", "#### 1e999"]
)
def test_hostile_texts(text):
    """Nothing that a model may write raises."""
    assert agree(text, text) is True
    agree(text, "B")
