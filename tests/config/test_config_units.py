"""Durations and sizes, both ways."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.units import format_duration, format_size, parse_duration, parse_size


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("30s", 30.0),
        ("5m", 300.0),
        ("250ms", 0.25),
        ("1h", 3600.0),
        ("30d", 2592000.0),
        ("1.5s", 1.5),
        ("90", 90.0),
        ("1_000ms", 1.0),
        ("0", 0.0),
        ("2 m", 120.0),
    ],
)
def test_durations_are_read_as_written(text, value):
    """A number with a unit, or plain seconds."""
    assert parse_duration(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2MiB", 2 * 2**20),
        ("16MiB", 16 * 2**20),
        ("1GB", 10**9),
        ("64kib", 65536),
        ("1_024", 1024),
        ("1.5KiB", 1536),
        ("0", 0),
        ("7b", 7),
    ],
)
def test_sizes_are_read_as_written(text, value):
    """Binary and decimal units in any case, or plain bytes."""
    assert parse_size(text) == value


@pytest.mark.parametrize(
    "text", ["", "s", "-1s", "1 fortnight", "1e3", "nan", "inf", "5 M", "1..5s", "٣s", "1s ", "9" * 30, "1h30m", "_1s"]
)
def test_what_is_no_duration_is_refused(text):
    """Signs, exponents, foreign digits, unknown units and endless numbers are errors."""
    with pytest.raises(ValueError):
        parse_duration(text)


@pytest.mark.parametrize("text", ["", "MiB", "-1", "64K", "1.5", "0.3KiB", "1e9", "1 GBps", "²"])
def test_what_is_no_size_is_refused(text):
    """A bare K could be either, and part of a byte is none."""
    with pytest.raises(ValueError):
        parse_size(text)


@given(st.just(0.0) | st.floats(min_value=1e-6, max_value=1e9))
def test_a_formatted_duration_reads_back_exactly(value):
    """Whatever unit is chosen, the number is the same float."""
    assert parse_duration(format_duration(value)) == value


@given(st.integers(min_value=1, max_value=10**9), st.sampled_from(["ms", "s", "m", "h"]))
def test_a_whole_duration_keeps_a_whole_number(count, unit):
    """What was written without a fraction is shown without one."""
    assert "." not in format_duration(parse_duration(f"{count}{unit}"))


@given(st.integers(min_value=0, max_value=2**60))
def test_a_formatted_size_reads_back_exactly(value):
    """Whatever unit is chosen, the bytes are the same."""
    assert parse_size(format_size(value)) == value


@pytest.mark.parametrize(
    ("value", "shown"), [(120.0, "2m"), (290.0, "290s"), (0.25, "250ms"), (86400.0, "24h"), (1.5, "1500ms"), (0.0, "0s")]
)
def test_durations_are_shown_in_the_largest_whole_unit(value, shown):
    """Hours at most."""
    assert format_duration(value) == shown


@pytest.mark.parametrize(("value", "shown"), [(2**24, "16MiB"), (10**9, "1GB"), (1000, "1kB"), (1025, "1025"), (0, "0")])
def test_sizes_are_shown_with_the_smallest_number(value, shown):
    """Binary or decimal, as it was probably written."""
    assert format_size(value) == shown
