"""Policies: what is learned from outcomes, what is not claimed, and files that may be damaged."""

import json
import random
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from routing.grams import grams_of
from routing.learned.file import BadPolicy, read_policy, write_policy
from routing.learned.policy import TERMS, Policy, score_of
from routing.learned.train import LEAST_ROWS, Row, TooFewRows, train

EASY = ["translate", "this", "short", "note", "into", "french", "please"]
HARD = ["prove", "the", "theorem", "about", "prime", "numbers", "with", "induction"]


def rows(count, seed=0, *, base=0.0):
    """Easy asks that both do well, hard ones that only the large one does; words drawn by chance."""
    rng = random.Random(seed)
    made = []
    for place in range(count):
        words, large = (HARD, 0.9) if place % 2 else (EASY, 0.92)
        small = 0.3 if place % 2 else 0.9
        text = " ".join([f"item{place}", *rng.sample(words, 6)])
        made.append(Row(text, base + (rng.random() < small), base + (rng.random() < large)))
    return made


@pytest.fixture(scope="module")
def policy():
    return train(rows(400), base=None, seed=1)


def test_the_gap_is_learned_and_the_heads_are_probabilities(policy):
    """Hard asks are judged to gain more than easy ones, and both heads are near the shares that were seen."""
    easy, hard = policy.judge("please translate this note"), policy.judge("prove this theorem with induction")
    assert easy.known
    assert hard.known
    assert hard.large - hard.small > 0.3 > easy.large - easy.small
    assert abs(easy.small - 0.9) < 0.12
    assert abs(hard.small - 0.3) < 0.15


@given(st.lists(st.floats(-3, 3), min_size=2, max_size=20))
def test_scores_are_from_0_to_1_in_the_order_of_the_gaps(gaps):
    """A larger gap is never a smaller score, and up to the size that two chances may have it is half of it."""
    scores = [score_of(gap) for gap in sorted(gaps)]
    assert scores == sorted(scores)
    assert 0.0 <= scores[0] <= scores[-1] <= 1.0
    assert all(score_of(gap) == (1 + gap) / 2 for gap in gaps if abs(gap) <= 0.9)


def test_larger_gaps_than_chances_have_are_still_told_apart():
    """In steps of a hundredth, to three times the largest."""
    scores = [score_of(place / 100) for place in range(-300, 301)]
    assert all(one < other for one, other in pairwise(scores))
    assert all(one + other == pytest.approx(1.0) for one, other in zip(scores, reversed(scores), strict=True))


@pytest.mark.parametrize("seed", range(4))
def test_a_little_that_was_learned_is_not_lost(seed):
    """Where few labels show little, held-out texts may seem to contradict it: the order stays, however small what it claims."""
    rng = random.Random(seed)
    words = [f"word{chr(97 + place // 26)}{chr(97 + place % 26)}" for place in range(80)]
    made = []
    for _ in range(200):
        said = rng.sample(words, 8)
        gains = 0.45 + 0.1 * (words.index(said[0]) % 2)
        made.append(Row(" ".join(said), float(rng.random() > gains), 1.0))
    told = train(made, base=None, seed=seed)
    assert any(told.gap.weights)
    assert len({told.judge(row.text).gap for row in made}) > 100


def test_the_terms_name_what_spoke(policy):
    """The strongest terms of a hard ask are its own words, in quotation marks, with what they add to the gap."""
    terms = dict(policy.judge("prove this theorem with induction").terms)
    assert any(name.strip('"').split()[0] in HARD and added > 0 for name, added in terms.items())


@given(words=st.lists(st.sampled_from([*HARD, *EASY, "unheard"]), min_size=1, max_size=40))
@settings(max_examples=60, deadline=None)
def test_no_stronger_word_is_left_unnamed(policy, words):
    """Of the words and pairs that training met the strongest are named, however many are alike."""
    text = " ".join(words)
    place_of = {gram: place for place, gram in enumerate(policy.keys)}
    met = [place_of[gram] for gram in grams_of(text).ids if gram in place_of]
    strongest = sorted((abs(policy.gap.weights[place]) for place in met), reverse=True)
    terms = policy.judge(text).terms
    named = [abs(added) for name, added in terms if name.startswith('"')]
    assert len(terms) == TERMS or len(named) == sum(map(bool, strongest[:TERMS]))
    if named:
        assert named == pytest.approx([named[0] * steps / strongest[0] for steps in strongest[: len(named)]])


