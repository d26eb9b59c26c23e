"""How many bytes of a model's prompts make a token: learned from what its backends counted."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limits.density import HIGHEST, LOWEST, Density

KINDS = {"Chinese": (1.7, 0.2), "code": (2.6, 0.5), "English": (4.6, 0.6), "escaped": (6.5, 1.0)}
"""Bytes per token and how much single prompts differ from that."""


def traffic(kind, rng, count):
    """Prompts as (bytes, tokens), with the tokens that a chat template adds to each."""
    mean, spread = KINDS[kind]
    for _ in range(count):
        size = int(rng.lognormvariate(8, 1.2))
        yield size, round(size / max(0.5, rng.gauss(mean, spread))) + 20


@pytest.mark.parametrize("kind", KINDS)
def test_estimates_converge_to_what_is_counted(kind):
    """After some hundred prompts of one kind the estimates of the next ones are right in sum, whatever the kind was before."""
    density, rng = Density(), random.Random(kind)
    for first in (kind, *KINDS, kind):
        for size, tokens in traffic(first, rng, 600):
            density.learn(size, tokens)
    later = list(traffic(kind, rng, 400))
    thought = sum(density.estimate(size) for size, _ in later)
    assert thought == pytest.approx(sum(tokens for _, tokens in later), rel=0.1)


def test_two_models_learn_apart():
    """Each has a ratio of its own, and neither moves the other's."""
    one, other = Density(), Density()
    for size, tokens in traffic("Chinese", random.Random(1), 300):
        one.learn(size, tokens)
    assert one.ratio < 2.2
    assert other.ratio == 3.5


@pytest.mark.parametrize("tokens", [10**6 // 16, 10**6])
def test_one_prompt_proves_little(tokens):
    """The strangest count of the longest prompt moves the ratio by less than a sixth."""
    density = Density()
    density.learn(10**6, tokens)
    assert density.ratio == pytest.approx(3.5, rel=1 / 6)
    assert density.ratio != 3.5


@pytest.mark.parametrize(
    ("size", "tokens"), [(0, 5), (255, 90), (255, 1), (10_000, 0), (10_000, -5), (10_000, 10_001), (10_000, 624), (1 << 40, 1)]
)
def test_what_says_nothing_moves_nothing(size, tokens):
    """Tiny prompts, whose template outweighs them, counts of nothing, and counts that no text of that size has."""
    density = Density()
    assert not density.learn(size, tokens)
    assert density.ratio == 3.5


@given(st.lists(st.tuples(st.integers(0, 1 << 40), st.integers(-(10**12), 10**12)), max_size=60), st.integers(0, 1 << 40))
def test_no_count_moves_an_estimate_beyond_its_bounds(seen, size):
    """Whatever backends counted, a prompt has at most as many tokens as bytes, an eighth of them at least, and one."""
    density = Density()
    for n_bytes, tokens in seen:
        density.learn(n_bytes, tokens)
    assert LOWEST <= density.ratio <= HIGHEST
    assert max(1, size // 8) <= density.estimate(size) <= max(1, size)


@given(st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 1 << 20)), max_size=60))
def test_what_is_believed_stays_within_the_bounds(seen):
    """What each prompt adds to the evidence is between one and eight bytes a token, and of no more than 8 KiB."""
    density = Density()
    for believed in filter(None, (density.learn(*one) for one in seen)):
        assert 256 <= believed[0] <= 8192
        assert LOWEST * (1 - 1e-9) <= believed[0] / believed[1] <= HIGHEST * (1 + 1e-9)


def test_a_flood_of_one_kind_is_forgotten_as_fast_as_any():
    """However much was seen before, the same number of prompts is enough to learn another kind."""
    found = []
    for before in (300, 30_000):
        density, rng = Density(), random.Random(2)
        for size, tokens in traffic("English", rng, before):
            density.learn(size, tokens)
        for size, tokens in traffic("Chinese", rng, 400):
            density.learn(size, tokens)
        found.append(density.ratio)
    assert found[0] == pytest.approx(found[1], rel=0.1)
