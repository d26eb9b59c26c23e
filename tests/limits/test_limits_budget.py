"""Budgets of days and months in one process: what fits, what is charged, when a period ends, and what a clock may not do."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.refusals import refusal
from limits.budget import Used, day_of, ends, month_of
from limits.memory import MemoryLimiter
from limits.types import LimitExceeded, Scope

NOON = datetime(2026, 3, 30, 12, 0, tzinfo=UTC).timestamp()
DAY = 86_400


def tenant(**limits):
    return Scope("tenant:acme", "tenant", name="acme", **limits)


@pytest.fixture
def wall(clock):
    clock.now = NOON
    return clock


@pytest.fixture
def limiter(wall):
    return MemoryLimiter(lambda: 1000.0, wall=wall)


async def spend(limiter, scopes, tokens, used=None, **more):
    """One request; returns what was set aside for it."""
    async with limiter.admit(scopes) as admission, admission.reserve(tokens, **more) as reservation:
        reservation.settle(reservation.tokens if used is None else used)
        return reservation.tokens


async def refused(limiter, scopes, tokens, **more):
    with pytest.raises(LimitExceeded) as found:
        await spend(limiter, scopes, tokens, **more)
    return found.value


def used(limiter, *scopes):
    return [(one.day_used, one.month_used) for one in limiter.budgets(scopes)]


async def test_a_day_ends_at_midnight_utc(limiter, wall):
    """What is used up is refused until 24 o'clock in UTC and not a second longer, and the refusal says so."""
    scope = tenant(day=1000)
    assert await spend(limiter, [scope], 900) == 900
    error = await refused(limiter, [scope], 101)
    assert (error.resource, error.limit, error.used, error.requested) == ("daily_budget", 1000, 900, 101)
    assert error.until == datetime(2026, 3, 31, tzinfo=UTC).timestamp()
    assert error.wait == 12 * 3600
    assert not error.never
    wall.pass_(12 * 3600 - 1)
    await refused(limiter, [scope], 101)
    wall.pass_(1)
    assert await spend(limiter, [scope], 1000) == 1000


async def test_a_month_outlives_its_days(limiter, wall):
    """A new day gives the day's budget anew and not the month's; the first of the next month gives both."""
    scope = tenant(day=1000, month=1500)
    await spend(limiter, [scope], 1000)
    wall.pass_(DAY)
    error = await refused(limiter, [scope], 501)
    assert (error.resource, error.used, error.until) == ("monthly_budget", 1000, datetime(2026, 4, 1, tzinfo=UTC).timestamp())
    assert await spend(limiter, [scope], 500) == 500
    wall.pass_(DAY)
    assert await spend(limiter, [scope], 1000) == 1000
    assert used(limiter, scope) == [(1000, 1000)]


async def test_of_two_that_are_used_up_the_longer_is_told(limiter):
    """Who waits for the day alone would be refused by the month."""
    scope = tenant(day=100, month=100)
    await spend(limiter, [scope], 100)
    assert (await refused(limiter, [scope], 1)).resource == "monthly_budget"


async def test_all_scopes_or_none(limiter):
    """A plan's budget that refuses leaves the tenant's, its tokens and the request as they were; and so the other way round."""
    scope, plan = tenant(rpm=10, tpm=1000, day=1000), Scope("plan:acme/p", "plan", day=50)
    assert (await refused(limiter, [scope, plan], 51)).scope is plan
    assert used(limiter, scope, plan) == [(0, 0), (0, 0)]
    place = limiter.standing([scope])
    assert (place.request_remaining, place.token_remaining) == (10, 1000)
    small = tenant(tpm=20, day=1000)
    error = await refused(limiter, [small, plan], 30)
    assert error.resource == "tokens"
    assert used(limiter, small, plan) == [(0, 0), (0, 0)]


async def test_nothing_is_a_budget(limiter):
    """A budget of 0 lets no token through, and a request of none."""
    scope = tenant(day=0)
    assert (await refused(limiter, [scope], 1)).never
    assert await spend(limiter, [scope], 0) == 0
    await refused(limiter, [scope], 500, clamp=True)


