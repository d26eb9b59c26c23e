import math
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limits.estimate import longest, prompt_tokens, reservation


@pytest.mark.parametrize(("n_bytes", "tokens"), [(0, 1), (1, 1), (3, 1), (4, 2), (7, 2), (8, 3), (3500, 1000), (3501, 1001)])
def test_prompt_is_rounded_up_and_never_nothing(n_bytes, tokens):
    """Bytes over bytes-per-token, rounded up, and at least one token."""
    assert prompt_tokens(n_bytes) == tokens


def test_density_is_the_callers():
    """Another density of bytes per token can be given."""
    assert prompt_tokens(1000, 2.0) == 500


@pytest.mark.parametrize(
    ("n", "max_tokens", "max_completion_tokens", "expected"),
    [
        (1, None, None, 10 + 1024),
        (1, 50, None, 60),
        (1, None, 50, 60),
        (1, 1, 700, 710),
        (1, 700, 1, 710),
        (3, 100, None, 310),
        (3, None, None, 10 + 3 * 1024),
        (1, 0, None, 10),
        (1, 0, 0, 10),
        (0, 100, None, 110),
        (-5, 100, None, 110),
        (1, -100, None, 10),
        (1, -100, 5, 15),
    ],
)
def test_reservation_takes_the_larger_maximum_for_each_answer(n, max_tokens, max_completion_tokens, expected):
    """Prompt plus n times the larger of both maxima; the default only where neither is given; 0 is a value."""
    assert reservation(10, n, longest(n, [max_tokens, max_completion_tokens]), 1024) == expected


@given(
    st.integers(-(10**30), 10**30),
    st.integers(-(10**30), 10**30),
    st.none() | st.integers(-(10**30), 10**30),
    st.none() | st.integers(-(10**30), 10**30),
)
def test_no_number_makes_a_credit(prompt, n, max_tokens, max_completion_tokens):
    """Whatever numbers a request holds, what is set aside is at least each maximum that it asked for, never below 0."""
    tokens = reservation(prompt, n, longest(n, [max_tokens, max_completion_tokens]), 1024)
    assert tokens >= max(0, prompt)
    assert tokens >= max(max_tokens or 0, max_completion_tokens or 0)


@given(st.integers(0, sys.maxsize // 1024))
def test_estimate_is_within_one_token_of_the_ratio(n_bytes):
    """The estimate is the ratio rounded up."""
    assert n_bytes / 3.5 <= max(prompt_tokens(n_bytes), 0) <= math.ceil(n_bytes / 3.5) + 1
