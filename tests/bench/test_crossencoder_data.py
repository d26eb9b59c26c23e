"""What the cross-encoder is trained on: parts that never meet, labels without contradictions, rules that do what they say."""

import json
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.crossencoder import data, edits
from bench.crossencoder.data import Part
from bench.crossencoder.slots import SLOTS

ALL = [block for part in Part for block in data.blocks(part)]


def test_every_block_is_in_one_part():
    """Nothing of groups.txt is lost, trained on twice, or told of."""
    written = [line for line in data.GROUPS.read_text().splitlines() if line.strip() and not line.startswith("#")]
    assert sorted(" | ".join(meaning) for block in ALL for meaning in block) == sorted(written)
    assert data.blocks(Part.TELL) == []
    assert len(data.blocks(Part.CHOOSE)) > 5


def test_every_meaning_has_several_wordings_and_every_slot_its_values():
    """No wording means two things, and a slot has enough values for two of its kind and another one."""
    wordings = [wording for block in ALL for meaning in block for wording in meaning]
    assert len(wordings) == len(set(wordings))
    assert min(len(meaning) for block in ALL for meaning in block) >= 3
    assert all(len(set(values)) == len(values) >= 6 for values in SLOTS.values())


def test_labelled_pairs_that_share_a_text_stay_together(tmp_path):
    """No text is in two parts, nothing is lost, and the parts do not depend on the order of the file."""
    rows = [{"a": f"question {n // 3}", "b": f"other {n}", "same_answer": n % 2 == 0} for n in range(300)]
    file, turned = tmp_path / "pairs.jsonl", tmp_path / "turned.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    turned.write_text("".join(json.dumps(row) + "\n" for row in reversed(rows)))
    parts = [data.labelled(file, part) for part in Part]
    texts = [{text for pair in pairs for text in (pair.a, pair.b)} for pairs in parts]
    assert sum(map(len, parts)) == 300
    assert min(map(len, parts)) > 15
    assert sum(map(len, texts)) == len(set.union(*texts))
    assert [set(data.labelled(turned, part)) for part in Part] == [set(pairs) for pairs in parts]


@pytest.mark.parametrize("seed", range(3))
def test_no_pair_is_both_right_and_a_trap(seed):
    """Whatever is drawn, labels do not contradict each other, and both kinds are there in number."""
    drawn = data.drawn(ALL, 8, Random(seed))
    labels = {}
    for pair in drawn:
        labels.setdefault(frozenset((pair.a, pair.b)), set()).add(pair.same)
    contradicted = [pair for pair, said in labels.items() if len(said) == 2]
    assert contradicted == []
    assert 0.4 < sum(pair.same for pair in drawn) / len(drawn) < 0.6
    assert "{" not in "".join(pair.a + pair.b for pair in drawn)


def test_the_same_seed_draws_the_same():
    """Training can be repeated."""
    assert data.drawn(ALL, 4, Random(1)) == data.drawn(ALL, 4, Random(1)) != data.drawn(ALL, 4, Random(2))


@pytest.mark.parametrize(
    ("edit", "text", "made"),
    [
        (edits.opposite, "Turn on the light", "Turn off the light"),
        (edits.other_unit, "How far is that in MB?", None),
        (edits.turned, "Trains from Rome to Milan?", "Trains from Milan to Rome?"),
        (edits.turned, "Is Rust faster than Go?", "Is Go faster than Rust?"),
        (edits.turned, "Turn euros into yen", "Turn yen into euros"),
        (edits.turned, "From here to here", None),
        (edits.other_quantity, "Are all meals included?", "Are some meals included?"),
        (edits.fronted, "How do I travel with a cat?", "With a cat, how do I travel?"),
        (edits.counted, "Give me 5 tips", "Give me five tips"),
        (edits.contracted, "What is that?", "What's that?"),
        (edits.shouted, "What is that?", "WHAT IS THAT?"),
        (edits.spelt, "my favourite colours", None),
        (edits.typo, "Go on", None),
        (edits.other_number, "no digits", None),
        (edits.negated, "Hello there", None),
    ],
)
def test_what_a_rule_makes_of_a_text(edit, text, made):
    """Or None, where it has nothing to work on; another value than None means that any will do."""
    found = {edit(text, Random(seed)) for seed in range(30)}
    if edit in (edits.other_unit, edits.spelt):
        assert None not in found
        assert text not in found
    else:
        assert found == {made}


@settings(max_examples=50)
@given(st.text(max_size=60), st.integers(0, 1000))
def test_no_text_breaks_a_rule(text, seed):
    """A rule gives another text, or None."""
    for edit in (*edits.MANNERS, *edits.MATTERS):
        assert isinstance(edit(text, Random(seed)), str | None)
    for rules in (edits.MANNERS, edits.MATTERS):
        assert edits.any_of(rules, text, Random(seed)) != text
