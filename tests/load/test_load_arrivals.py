"""When requests are due: pure functions of a seed."""

import itertools
import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.lab.load import arrivals
from gateway.lab.load.arrivals import Arrival


def times(stream, count):
    return [arrival.at for arrival in itertools.islice(stream, count)]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_poisson_gaps_are_exponential(seed):
    """Mean 1/rate and a deviation as large as the mean, which no even spacing has."""
    at = times(arrivals.poisson(50.0, random.Random(seed)), 20_000)
    gaps = [after - before for before, after in itertools.pairwise([0.0, *at])]
    assert statistics.mean(gaps) == pytest.approx(0.02, rel=0.03)
    assert statistics.stdev(gaps) == pytest.approx(0.02, rel=0.05)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_poisson_counts_vary_as_much_as_their_mean(seed):
    """The number within a second has the variance of a Poisson process: its mean."""
    counts = [0] * 1000
    for arrival in itertools.takewhile(lambda a: a.at < 1000, arrivals.poisson(30.0, random.Random(seed))):
        counts[int(arrival.at)] += 1
    assert statistics.mean(counts) == pytest.approx(30, rel=0.03)
    assert statistics.variance(counts) == pytest.approx(30, rel=0.2)


@given(rate=st.floats(0.01, 1e5), seed=st.integers())
def test_poisson_is_a_function_of_its_seed(rate, seed):
    """The same seed gives the same times, in order and after the start."""
    first = times(arrivals.poisson(rate, random.Random(seed)), 50)
    assert first == times(arrivals.poisson(rate, random.Random(seed)), 50)
    assert first == sorted(first)
    assert first[0] >= 0


def test_constant_does_not_drift():
    """The millionth request is due exactly a million gaps after the first."""
    at = next(itertools.islice(arrivals.constant(10.0), 1_000_000, None)).at
    assert at == 100_000.0


def test_replay_begins_at_once_and_runs_faster():
    """A trace starts with its first request, whenever that was, and `speed` divides its time."""
    rows = [Arrival(1000.0, 5), Arrival(1003.0, 6)]
    assert list(arrivals.replay(rows, speed=2.0)) == [Arrival(0.0, 5), Arrival(1.5, 6)]


@pytest.mark.parametrize(("seconds", "requests", "measured"), [(2.0, None, 20), (None, 7, 7), (2.0, 7, 7), (2.0, 500, 20)])
def test_the_bounds_count_what_is_measured(seconds, requests, measured):
    """Duration and number are of the time after the warm-up, which is sent in full."""
    found = list(arrivals.bounded(arrivals.constant(10.0), warmup=1.0, seconds=seconds, requests=requests))
    assert sum(arrival.at < 1.0 for arrival in found) == 10
    assert sum(arrival.at >= 1.0 for arrival in found) == measured
