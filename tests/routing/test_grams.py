"""Grams: what a text is cut into, in any script and within bounds."""

import itertools
import json
import re
import subprocess
import sys
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.features import read
from routing.grams import AMOUNTS, BEGINNING, DENSE, END, FIRST, LAST, grams_of, pairs, words_of
from routing.learned.shipped import shipped
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
    assert [word.decode() for word in words_of(text.lower())] == words


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
    count = len(grams.words)
    assert count <= FIRST + LAST
    assert grams.hashed[:count] == [crc32(word) for word in grams.words]
    assert len(grams.hashed) == max(0, 2 * count - 1)
    assert set(grams.ids) == set(grams.in_order()) == set(grams.hashed)
    assert all(0 <= gram < 2**32 for gram in grams.ids)
    assert len(grams.amounts) == len(AMOUNTS)
    assert all(0 <= amount <= 1 for amount in grams.amounts)


@pytest.mark.parametrize(("unit", "most"), [("prove it ", BEGINNING + END), ("证明它。", DENSE)])
def test_of_a_long_text_its_ends_are_read(unit, most):
    """What stands in the middle of a long text is not read; its first and last words are."""
    words = grams_of("analyse " + unit * 3000 + " banana").words
    assert words[0] == b"analyse"
    assert words[-1] == b"banana"
    assert len(words) <= most


@given(st.lists(st.integers(0, 2**32 - 1), max_size=40))
def test_pairs_are_what_their_definition_says(hashed):
    """All pairs at once are the same numbers as each by itself."""
    wanted = [(one * 0x9E3779B1 ^ other) & 0xFFFFFFFF for one, other in itertools.pairwise(hashed)]
    assert pairs(packed(hashed)) == packed(wanted)


def packed(numbers):
    return b"".join(number.to_bytes(4, "little") for number in numbers)


@given(st.text(alphabet="aB z-_.,?=^$\\{}<>%+*|`\n\x1c\x7f0127thenT ", max_size=60))
def test_ascii_words_are_what_the_pattern_finds(text):
    """The quick way gives the words that a pattern would: letters in runs, numbers by their length, signs; no article, however
    many stand together.
    """
    lower = text.lower()
    found = re.findall(r"[a-z]+|[0-9]+|[=^$\\{}<>?%+*|`]", lower)
    wanted = [f"#{min(4, len(word))}" if word.isdigit() else word for word in found if word not in ("a", "an", "the")]
    assert [word.decode() for word in words_of(lower)] == wanted


@given(st.text(alphabet="ab c.7", min_size=1, max_size=60) | st.text(alphabet="证明a é 1", min_size=1, max_size=60))
def test_every_gram_is_named_by_what_it_stands_for(text):
    """Of each word the word, and of each pair both its words."""
    grams = grams_of(text)
    names = [*grams.words, *(one + b" " + other for one, other in itertools.pairwise(grams.words))]
    wanted = {}
    for gram, name in zip(grams.hashed, names, strict=True):
        wanted.setdefault(gram, f'"{name.decode()}"')
    assert {gram: grams.name(gram) for gram in grams.ids} == wanted


@given(st.text(alphabet="trade-off the write?é 12", max_size=60) | st.sampled_from(["re-write a poem", "proof 2x"]))
def test_features_are_the_same_of_words_that_were_cut_for_grams(text):
    """What is read of a text beside its grams is what is read of it alone."""
    alone, beside = read(text), grams_of(text).reading
    for name in ("length", "brevity", "digits"):
        alone.values.pop(name, None)
        beside.values.pop(name, None)
    assert beside == alone


GOLDEN = Path(__file__).with_name("judged.json")


def test_a_text_is_judged_as_ever():
    """A few texts of every kind have the grams, features and verdicts of the shipped policy: what is quicker may not be other."""
    told = json.loads(GOLDEN.read_text("utf-8"))
    assert [judged(one["text"]) for one in told] == [{key: one[key] for key in ("grams", "features", "verdict")} for one in told]


def judged(text):
    grams, verdict = grams_of(text), shipped().judge(text)
    return {
        "grams": crc32(packed(sorted(grams.ids))),
        "features": {name: round(value, 12) for name, value in read(text).values.items()},
        "verdict": [
            round(verdict.small, 12),
            round(verdict.large, 12),
            verdict.known,
            [[name, round(part, 12)] for name, part in verdict.terms],
        ],
    }
