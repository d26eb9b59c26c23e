"""Grams: what a text is cut into, in any script and within bounds."""

import itertools
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.grams import AMOUNTS, BEGINNING, DENSE, END, FIRST, LAST, grams_of, hashes, pairs, words_of
from routing.lexicon import TERMS, translated


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Prove the Lemma.", ["prove", "lemma"]),
        ("证明引理", ["prove", "lemma"]),
        ("證明引理", ["prove", "lemma"]),
        ("帮我debug这个deadlock", ["me", "debug", "this", "deadlock"]),
        ("x = 3.14 + 2024", ["x", "=", "#1", "#2", "+", "#4"]),
        ("Überprüfe das", ["überprüfe", "das"]),
        ("鑫垚", ["鑫", "垚"]),
        ("", []),
    ],
)
def test_words_of_any_script(text, words):
    """English, Chinese as English, both mixed without a space, numbers by length, other letters, unknown characters."""
    assert words_of(text) == words


def test_the_longest_term_wins_and_every_term_is_read():
    """Each term of the lexicon, standing alone, becomes the words that it is listed with."""
    for terms in TERMS.values():
        for term, words in terms.items():
            assert tuple(translated(term)) == words, term


def test_hashes_are_the_same_in_every_process():
    """A policy is learned in one process and used in others: no hash may depend on the process."""
    code = "from routing.grams import grams_of; print(sorted(grams_of('证明 the theorem, 12 = x').ids))"
    runs = {subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout for _ in range(2)}
    assert runs == {f"{sorted(grams_of('证明 the theorem, 12 = x').ids)}\n"}


@given(st.text(max_size=3000) | st.text(alphabet="证明 a1\n=。", max_size=3000))
def test_the_work_is_bounded_and_nothing_raises(text):
    """Words, ids and amounts stay within bounds for any text, halves of surrogate pairs included."""
    grams = grams_of(text)
    assert len(hashes(grams.words)) == len(grams.words) <= FIRST + LAST
    assert len(grams.ids) <= len(grams.hashed) <= 2 * (FIRST + LAST)
    assert all(0 <= gram < 2**32 for gram in grams.ids)
    assert len(grams.amounts) == len(AMOUNTS)
    assert all(0 <= amount <= 1 for amount in grams.amounts)


@pytest.mark.parametrize(("unit", "most"), [("prove it ", BEGINNING + END), ("证明它。", DENSE)])
def test_of_a_long_text_its_ends_are_read(unit, most):
    """What stands in the middle of a long text is not read; its first and last words are."""
    words = words_of("") + grams_of("analyse " + unit * 3000 + " banana").words
    assert words[0] == "analyse"
    assert words[-1] == "banana"
    assert len(words) <= most


@given(st.lists(st.integers(0, 2**32 - 1), max_size=40))
def test_pairs_are_what_their_definition_says(hashed):
    """All pairs at once are the same numbers as each by itself."""
    assert pairs(hashed) == [(one * 0x9E3779B1 ^ other) & 0xFFFFFFFF for one, other in itertools.pairwise(hashed)]


@given(st.text(alphabet="aB z-_.,?=^$\\{}<>%+*|`\n\x1c\x7f", max_size=60))
def test_without_digits_the_words_are_the_same(text):
    """The short way, for ASCII without digits, gives the words that the pattern gives of the same text with a digit."""
    assert [*words_of(text), "#1"] == words_of(f"{text} 7")
