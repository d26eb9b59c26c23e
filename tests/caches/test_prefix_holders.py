"""What many replicas hold of a prompt is told without naming them all, and is the same."""

from collections import Counter
from itertools import islice

from hypothesis import given, settings
from hypothesis import strategies as st

from caches.chain import Chain
from caches.holders import Holders
from caches.prefix import PrefixIndex

PROMPT = Chain(tuple(range(1, 11)), 1000, block=100, asked=99, start=500, stop=700)
NAMES = [f"r{number}" for number in range(40)]


def part(length):
    return Chain(PROMPT.blocks[:length], 100 * length, block=100)


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 10), min_size=40, max_size=40),
    st.dictionaries(st.sampled_from(NAMES), st.integers(1, 400), max_size=5),
    st.sets(st.sampled_from(NAMES), max_size=5),
)
def test_of_many_holders_the_same_is_told_as_of_each_alone(lengths, answered, dropped):
    """Of those that hold a part, have given the answer in it, or were dropped: the tokens of each, the most first."""
    index, alone = PrefixIndex(), {}
    for name, length in zip(NAMES, lengths, strict=True):
        own = alone[name] = PrefixIndex()
        for one in (index, own):
            if length:
                one.add(name, part(length), 100 * length)
            if name in answered and length:
                one.answered(name, Chain((), 0, end=99), answered[name])
            if name in dropped:
                one.drop(name)
    expected = {name: tokens for name, own in alone.items() if (tokens := own.match(PROMPT, 1000).get(name, 0))}
    found = index.match(PROMPT, 1000)
    assert dict(found) == expected
    assert len(found) == len(expected)
    assert all(found.get(name, 0) == expected.get(name, 0) for name in [*NAMES, "stranger"])
    assert isinstance(found, Holders) or len(expected) <= 16 + len(answered)
    if isinstance(found, Holders):
        assert [found[name] for name in found] == sorted(expected.values(), reverse=True)
        assert Counter(dict(found.counts())) == Counter(expected.values())


def test_not_the_same_few_are_named_first():
    """Of 200 that hold the same, the first sixteen of many looks are most of them."""
    index = PrefixIndex()
    for number in range(200):
        index.add(f"r{number}", PROMPT, 1000)
    seen = {name for _ in range(100) for name in islice(index.match(PROMPT, 1000), 16)}
    assert len(seen) > 150
