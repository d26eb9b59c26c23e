"""The rate-limit headers, in the forms that OpenAI's clients read."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.quota import rate_lines, wire_duration
from limits.types import Standing

_GO = re.compile(r"(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+)ms)?")


def seconds_of(text):
    """Go's duration, as OpenAI writes and its clients read it."""
    found = _GO.fullmatch(text)
    assert found is not None
    assert text
    hours, minutes, seconds, milliseconds = (float(group or 0) for group in found.groups())
    assert found[3] is None or seconds < 60
    assert found[2] is None or minutes < 60
    assert found[4] is None or milliseconds < 1000
    return hours * 3600 + minutes * 60 + seconds + milliseconds / 1000


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"), (-1, "0s"), (0.0001, "1ms"), (0.02, "20ms"), (0.9991, "1s"), (0.999, "999ms"), (1, "1s"),
        (1.5, "1.5s"), (7.66, "7.66s"),
        (7.661, "7.67s"), (59.99, "59.99s"), (59.991, "1m0s"), (60, "1m0s"), (60.1, "1m1s"), (360, "6m0s"), (3599.5, "1h0m0s"),
        (3603, "1h0m3s"), (86_400, "24h0m0s"),
    ],
)  # fmt: skip
def test_durations_are_written_as_openai_does(seconds, text):
    """Milliseconds below a second, hundredths below a minute, whole seconds above."""
    assert wire_duration(seconds) == text


@given(st.floats(0, 10**6))
def test_a_duration_is_never_too_short(seconds):
    """Whoever waits as long as the header says has waited enough, and not much too long."""
    waits = seconds_of(wire_duration(seconds))
    assert seconds - 1e-6 <= waits <= seconds + (0.0010001 if seconds < 0.999 else 0.0100001 if seconds < 59.99 else 1.0001)


def test_a_standing_becomes_six_headers():
    """Limit, remaining and reset of requests and of tokens; a debt shows as nothing remaining."""
    lines = rate_lines(Standing(60, 59, 1.0, 20_000, -500, 61.5)).splitlines()
    assert lines == [
        "x-ratelimit-limit-requests: 60",
        "x-ratelimit-remaining-requests: 59",
        "x-ratelimit-reset-requests: 1s",
        "x-ratelimit-limit-tokens: 20000",
        "x-ratelimit-remaining-tokens: 0",
        "x-ratelimit-reset-tokens: 1m2s",
    ]


def test_what_is_unlimited_has_no_header():
    """No limit, no line."""
    assert rate_lines(Standing(None, None, None, None, None, None)) == ""
    some = rate_lines(Standing(None, None, None, 5, 5, 0.0)).splitlines()
    assert [line.split(":")[0] for line in some] == [
        "x-ratelimit-limit-tokens",
        "x-ratelimit-remaining-tokens",
        "x-ratelimit-reset-tokens",
    ]
