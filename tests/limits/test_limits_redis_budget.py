"""Budgets on a server that several gateways share: exact, whatever is late, lost, or decided alone meanwhile."""

import asyncio
from datetime import UTC, datetime

import pytest
from redis_proxy import proxy
from redis_world import Node, heard, keys, nodes, refused, until

pytest.importorskip("redis", reason="the extra `redis` is not installed")
from test_limits_redis_outage import away, back, impatient  # noqa: F401 - a fixture, and how to wait

from limits.types import LimitsAway, Scope
from limits.vault import Vault

DAY = 86_400
NOON = datetime(2026, 3, 30, 12, tzinfo=UTC).timestamp()
ACME = Scope("tenant:acme", "tenant", name="acme", day=1000, month=5000)
PLAN = Scope("plan:acme/p", "plan", tpm=100_000, day=800)
SLOW = Scope("plan:acme/s", "plan", tpm=60, burst=3600.0, day=800)
"""Refills by one a second."""


class Wall:
    """Of gateways and of the server."""

    def __init__(self):
        self.now = NOON

    def __call__(self):
        return self.now

    def moment(self):
        return int(self.now * 1e6)


@pytest.fixture
def wall():
    return Wall()


async def spend(limiter, scopes, tokens, used=None, **more):
    """What was set aside, or the refusal."""
    async with limiter.admit(scopes) as admission:
        reservation = admission.reserve(tokens, **more)
        error = await refused(reservation)
        if error is not None:
            return error
        reservation.settle(tokens if used is None else used)
        await reservation.__aexit__(None, None, None)
        return reservation.tokens


async def used(limiter, *scopes):
    await heard(limiter)
    return [(one.day_used, one.month_used) for one in await limiter.ask_budgets(scopes or [ACME])]


async def test_gateways_share_a_budget(redis, wall):
    """What one has used the other has not left, whatever their own clocks say; the refusal tells when it ends."""
    async with nodes(redis.url, 2, moment=wall.moment, wall=lambda: 0.0) as (one, two):
        assert await spend(one, [ACME, PLAN], 700, used=600) == 700
        await heard(one)
        error = await spend(two, [ACME, PLAN], 201)
        assert (error.scope, error.resource, error.used, error.requested) == (PLAN, "daily_budget", 600, 201)
        assert error.until == datetime(2026, 3, 31, tzinfo=UTC).timestamp()
        assert await used(two, ACME, PLAN) == [(600, 600), (600, 600)]
        assert await spend(two, [ACME, PLAN], 5000, used=10, clamp=True, least=50) == 200
        wall.now += DAY / 2
        assert await spend(two, [ACME, PLAN], 800) == 800
        assert await used(one, ACME, PLAN) == [(800, 1410), (800, 1410)]


async def test_a_servers_clock_that_goes_back_opens_nothing(redis, wall):
    """A replica that takes over with a clock behind goes on in the period that has begun."""
    async with nodes(redis.url, moment=wall.moment, wall=wall) as (limiter,):
        await spend(limiter, [ACME], 900)
        wall.now -= 40 * DAY
        assert (await spend(limiter, [ACME], 101)).used == 900
        await limiter.set_back_budgets([ACME])
        assert await spend(limiter, [ACME], 1000) == 1000


async def test_what_runs_while_it_is_set_back_takes_nothing_of_others(redis, wall):
    """It stays reserved, whichever node set it back, and counts with what it used when it ends; so does what ended before."""
    async with nodes(redis.url, 2, moment=wall.moment, wall=wall) as (one, two):
        await spend(one, [ACME], 20)
        async with one.admit([ACME]) as admission, admission.reserve(60) as reservation:
            await two.set_back_budgets([ACME])
            assert await used(one) == [(60, 60)]
            await spend(two, [ACME], 30)
            reservation.settle(5)
        await heard(one)
        assert await used(two) == [(35, 35)]
        await one.set_back_budgets([ACME])
        assert await used(two) == [(0, 0)]


