"""What is refused at once does not time out, and what is told comes true: short runs of `bench.told` in virtual time."""

import pytest

from bench.told import SOURCES, calibrated, part_of, run
from gateway.lab.simulate.policies import CAP, PER_TOKEN
from gateway.lab.simulate.study import Study, jobs_of
from gateway.lab.simulate.workload import Pace
from limits.waiting import Order

OURS = Order(PER_TOKEN, CAP)


def jobs(source, pace, requests=5000):
    return jobs_of(Study(source, (), (pace,), (1,), requests), pace, 1)


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
def test_in_overload_hardly_any_time_out_and_no_work_is_lost(source):
    """At 1.5 times what can be served a tenth of those that would wait in vain do, and the fleet makes as many tokens."""
    given = jobs(source, Pace("1.5", 1.5))
    without, told = (part_of(run(given, OURS, 30.0, refuse_early=early), given) for early in (False, True))
    assert without.late > 0.05
    assert told.late < without.late / 4
    assert told.tokens >= 0.98 * without.tokens
    assert told.requests >= 0.95 * without.requests


def test_first_come_first_served_too():
    """The same where nobody is put back."""
    given = jobs(SOURCES[0], Pace("1.5", 1.5))
    without, told = (part_of(run(given, Order(), 30.0, refuse_early=early), given) for early in (False, True))
    assert told.late < without.late / 4
    assert told.tokens >= 0.98 * without.tokens


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
def test_what_is_expected_is_what_comes(source):
    """Half of those that wait wait between 0.75 and 1.35 times as long as was expected, in the middle."""
    ratios, _ = calibrated(run(jobs(source, Pace("1.2", 1.2), 2500), OURS, 60.0, refuse_early=True))
    assert len(ratios) > 100
    assert 0.75 <= sorted(ratios)[len(ratios) // 2] <= 1.35


def test_nothing_is_refused_where_nothing_would_be_late():
    """At 0.9 of what can be served all are let in, and all are in time."""
    fleet = run(jobs(SOURCES[1], Pace("0.9", 0.9)), OURS, 30.0, refuse_early=True)
    assert (fleet.told.refused, fleet.told.late) == (set(), set())
