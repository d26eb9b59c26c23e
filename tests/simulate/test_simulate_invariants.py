"""The product's scheduler in virtual time: what must hold for any arrivals, any lengths and any order."""

import random
from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.lab.simulate.fleet import Fleet, Speed
from gateway.lab.simulate.measures import quantile
from gateway.lab.simulate.policies import POLICIES, Policy, ours
from gateway.lab.simulate.terms import Tenants, Terms
from gateway.lab.simulate.workload import Job, Length
from limits.waiting import Order, Priority

MANY = settings(max_examples=25, deadline=None)
SPEED = Speed(0.3, 0.02)


@st.composite
def jobs(draw):
    at, made = 0.0, []
    request = st.tuples(st.floats(0, 2), st.sampled_from("abc"), st.integers(1, 2000), st.integers(1, 1500))
    for gap, tenant, prompt, output in draw(st.lists(request, min_size=1, max_size=40)):
        at += gap
        made.append(Job(at, Length(tenant, "chat", prompt, output, None)))
    return made


def served(work, policy, slots):
    fleet = Fleet(work, policy, slots, SPEED)
    fleet.run()
    return fleet


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
@MANY
@given(work=jobs(), slots=st.integers(1, 5))
def test_all_are_served_once_and_no_slot_is_idle_while_somebody_waits(policy, work, slots):
    """Conservation, work conservation, and never more in flight than there are slots."""
    fleet = served(work, policy, slots)
    assert sorted(fleet.begun) == list(range(len(work)))
    begins = fleet.begins
    ends = [begin + SPEED.seconds(job.length.output) for job, begin in zip(work, begins, strict=True)]
    assert all(wait >= 0 for wait in fleet.waits)
    for moment in sorted({*begins, *ends}):
        inflight = sum(begin <= moment < end for begin, end in zip(begins, ends, strict=True))
        assert inflight <= slots
        if any(job.at <= moment < begin for job, begin in zip(work, begins, strict=True)):
            assert inflight == slots
    scheduler = fleet.scheduler
    assert (scheduler.inflight, len(scheduler.queue)) == (0, 0)
    assert all(line.account.running == 0 for line in scheduler.queue._lines)


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
@MANY
@given(work=jobs(), slots=st.integers(1, 5))
def test_the_same_requests_are_served_in_the_same_order(policy, work, slots):
    """Nothing in the order depends on anything but the requests and the times."""
    assert served(work, policy, slots).begun == served(work, policy, slots).begun


@MANY
@given(work=jobs(), slots=st.integers(1, 5))
def test_a_tenant_is_served_first_come_first_served_without_an_offset(work, slots):
    """With `per_token` 0 no request of a tenant overtakes another of it, whatever is predicted."""
    order = defaultdict(list)
    for number in served(work, ours(Order()), slots).begun:
        order[work[number].length.tenant].append(number)
    assert all(numbers == sorted(numbers) for numbers in order.values())


def flood(seed, slots, times):
    """Tenant a at three fifths of its half of the slots, and b with so many times as many requests."""
    rng, made = random.Random(seed), []
    mean = SPEED.seconds(200)
    rate = 0.6 * slots / 2 / mean
    for tenant, pace in (("a", rate), ("b", rate * times)):
        at = 0.0
        while at < 120.0 and (times or tenant == "a"):
            at += rng.expovariate(pace or 1.0)
            made.append(Job(at, Length(tenant, "chat", 100, max(1, round(rng.expovariate(1 / 200))), None)))
    return sorted(made)


@MANY
@given(
    work=jobs(),
    slots=st.integers(2, 6),
    given=st.dictionaries(
        st.sampled_from("ab"), st.builds(Terms, weight=st.integers(1, 3), priority=st.sampled_from(Priority), reserved=st.just(2))
    ),
)
def test_shares_leave_no_slot_idle_and_nobody_behind(work, slots, given):
    """With reserved slots, classes and weights all are served, and no slot is idle while somebody waits."""
    fleet = Fleet(work, ours(Order()), slots, SPEED, Tenants(given))
    fleet.run()
    assert sorted(fleet.begun) == list(range(len(work)))
    for moment in fleet.begins:
        inflight = sum(b <= moment < b + SPEED.seconds(j.length.output) for j, b in zip(work, fleet.begins, strict=True))
        assert inflight <= slots
        if any(job.at <= moment < begin for job, begin in zip(work, fleet.begins, strict=True)):
            assert inflight == slots
    assert all(share.used == 0 for share in fleet.scheduler.reserved())


def p99_of_a(work, fleet):
    return quantile([wait for job, wait in zip(work, fleet.waits, strict=True) if job.length.tenant == "a"], 0.99)


@pytest.mark.parametrize(("seed", "priority"), [(0, Priority.BATCH), (1, Priority.STANDARD), (2, Priority.REALTIME)])
def test_an_owner_waits_as_on_slots_of_its_own(seed, priority):
    """Beside a hundredfold flood of a more urgent and heavier tenant, an owner of half the slots waits as alone on them: its p99
    is at most 1.1 times that, and one service more.
    """
    slots = 8
    beside = flood(seed, slots, 100)
    lone = quantile(served(flood(seed, slots, 0), ours(Order()), slots // 2).waits, 0.99)
    tenants = Tenants({"a": Terms(priority=priority, reserved=slots // 2), "b": Terms(priority=Priority.REALTIME, weight=100)})
    fleet = Fleet(beside, ours(Order()), slots, SPEED, tenants)
    fleet.run()
    longest = max(SPEED.seconds(job.length.output) for job in beside)
    assert p99_of_a(beside, fleet) <= 1.1 * lone + longest
    plain = Fleet(beside, ours(Order()), slots, SPEED, Tenants({**tenants.given, "a": Terms(priority=priority)}))
    plain.run()
    assert p99_of_a(beside, plain) > 2 * p99_of_a(beside, fleet)


@pytest.mark.parametrize("seed", range(3))
def test_a_flood_costs_others_no_more_than_one_residual_service(seed):
    """A's p99 wait beside B's hundredfold flood is at most 1.1 times that of A alone on half the slots, and one service more."""
    slots = 8
    alone = flood(seed, slots, 0)
    beside = flood(seed, slots, 100)
    lone = quantile(served(alone, ours(Order()), slots // 2).waits, 0.99)
    fleet = served(beside, ours(Order()), slots)
    longest = max(SPEED.seconds(job.length.output) for job in beside)
    assert p99_of_a(beside, fleet) <= 1.1 * lone + longest
    first = served(beside, Policy("fcfs", "", Order(), known=False, tenants=False), slots)
    assert p99_of_a(beside, first) > 60
