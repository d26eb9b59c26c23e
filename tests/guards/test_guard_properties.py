"""What holds of the guards whatever the texts are."""

from __future__ import annotations

import math

import pytest
from guard_tables import SAME, TRAPS
from hypothesis import example, given, settings
from hypothesis import strategies as st

from caches.guards import Reading, veto
from caches.guards.question import apart
from caches.guards.reading import MAX_CHARS
from caches.guards.structure import align
from caches.semantic.decision import BALANCED, STRICT, judge

QUESTIONS = sorted({text for pairs in (*TRAPS.values(), SAME) for pair in pairs for text in pair})
ENGLISH = [text for text in QUESTIONS if text.isascii()]
WORDS = st.sampled_from(sorted({word for text in QUESTIONS for word in text.split()}))
SENTENCES = st.lists(WORDS, max_size=12).map(" ".join)
TEXTS = st.one_of(st.sampled_from(QUESTIONS), SENTENCES, st.text(max_size=80))
PRESETS = st.sampled_from([STRICT, BALANCED])


@given(st.text(max_size=300), st.text(max_size=300))
@example("", "")
@example("@what", "_ _() --x .5 v1.0 ¥")
@example("第", "第一第千万")
@example("n't 't t'n", "Thanks. Thanks")
@example("٣ ²½ Ⅷ", "ǅ ß İ")
@settings(max_examples=300)
def test_any_text_is_read_and_compared(a, b):
    """No text of any script makes a guard or the decision fail."""
    one, other = Reading.of(a), Reading.of(b)
    veto(one, other)
    verdict = judge(one, other, 0.9)
    assert 0 <= verdict.score <= 1


@given(TEXTS, TEXTS)
@settings(max_examples=400)
def test_the_order_of_the_two_does_not_matter(a, b):
    """A veto, what is not shared and the kinds of question are the same seen from either side."""
    one, other = Reading.of(a), Reading.of(b)
    assert (veto(one, other) is None) == (veto(other, one) is None)
    assert apart(one, other) == apart(other, one)


@given(TEXTS, PRESETS)
@settings(max_examples=200)
def test_a_question_serves_itself(text, preset):
    """The same text is always served, and its reading is never vetoed against itself."""
    assert judge(Reading.of(text), Reading.of(text), 1.0, preset).serve
    assert veto(Reading.of(text), Reading.of(text)) is None


@given(
    st.sampled_from(ENGLISH),
    st.sampled_from(["please", "hi,", "hello", "um", "so", "hey"]),
    st.sampled_from(["", ". Please", ". Thanks!", "! Thank you very much."]),
)
@settings(max_examples=200)
def test_manners_never_veto(text, opening, closing):
    """A greeting before a question and thanks behind it change nothing."""
    polite = f"{opening} {text}{closing}"
    assert veto(Reading.of(text), Reading.of(polite)) is None
    assert judge(Reading.of(text), Reading.of(polite), 0.97).serve


@given(st.sampled_from(ENGLISH), st.integers(2, 10**18), st.integers(2, 10**18))
@settings(max_examples=200)
def test_another_number_always_vetoes(text, one, other):
    """Two texts that differ in a number alone are told apart, however large it is."""
    if one != other:
        assert veto(Reading.of(f"{text} number {one}"), Reading.of(f"{text} number {other}")) is not None


@given(TEXTS, TEXTS, st.floats(0, 1), st.floats(0, 1), PRESETS)
@settings(max_examples=300)
def test_the_score_rises_with_the_cosine(a, b, low, high, preset):
    """Of the same two questions, the nearer is served wherever the farther is, and never scores less."""
    one, other = Reading.of(a), Reading.of(b)
    low, high = sorted((low, high))
    near, far = judge(one, other, high, preset), judge(one, other, low, preset)
    assert near.score >= far.score
    assert near.serve or not far.serve


@given(TEXTS, TEXTS, st.floats(0.4, 1), st.floats(0, 1), PRESETS)
@settings(max_examples=300)
def test_a_learned_cut_does_not_weigh_against_a_veto(a, b, cosine, cut, preset):
    """What a guard refuses is refused whatever was learned, and an infinite cut serves equal texts alone."""
    one, other = Reading.of(a), Reading.of(b)
    plain, learned = judge(one, other, cosine, preset), judge(one, other, cosine, preset, cut)
    assert plain.reason in ("", "similarity") or not learned.serve
    assert one.text == other.text or not judge(one, other, cosine, preset, math.inf).serve


@pytest.mark.parametrize(
    "text",
    [
        "a" * 100_000,
        "A " * 50_000,
        '"' * 100_000,
        "'x " * 33_000,
        "“「『" * 33_000,
        "1 " * 50_000,
        "1," * 50_000,
        "one " * 25_000,
        "hundred " * 12_000,
        "一" * 100_000,
        "千万亿" * 33_000,
        "不" * 100_000,
        "e\u0301" * 50_000,
        "\u0300" * 100_000,
        "﷽" * 100_000,
        "a." * 50_000,
        "a@" * 50_000,
        "http://" * 15_000,
        "-a" * 50_000,
        "how much does it cost " * 5_000,
        " ".join(f"Name{at}" for at in range(12_000)),
        " ".join(f"w{at}x" for at in range(12_000)),
        " ".join(f"zq{chr(97 + at % 26)}{chr(97 + at // 26 % 26)}{chr(97 + at // 676 % 26)}v" for at in range(12_000)),
    ],
    ids=lambda text: f"{text[:8]!r}",
)
def test_a_hostile_text_is_bounded(text, counted):
    """Reading and comparing a hundred thousand characters takes no more steps than its first few thousand can cause."""
    other = text[: MAX_CHARS - 7] + "b" + text[MAX_CHARS - 6 :]
    with counted(400_000):
        one, changed = Reading.of(text), Reading.of(other)
        veto(one, changed)
        judge(one, changed, 0.99, BALANCED)


def test_what_was_not_read_must_be_equal():
    """Behind the part of a text that is read, one other letter is a veto."""
    text = "word " * 2_000
    assert veto(Reading.of(text), Reading.of(text + "x")) == "length"
    assert judge(Reading.of(text), Reading.of(text), 1.0).serve


def test_an_alignment_of_nothing_shares_nothing():
    """Two empty texts have nothing in common and nothing apart."""
    laid = align(Reading.of(""), Reading.of("?"))
    assert (laid.shared, laid.left, laid.right, laid.open) == (0, 0, 0, 0)