async def test_settled_on_the_day_of_its_reservation(redis, wall):
    """After midnight a correction is of the month, and in the next month of nothing."""
    async with nodes(redis.url, moment=wall.moment, wall=wall) as (limiter,):
        for month in (550, 0):
            async with limiter.admit([ACME]) as admission, admission.reserve(500) as reservation:
                wall.now += DAY
                assert await spend(limiter, [ACME], 50) == 50
                reservation.settle(1000 if month else 0)
            assert await used(limiter) == [(50, month + 500 if month else 50)]


@pytest.mark.parametrize("clamp", [True, False])
async def test_who_never_hears_of_its_reservation_gives_all_of_it_back(redis, wall, clamp):
    """Cancelled while the answer was on its way, it gives back what the server took: also where that was cut down."""
    async with (
        proxy(str(redis.socket)) as network,
        nodes(network.url, moment=wall.moment, wall=wall, deadline=5.0) as (limiter,),
    ):
        await spend(limiter, [ACME, PLAN], 700)
        async with limiter.admit([ACME, PLAN]) as admission:
            network.hold = asyncio.Event()
            asking = asyncio.create_task(refused(admission.reserve(1124 if clamp else 90, clamp=clamp)))
            await until(lambda: network.held)
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
            network.hold.set()
        assert await used(limiter, ACME, PLAN) == [(700, 700), (700, 700)]
        async with limiter.admit([PLAN]):
            assert limiter.standing([PLAN]).token_remaining == 100_000 - 700
        await heard(limiter)
        assert keys(redis, b"*:open:*") == []


async def test_a_successor_settles_on_the_day(redis, wall):
    """A dispatcher that is killed leaves a reservation of yesterday, and what it used is of yesterday."""
    buffer = bytearray(Vault.size_for(4))
    first = Node(redis.url, moment=wall.moment, wall=wall, vault=Vault.open(buffer))
    await first.start()
    admission = first.limiter.admit([ACME])
    reservation = admission.reserve(300)
    assert (await refused(admission), await refused(reservation)) == (None, None)
    first.limiter.commit()
    first.die()
    wall.now += DAY
    async with nodes(redis.url, moment=wall.moment, wall=wall, vault=Vault.open(buffer)) as (second,):
        await spend(second, [ACME], 10)
        async with second.adopt([ACME]) as adopted, adopted.adopt_reservation(300, day=reservation.day) as resumed:
            resumed.settle(100)
        assert await used(second) == [(10, 110)]


async def test_alone_it_has_its_part_and_tells_what_it_used(own_redis, wall):
    """Of what was left each of two nodes lets in half, in the whole's figures; afterwards the server knows all."""
    async with nodes(own_redis.url, 2, deadline=0.2, wall=wall, moment=wall.moment) as (one, two):
        assert await spend(one, [ACME], 200) == 200
        await spend(two, [ACME], 0)
        assert await used(two) == [(200, 200)]
        own_redis.stop()
        await asyncio.gather(away(one), away(two))
        running = one.admit([ACME])
        held = running.reserve(150)
        assert (await refused(running), await refused(held)) == (None, None)
        assert await spend(one, [ACME], 250, used=230) == 250
        error = await spend(one, [ACME], 21)
        assert (error.limit, error.used, error.requested, error.never) == (1000, 980, 21, False)
        assert await spend(two, [ACME], 2000, used=100, clamp=True) == 400
        assert (await spend(two, [ACME], 1001)).never
        own_redis.resume()
        await asyncio.gather(back(one), back(two))
        assert await used(one) == [(200 + 150 + 230 + 100, 680)]
        held.settle(50)
        await held.__aexit__(None, None, None)
        await running.__aexit__(None, None, None)
        assert await used(one) == await used(two) == [(580, 580)]