async def test_what_settles_counts(limiter):
    """Less than was reserved is given back, more is carried until the period ends, and leaving unsettled is free."""
    scope = tenant(day=1000)
    await spend(limiter, [scope], 800, used=100)
    assert used(limiter, scope) == [(100, 100)]
    await spend(limiter, [scope], 900, used=1500)
    assert used(limiter, scope) == [(1600, 1600)]
    assert (await refused(limiter, [scope], 1)).used == 1600
    assert await spend(limiter, [scope], 0) == 0
    other = Scope("tenant:other", "tenant", day=10)
    async with limiter.admit([other]) as admission, admission.reserve(10):
        assert used(limiter, other) == [(10, 10)]
    assert used(limiter, other) == [(0, 0)]


async def test_settling_counts_once(limiter):
    """The first settlement is the one that counts."""
    scope = tenant(month=1000)
    async with limiter.admit([scope]) as admission, admission.reserve(100) as reservation:
        reservation.settle(10)
        reservation.settle(500)
    assert used(limiter, scope) == [(10, 10)]


@pytest.mark.parametrize(
    ("left", "least", "expected"), [(400, 100, 400), (100, 100, 100), (99, 100, None), (0, 0, None), (5000, 1, 1124)]
)
async def test_who_named_no_maximum_gets_what_is_left(limiter, left, least, expected):
    """A reservation without a maximum is cut down to what is left, but never below its prompt."""
    scope = tenant(day=10_000)
    await spend(limiter, [scope], 10_000 - left)
    if expected is None:
        error = await refused(limiter, [scope], 1124, clamp=True, least=least)
        assert (error.requested, error.used) == (max(1, least), 10_000 - left)
    else:
        assert await spend(limiter, [scope], 1124, clamp=True, least=least) == expected


async def test_what_was_reserved_before_midnight_is_settled_there(limiter, wall):
    """A reservation that is settled on the next day corrects its month, and not the new day; in the next month, nothing."""
    scope = tenant(day=1000, month=5000)
    async with limiter.admit([scope]) as admission, admission.reserve(400) as reservation:
        wall.pass_(DAY)
        await spend(limiter, [scope], 50)
        reservation.settle(900)
    assert used(limiter, scope) == [(50, 950)]
    async with limiter.admit([scope]) as admission, admission.reserve(400) as reservation:
        wall.pass_(DAY)
        await spend(limiter, [scope], 7)
        reservation.settle(0)
    assert used(limiter, scope) == [(7, 7)]


async def test_a_clock_that_goes_back_opens_nothing(limiter, wall):
    """Back by a day, or a month, what was used is still used, and the period that has begun is the one that ends."""
    scope = tenant(day=100, month=1000)
    await spend(limiter, [scope], 100)
    wall.pass_(DAY)
    await spend(limiter, [scope], 60)
    until = (await refused(limiter, [scope], 41)).until
    for back in (DAY, 40 * DAY):
        wall.pass_(-back)
        error = await refused(limiter, [scope], 41)
        assert (error.used, error.until) == (60, until)
    assert used(limiter, scope) == [(60, 160)]


async def test_scopes_of_one_request_stand_on_one_day(limiter, wall):
    """A scope that is first seen while the clock is behind is on the day of those beside it, and settled there."""
    first, second = tenant(day=100), Scope("plan:acme/p", "plan", day=100)
    await spend(limiter, [first], 10)
    wall.pass_(-3 * DAY)
    await spend(limiter, [first, second], 50, used=20)
    assert used(limiter, first, second) == [(30, 30), (20, 20)]


async def test_set_back(limiter, wall):
    """Nothing is used any more, and after a jump of the clock that was taken back the day is today's."""
    scope = tenant(day=100)
    wall.pass_(3650 * DAY)
    await spend(limiter, [scope], 100)
    wall.pass_(-3650 * DAY)
    async with limiter.admit([scope]) as admission:
        with pytest.raises(LimitExceeded):
            await admission.reserve(1).__aenter__()
    await limiter.set_back_budgets([scope])
    async with limiter.admit([scope]) as admission, admission.reserve(30) as reservation:
        await limiter.set_back_budgets([scope])
        reservation.settle(10)
    assert used(limiter, scope) == [(10, 10)]
    assert limiter.budgets([scope])[0].day_ends == datetime(2026, 3, 31, tzinfo=UTC).timestamp()


