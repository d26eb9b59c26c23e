"""Which requests may look up, store and share."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from caches.policy import PLAIN, Directives, ExactPolicy, Use, directives, is_deterministic

DETERMINISTIC = ExactPolicy(enabled=True, ttl=60, keep="deterministic", max_entry=1000)
ALL = ExactPolicy(enabled=True, ttl=60, keep="all", max_entry=1000)
OFF = ExactPolicy(enabled=False, ttl=60, keep="all", max_entry=1000)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"temperature": 0}, True),
        ({"temperature": 0.0}, True),
        ({"temperature": -0.0}, True),
        ({"temperature": 0, "n": 4}, True),
        ({"seed": 7}, True),
        ({"seed": 0, "temperature": 1}, True),
        ({}, False),
        ({"temperature": 0.01}, False),
        ({"temperature": False}, False),
        ({"temperature": None}, False),
        ({"temperature": "0"}, False),
        ({"temperature": [0]}, False),
        ({"seed": True}, False),
        ({"seed": None}, False),
        ({"seed": "7"}, False),
        ({"seed": 7.5}, False),
    ],
)
def test_deterministic_means_temperature_zero_or_a_seed(body, expected):
    """Only a temperature of 0 or an integer seed asks for the same answer every time."""
    assert is_deterministic(body, "chat") is expected
    assert DETERMINISTIC.storable(body, "chat") is expected
    assert DETERMINISTIC.storable(body, "completions") is expected
    assert ALL.storable(body, "chat")


def test_embeddings_are_always_deterministic():
    """An embedding has no chance in it."""
    assert DETERMINISTIC.storable({"input": "x"}, "embeddings")


@pytest.mark.parametrize(
    ("policy", "endpoint", "reason"),
    [
        (OFF, "chat", "off"),
        (ALL, "audio", "endpoint not cached"),
        (ALL, "responses", "endpoint not cached"),
        (DETERMINISTIC, "chat", "not deterministic"),
        (ALL, "chat", None),
    ],
)
def test_a_refusal_has_its_reason(policy, endpoint, reason):
    """Why an answer is not kept is said in words that can go into a header."""
    assert policy.refusal({}, endpoint) == reason


def test_chance_neither_looks_up_nor_stores():
    """Under `deterministic` a sampled request goes to the model, whatever is kept."""
    assert DETERMINISTIC.use({"temperature": 1}, "chat", PLAIN) == Use(False, False, False, "not deterministic")


@pytest.mark.parametrize(
    ("said", "use"),
    [
        (PLAIN, Use(True, True, True, None)),
        (Directives(), Use(True, True, True, None)),
        (Directives(no_cache=True), Use(False, True, False, "no-cache")),
        (Directives(no_store=True), Use(True, False, False, "no-store")),
        (Directives(only_if_cached=True), Use(True, False, False, "only-if-cached")),
        (Directives(no_cache=True, no_store=True), Use(False, False, False, "no-cache, no-store")),
        (Directives(no_cache=True, only_if_cached=True), Use(False, False, False, "no-cache, only-if-cached")),
    ],
)
def test_directives_decide_the_use(said, use):
    """Each directive takes away what HTTP says it takes away."""
    assert ALL.use({}, "chat", said) == use


@pytest.mark.parametrize(
    ("ours", "plain", "expected"),
    [
        (None, None, Directives()),
        ("", "", Directives()),
        ("no-cache", None, Directives(no_cache=True)),
        (None, "no-cache", Directives(no_cache=True)),
        ("No-Store", None, Directives(no_store=True)),
        ("only-if-cached", None, Directives(only_if_cached=True)),
        ("no-cache", "no-store", Directives(no_cache=True, no_store=True)),
        (" no-cache ,\tNO-STORE", None, Directives(no_cache=True, no_store=True)),
        (None, "max-age=0", Directives(no_cache=True)),
        (None, 'Max-Age = "00"', Directives(no_cache=True)),
        (None, "max-age=10", Directives()),
        (None, "max-age=", Directives()),
        (None, "max-age=-0", Directives()),
        (None, "max-age=\u0660", Directives()),
        (None, "s-maxage=0, private, no-transform", Directives()),
        ("nocache, no_cache, no-cache-please", None, Directives()),
        (",,;=,", "=,=", Directives()),
    ],
)
def test_directives_are_read_from_both_headers(ours, plain, expected):
    """Comma lists, any case, unknown directives ignored, and an age of 0 means a fresh answer."""
    assert directives(ours, plain) == expected


@given(st.text(max_size=200), st.text(max_size=200))
def test_directives_never_raise(ours, plain):
    """Whatever a client writes into the headers, they are read."""
    assert isinstance(directives(ours, plain), Directives)


def test_directives_are_bounded():
    """A header of a hundred thousand directives is read to its first few only."""
    assert directives("x," * 100_000 + "no-cache", None) == PLAIN