async def test_a_day_that_begins_in_an_outage(own_redis, wall):
    """Each of two nodes has half of it, by its own clock; what was used is told for the days that it was used on."""
    async with nodes(own_redis.url, 2, deadline=0.2, wall=wall, moment=wall.moment) as (one, two):
        await spend(one, [ACME], 900)
        own_redis.stop()
        await asyncio.gather(away(one), away(two))
        assert await spend(one, [ACME], 50) == 50
        assert (await spend(one, [ACME], 1)).resource == "daily_budget"
        wall.now += DAY
        assert await spend(one, [ACME], 500) == 500
        assert (await spend(one, [ACME], 1)).used == 1000
        own_redis.resume()
        await back(one)
        assert await used(one) == [(500, 1450)]


async def test_open_charges_nobody_and_closed_lets_nobody(own_redis, wall):
    """As with every limit; and a budget cannot be set back while the server is away."""
    async with nodes(own_redis.url, deadline=0.2, on_outage="open", wall=wall, moment=wall.moment) as (limiter,):
        own_redis.stop()
        await away(limiter)
        assert await spend(limiter, [ACME], 5000) == 5000
        with pytest.raises(LimitsAway):
            await limiter.set_back_budgets([ACME])
        own_redis.resume()
        await back(limiter)
        assert await used(limiter) == [(0, 0)]


async def test_what_is_kept_goes_by_itself(redis, wall):
    """A budget has one key, without a name in it, that ends some days after its month."""
    async with nodes(redis.url, moment=wall.moment, wall=wall) as (limiter,):
        await spend(limiter, [ACME], 10)
        await heard(limiter)
        (key,) = keys(redis, b"*:budget")
        assert b"acme" not in key
        assert 31 * DAY < int(redis.command(b"TTL", key)[1:-2]) < 60 * DAY


async def held(limiter, scopes, tokens):
    """A request that has reserved and runs."""
    admission = limiter.admit(scopes)
    await admission.__aenter__()
    reservation = admission.reserve(tokens)
    await reservation.__aenter__()
    return admission, reservation


async def left(admission, reservation):
    await reservation.__aexit__(None, None, None)
    await admission.__aexit__(None, None, None)


async def adopted(limiter, scopes, reservation, *, lost):
    admission = limiter.adopt(scopes)
    await admission.__aenter__()
    again = admission.adopt_reservation(reservation.tokens, day=reservation.day, lost=lost)
    await again.__aenter__()
    return admission, again


@pytest.mark.parametrize("back", [False, True])
async def test_a_worker_that_is_lost(redis, wall, back):
    """Its reservation goes from the budgets and stays in the minute; if it comes back, what it used is charged once."""
    async with nodes(redis.url, moment=wall.moment, wall=wall) as (limiter,):
        request = await held(limiter, [ACME, SLOW], 500)
        request[1].lose()
        await left(*request)
        assert await used(limiter, ACME, SLOW) == [(0, 0), (0, 0)]
        assert limiter.standing([SLOW]).token_remaining < 3600 - 400
        if back:
            again = await adopted(limiter, [ACME, SLOW], request[1], lost=True)
            again[1].settle(30)
            await left(*again)
            assert await used(limiter, ACME, SLOW) == [(30, 30), (30, 30)]
            assert limiter.standing([SLOW]).token_remaining >= 3600 - 30


async def test_a_dispatcher_that_is_replaced(redis, wall):
    """What runs stays set aside on the server, and its successor settles it."""
    vault = bytearray(Vault.size_for(16))
    async with nodes(redis.url, moment=wall.moment, wall=wall, vault=Vault.open(vault)) as (limiter,):
        request = await held(limiter, [ACME], 500)
        request[1].lose(successor=True)
        await heard(limiter)
        limiter.commit()
        async with nodes(redis.url, moment=wall.moment, wall=wall, vault=Vault.open(vault)) as (after,):
            assert await used(after) == [(500, 500)]
            again = await adopted(after, [ACME], request[1], lost=False)
            again[1].settle(30)
            await left(*again)
            assert await used(after) == [(30, 30)]