async def test_what_runs_while_it_is_set_back_takes_nothing_of_others(limiter, wall):
    """It stays reserved, and counts with what it used when it ends."""
    scope = tenant(day=100)
    await spend(limiter, [scope], 20)
    async with limiter.admit([scope]) as admission, admission.reserve(60) as reservation:
        await limiter.set_back_budgets([scope])
        assert used(limiter, scope) == [(60, 60)]
        await spend(limiter, [scope], 30)
        reservation.settle(5)
    assert used(limiter, scope) == [(35, 35)]


async def test_a_request_that_is_refused_and_moves_on_is_charged_once(limiter):
    """Refused by one model's limit and served by another, a request takes its tokens of the budget once."""
    scope, model = tenant(rpm=10, day=1000), Scope("model:acme/m", "model", tpm=10)
    async with limiter.admit([scope]) as admission:
        with pytest.raises(LimitExceeded):
            await admission.reserve(100, model_scope=model).__aenter__()
        assert used(limiter, scope) == [(0, 0)]
        async with admission.reserve(100) as reservation:
            reservation.settle(100)
    assert used(limiter, scope) == [(100, 100)]


async def test_what_a_hit_costs_is_charged_today(limiter, wall):
    """Where hits cost tokens, those count into the day that it is, also beyond the budget, and none where they cost none."""
    scope = tenant(day=100, month=1000)
    await spend(limiter, [scope], 90)
    wall.pass_(DAY)
    for tokens in (70, 50, 0):
        async with limiter.admit([scope]) as admission:
            admission.conclude(tokens, refund=False)
    assert used(limiter, scope) == [(120, 210)]


async def test_the_example_of_the_documentation(limiter, wall):
    """docs/limits.md, "Budgets": what is served, what is refused and in which words, and what the next day begins with."""
    acme, team = tenant(day=1_000_000), Scope("plan:acme/team", "plan", name="team", month=20_000_000)
    await spend(limiter, [team], 12_400_000 - 999_200)
    await spend(limiter, [acme, team], 999_200)
    assert await spend(limiter, [acme, team], 300 + 400, used=450) == 700
    refused_one = refusal(await refused(limiter, [acme, team], 300 + 4000)).message
    page = (Path(__file__).parents[2] / "docs" / "limits.md").read_text(encoding="utf-8")
    assert f"`{refused_one}`" in page
    assert await spend(limiter, [acme, team], 300 + 1024, used=800, clamp=True, least=300) == 350
    assert (await refused(limiter, [acme, team], 2, clamp=True)).used == 1_000_450
    wall.pass_(DAY / 2)
    assert used(limiter, acme, team) == [(0, 999_200 + 450 + 800), (0, 12_401_250)]


@given(st.integers(0, 2_900_000))
def test_days_and_months_are_those_of_the_calendar(day):
    """The month of a day, its end, and the end of the day, as the standard library has them."""
    moment = datetime.fromtimestamp(day * DAY, UTC)
    assert month_of(day) == moment.year * 12 + moment.month - 1
    assert ends(day, "daily_budget") == (day + 1) * DAY
    end = datetime.fromtimestamp(ends(day, "monthly_budget"), UTC)
    assert (end.day, end.hour, end.year * 12 + end.month - 1) == (1, 0, month_of(day) + 1)


@given(st.floats(-1e18, 1e18, allow_nan=False))
def test_no_clock_is_too_wrong(seconds):
    """A clock before 1970 or after the year 9999 gives a day that can be written as a date."""
    day = day_of(seconds)
    assert ends(day, "monthly_budget") > day * DAY
    datetime.fromtimestamp(ends(day, "monthly_budget"), UTC)


def test_counting_has_an_end():
    """However much is settled, the count stays a number that every store holds."""
    used = Used(20_000)
    for _ in range(5000):
        used.add(1 << 40, 20_000)
    assert used.today == used.month == 1 << 52
