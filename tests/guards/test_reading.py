"""What a reading holds: the parts that guards compare."""

from __future__ import annotations

import pytest

from caches.guards import Reading
from caches.guards.chinese import value
from caches.guards.quantities import of_digits, of_words
from caches.guards.spell import mistyped, one_slip
from caches.guards.stem import root, stem


@pytest.mark.parametrize(
    ("text", "amounts"),
    [
        ("1,000 and 1k and one thousand", [("1000", "")] * 3),
        ("200 mg, 0.2 g", [("0.2", "g")] * 2),
        ("2 weeks or 14 days", [("1209600", "s")] * 2),
        ("12 months or a 1-year plan", [("12", "month")] * 2),
        ("£50, $5k, 3 EUR", [("50", "gbp"), ("5000", "usd"), ("3", "eur")]),
        ("15% or fifteen percent", [("15", "pct")] * 2),
        ("the 3rd and the third", [("3", "th")] * 2),
        ("7pm, 7:00 pm, 9:15", [("7", "clock"), ("7", "clock"), ("9:15", "clock")]),
        ("two hundred and five", [("205", "")]),
        ("3.10 and 3.1 and 3.0", [("3.10", ""), ("3.1", ""), ("3", "")]),
        ("v2.10.0", [("2.10.0", "")]),
        ("10GB plan", [("10000000000", "byte")]),
        ("一千二百公里", [("1200000", "m")]),
        ("3万元", [("30000", "cny")]),
        ("第三", [("3", "th")]),
        ("a 2fa code", []),
    ],
)
def test_quantities(text, amounts):
    """Numbers and units come out in one form, however they are written."""
    assert [tuple(amount[:2]) for amount in Reading.of(text).quantities] == amounts


def test_a_number_that_a_float_cannot_hold_stays_as_it_is():
    """Long order numbers are compared digit by digit."""
    assert of_digits("12345678901234567891km").value == "12345678901234567891"
    assert of_digits("12345678901234567k") is not None


@pytest.mark.parametrize(
    ("said", "number"), [("two million three hundred thousand", 2_300_000), ("ninety nine", 99), ("five crore", 50_000_000)]
)
def test_number_words(said, number):
    """A run of number words is one number."""
    words = said.split()
    assert of_words(words, 0) == (number, len(words))


@pytest.mark.parametrize(
    ("said", "number"), [("十", 10), ("二十三", 23), ("三万零五", 30_005), ("一亿", 100_000_000), ("二〇二四", 2024)]
)
def test_chinese_numerals(said, number):
    """Chinese numerals are read by place, or digit by digit."""
    assert value(said) == number


@pytest.mark.parametrize(
    ("text", "frame"),
    [
        ("How do I tie a tie?", "@how"),
        ("What are the steps to tie a tie?", "@how"),
        ("What does a boiler service cost?", "@price"),
        ("What's the price of a boiler service?", "@price"),
        ("What's the check-in time?", "@when"),
        ("Which year did it end?", "@which"),
        ("Is it legal?", "@whether"),
        ("When my card is lost, what do I do?", "@what"),
        ("Define entropy", ""),
        ("花呗怎么开通", "@how"),
        ("他为什么哭", "@why"),
    ],
)
def test_the_kind_of_question(text, frame):
    """Different words for the same kind of question come to one."""
    assert Reading.of(text).frame == frame


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ("Hi! Could you please tell me what the capital of France is? Thanks!", ["capital", "franc"]),
        ("um so how do i like renew my passport", ["renew", "passport"]),
        ("How do you say thank you in Korean?", ["say", "thank", "korean"]),
        ("What does the guarantee cover?", ["warranti", "cover"]),
        ("苹果手机怎么截屏？", list("苹果手机截屏")),
    ],
)
def test_the_matter_of_a_question(text, content):
    """Manners and grammar go; the matter stays in order, as stems; thanks that are asked about stay."""
    assert list(Reading.of(text).content) == content


def test_a_capital_makes_a_name_unless_all_have_one():
    """A capital within a sentence marks a name; in a title, in capitals or at the beginning it marks nothing."""
    assert Reading.of("Where does Mary live?").names == {"mary"}
    assert Reading.of("Where Does Mary Live Now?").names == frozenset()
    assert Reading.of("WHERE DOES MARY LIVE?").names == frozenset()
    assert Reading.of("Gravity bends light").names == frozenset()
    assert Reading.of("where is paris").names == {"paris"}


@pytest.mark.parametrize(
    "forms",
    [
        "cancel cancels cancelled cancelling canceled",
        "charge charges charged charging",
        "apply applies applied applying",
        "make makes making made",
        "install installs installed installing",
        "child children",
        "baby babies",
        "box boxes",
        "country countries",
        "write wrote written writing",
    ],
)
def test_inflections_have_one_stem(forms):
    """A word's inflections come to one stem."""
    assert len({stem(form) for form in forms.split()}) == 1


@pytest.mark.parametrize(
    ("one", "other"), [("employer", "employee"), ("car", "care"), ("country", "county"), ("use", "user"), ("bus", "business")]
)
def test_words_of_other_meaning_keep_other_stems(one, other):
    """Endings that change the meaning stay."""
    assert stem(one) != stem(other)


@pytest.mark.parametrize(
    ("one", "other"), [("deliver", "delivery"), ("renew", "renewal"), ("reserve", "reservation"), ("refund", "refundable")]
)
def test_a_verb_and_its_noun_have_one_root(one, other):
    """Endings that turn a verb into a noun or an adjective go with the root."""
    assert root(stem(one)) == root(stem(other))


@pytest.mark.parametrize(
    ("one", "other", "slip"),
    [("captial", "capital", True), ("diabetis", "diabetes", True), ("chlid", "child", True), ("eror", "error", True),
     ("lock", "look", False), ("iran", "iraq", False), ("xqvzt", "xqvzs", False), ("australia", "austria", False),
     ("hypotension", "hypertension", False)],
)  # fmt: skip
def test_a_slip_of_the_fingers(one, other, slip):
    """One letter off, and just one of the two a known word: a typing error. Two known words are two words."""
    assert mistyped(one, other) == mistyped(other, one) == slip


@pytest.mark.parametrize(
    ("one", "other", "near"),
    [("abc", "abc", True), ("abc", "acb", True), ("abc", "ab", True), ("abc", "bca", False), ("ab", "abcd", False)],
)
def test_one_slip(one, other, near):
    """A letter more, less, other, or two swapped."""
    assert one_slip(one, other) == near
