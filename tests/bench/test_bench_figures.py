"""The arithmetic of `make bench`, and its decision not to run."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.figures import Spread, Trend, added, percentile, ratios, tail
from bench.machine import Mood, build, objections
from bench.records import Round, Tail
from bench.rounds import fitted, rotated


def request(one: Round) -> float | None:
    return one.request_us


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0.01, 1))
def test_a_percentile_is_a_figure_that_so_large_a_share_does_not_exceed(figures: list[float], share: float) -> None:
    """It is one of the figures; at least that share is at or below it, and less than that share is strictly below."""
    found = percentile(figures, share)
    assert found in figures
    assert sum(one <= found for one in figures) >= share * len(figures) - 1e-9
    assert sum(one < found for one in figures) < share * len(figures) + 1e-9


def test_the_tail_of_a_hundred() -> None:
    """p50 of 1 to 100 is 50, p99 is 99."""
    assert tail([float(one) for one in range(100, 0, -1)]) == Tail(50.0, 99.0)


def test_a_ratio_is_taken_within_each_round() -> None:
    """Two rounds of which one was twice as slow for both give the same ratio twice, not a wide spread."""
    theirs = [Round(request_us=100.0), Round(request_us=200.0)]
    ours = [Round(request_us=50.0), Round(request_us=100.0)]
    assert Spread.of(ratios(theirs, ours, request)) == Spread(2.0, 2.0, 2.0)


def test_a_round_that_one_of_them_missed_is_not_compared() -> None:
    """A missing figure takes its round out, and leaves the other rounds paired as they were."""
    theirs = [Round(), Round(request_us=30.0)]
    ours = [Round(request_us=50.0), Round(request_us=10.0)]
    assert ratios(theirs, ours, request) == [3.0]
    assert added(theirs, ours, request) == [20.0]
    assert Spread.of(ratios([], ours, request)) is None


@pytest.mark.parametrize(
    ("mood", "said"),
    [
        (Mood(2, 3.0, 0.0, 0.4), []),
        (Mood(2, 3.0, 0.0, None), []),
        (Mood(2, 60.0, 0.0, 0.4), ["60.0 % of the CPU is in use"]),
        (Mood(2, 3.0, 7.0, 0.4), ["7.0 % of the CPU goes to other virtual machines"]),
        (Mood(2, 3.0, 0.0, 1.7), ["the load average is 1.7"]),
        (Mood(8, 3.0, 0.0, 1.7), []),
        (Mood(2, 60.0, 7.0, 9.0), ["60.0 %", "7.0 %", "the load average is 9.0"]),
    ],
)
def test_a_busy_machine_is_objected_to(mood: Mood, said: list[str]) -> None:
    """Use of the CPU, steal and load each have a bound, and each that is over it is told."""
    found = objections(mood)
    assert len(found) == len(said)
    assert all(one.startswith(start) for one, start in zip(found, said, strict=True))


def test_how_the_interpreter_was_built_is_told_as_far_as_known() -> None:
    """PGO and LTO by the flags of configure, PGO also by those of the compiler, and no claim where nothing is known."""
    assert build("'--enable-optimizations' '--with-lto'", "") == "built with PGO and LTO"
    assert build("'--enable-shared'", "-O3") == "built without PGO and LTO"
    assert build("", "-fprofile-use -O3") == "built with PGO"
    assert build("'--enable-shared'", "-O3", "/usr") == "built with PGO", "a distribution's"
    assert build(None, None) == "unknown how it was built"


def test_each_begins_in_turn() -> None:
    """The order of a round is the one before it, moved on by one."""
    assert [rotated(["a", "b", "c"], by)[0] for by in range(4)] == ["a", "b", "c", "a"]
    assert rotated([], 3) == []


def test_a_slow_gateway_is_sent_fewer_requests() -> None:
    """As many as it carries in the time of a cell, in whole turns of its connections, at least one turn."""
    assert fitted(rate=1_000.0, seconds=1.5, step=32, most=6_000) == 1_472
    assert fitted(rate=90_000.0, seconds=1.5, step=32, most=6_000) == 5_984
    assert fitted(rate=3.0, seconds=1.5, step=32, most=6_000) == 32


def test_a_trend_is_told_with_its_error() -> None:
    """A line is found without an error, a level has none, and what only wavers is within the error of one."""
    assert Trend.of([(x, 3.0 * x + 7) for x in range(100)]) == Trend(pytest.approx(3.0), pytest.approx(0.0, abs=1e-9))
    rng = random.Random(1)
    wavering = Trend.of([(x, rng.gauss(0, 50)) for x in range(1000)])
    assert abs(wavering.slope) < 3 * wavering.error
    growing = Trend.of([(x, 2.0 * x + rng.gauss(0, 50)) for x in range(1000)])
    assert abs(growing.slope - 2.0) < 3 * growing.error
    with pytest.raises(ValueError, match="three blocks"):
        Trend.of([(1, 1.0), (2, 2.0)])