def test_what_one_text_alone_had_is_never_named():
    """A word of a single training text, such as a password, has no weight and is in no explanation."""
    secret = Row("prove theorem about hunter2secret", 0.0, 1.0)
    learned = train([*rows(100), secret], base=None, seed=1)
    assert not any("hunter2secret" in name for name, _ in learned.judge("prove theorem about hunter2secret").terms)


@pytest.mark.parametrize(
    "text", ["", "   ", "ええと、これをお願いします", "Ψάχνω ένα βιβλίο για το σπίτι", "x" * 6000, "\ud800" * 50]
)
def test_text_of_which_nothing_is_known_is_not_judged(policy, text):
    """No word, another script, or a wall of characters: nothing is claimed."""
    assert not policy.judge(text).known


def test_a_kind_of_text_that_training_never_had_is_not_judged(policy):
    """Known words do not help where the amounts lie far from all that was met: options, in a policy that had none."""
    assert not policy.judge("prove the theorem:\n(A) prime\n(B) numbers\n(C) induction\n(D) none").known


def test_training_is_the_same_for_the_same_rows_and_seed():
    """The same rows make the same bytes."""
    assert write_policy(train(rows(120), base=None, seed=3)) == write_policy(train(rows(120), base=None, seed=3))


def test_too_few_rows_are_refused():
    """Rows with one score do not count as pairs."""
    with pytest.raises(TooFewRows):
        train([replace(row, large=None) for row in rows(LEAST_ROWS * 3)], base=None, seed=0)


def test_a_row_with_one_score_still_says_how_good_that_tier_is():
    """Many asks on which small alone was seen to fail lower what is said of small there."""
    told = [Row(f"note{place} draft a limerick about llamas", 0.0, None) for place in range(200)]
    before, after = train(rows(200), base=None, seed=0), train([*rows(200), *told], base=None, seed=0)
    ask = "draft a limerick about llamas"
    assert after.judge(ask).small < before.judge(ask).small - 0.1


def test_a_base_is_a_prior_that_a_few_labels_do_not_forget(policy):
    """With thirty labels of other words the order of the base holds."""
    other = [Row(f"case{place} weather report", float(place % 3 > 0), 1.0) for place in range(40)]
    own = train(other, base=policy, seed=0)
    easy, hard = own.judge("please translate this note"), own.judge("prove this theorem with induction")
    assert hard.gap > easy.gap


def test_a_policy_comes_back_from_its_file_as_it_was(policy, tmp_path):
    """Saved and loaded, with a base below it, it says the same of every text."""
    own = train(rows(60, seed=5), base=policy, seed=0)
    own.save(tmp_path / "own.policy")
    again = Policy.load(tmp_path / "own.policy")
    assert again.version == own.version
    for text in ("prove theorem", "translate this", "", "证明定理", "unknown words only"):
        assert again.judge(text).terms == own.judge(text).terms
        assert again.judge(text).small == pytest.approx(own.judge(text).small)


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_a_damaged_file_is_refused_and_nothing_else(policy, data):
    """Cut, changed, or made up: BadPolicy, or the very same policy."""
    whole = write_policy(policy)
    place = data.draw(st.integers(0, len(whole) - 1))
    kind = data.draw(st.sampled_from(["cut", "flip", "noise"]))
    flipped = whole[:place] + bytes([whole[place] ^ data.draw(st.integers(1, 255))]) + whole[place + 1 :]
    broken = {"cut": whole[:place], "flip": flipped, "noise": data.draw(st.binary(max_size=200))}[kind]
    try:
        read = read_policy(broken)
    except BadPolicy:
        return
    assert read.judge("prove this theorem").small == policy.judge("prove this theorem").small


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"grams": 10**9}, "grams"),
        ({"grams": -1}, "grams"),
        ({"prior": "many"}, "prior"),
        ({"base": 10**9}, "base"),
        ({"amounts": ["length"]}, "train it anew"),
        ({"format": "other"}, "no policy"),
        ({"grams": 1}, "size"),
    ],
)
def test_a_first_line_that_lies_is_refused(policy, change, says):
    """Sizes are checked against bounds and against what is there."""
    line, _, packed = write_policy(policy).partition(b"\n")
    with pytest.raises(BadPolicy, match=says):
        read_policy(json.dumps(json.loads(line) | change).encode() + b"\n" + packed)


@given(text=st.text(max_size=400) | st.text(alphabet="证明a1 \n(A)=$\\^你好。", max_size=300))
@settings(max_examples=100, deadline=None)
def test_any_text_is_judged_within_bounds(policy, text):
    """Both heads are probabilities for whatever is written."""
    judged = policy.judge(text)
    assert 0 < judged.small < 1
    assert 0 < judged.large < 1
    assert len(judged.terms) <= 6
