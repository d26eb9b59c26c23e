"""Several nodes on one server: what they admit together, what counts once, and whose slots are free when."""

import asyncio
import random

import pytest
from redis_proxy import proxy
from redis_world import KEY, SCOPES, TENANT, Node, heard, keys, leave, nodes, refused, slots, spent, until

from limits.types import LimitExceeded, Scope
from limits.vault import Vault

pytestmark = pytest.mark.usefixtures("redis")
NOW = 1_790_000_000_000_000


async def test_two_nodes_admit_together_what_one_would(redis):
    """Of a hundred requests at once at two nodes as many pass as one node's limits say, and a refusal debits nothing."""
    tenant = Scope("tenant:t", "tenant", rpm=30, tpm=1200, max_parallel=100)
    async with nodes(redis.url, 2, moment=lambda: NOW) as both:
        passed = []

        async def one(number):
            admission = both[number % 2].admit([tenant])
            if await refused(admission) is None:
                reservation = admission.reserve(50)
                passed.append(await refused(reservation) is None)

        await asyncio.gather(*(one(number) for number in range(100)))
        for limiter in both:  # 24 x 50 tokens are the burst, and what a refused reservation gave back admits others later
            await heard(limiter)
        assert sum(passed) == 24
        left = 0
        while await refused(both[0].admit([tenant])) is None:
            left += 1
        assert left == 6


@pytest.mark.parametrize("count", [1, 2])
async def test_five_at_once_on_a_hundred_tokens_a_minute(redis, count):
    """As many pass as the reservations fit, and never one more."""
    key = Scope("key:t/k", "key", tpm=100)
    async with nodes(redis.url, count, moment=lambda: NOW) as many:

        async def one(number):
            async with many[number % count].admit([key]) as admission:
                reservation = admission.reserve(30)
                return await refused(reservation) is None

        assert sorted(await asyncio.gather(*(one(number) for number in range(5)))) == [False, False, True, True, True]


async def test_clocks_of_the_nodes_are_irrelevant(redis):
    """Years apart, forward or back, they decide by the server's time alone."""
    clocks = [lambda: 1e9, lambda: 5.0]
    limiters = [Node(redis.url, clock=clock).limiter for clock in clocks]
    for limiter in limiters:
        await limiter.start()
    scope = Scope("tenant:t", "tenant", rpm=2)
    found = [await refused(limiters[number % 2].admit([scope])) for number in range(4)]
    assert [error is None for error in found] == [True, True, False, False]
    assert all(0 < error.wait <= 30 for error in found[2:])
    for limiter in limiters:
        await limiter.close()


async def test_a_refused_reservation_gives_the_request_back(redis):
    """In the same step; the refusal says what was used, and the request is there again for others."""
    async with nodes(redis.url, 2, moment=lambda: NOW) as (one, two):
        admission = one.admit(SCOPES)
        assert await refused(admission) is None
        error = await refused(admission.reserve(1001))
        assert (error.scope, error.resource, error.never) == (TENANT, "tokens", True)
        await leave(admission)
        await heard(one)
        async with two.admit(SCOPES):
            assert spent(two, TENANT) == (1, 0)


async def test_a_model_that_is_full_debits_nothing(redis):
    """The model's own scope is part of the second step: all or none."""
    model = Scope("model:acme/m", "model", max_parallel=1)
    async with nodes(redis.url, 2, moment=lambda: NOW) as (one, two):
        async with one.admit(SCOPES) as first, first.reserve(10, model_scope=model), two.admit(SCOPES) as second:
            error = await refused(second.reserve(10, model_scope=model))
            assert (error.scope, error.resource) == (model, "parallel")
            async with two.admit(SCOPES):
                assert spent(two, TENANT) == (2, 10)
        await heard(one)
        async with two.admit(SCOPES) as third, third.reserve(10, model_scope=model):
            pass


async def test_what_is_said_twice_counts_once(redis):
    """A connection that ends before the answer: the settlement is said again on the next one, and the server has it once."""
    async with proxy(str(redis.socket)) as network, nodes(network.url, moment=lambda: NOW) as (limiter,):
        admission = limiter.admit(SCOPES)
        reservation = admission.reserve(500)
        assert (await refused(admission), await refused(reservation)) == (None, None)
        network.hold = asyncio.Event()
        reservation.settle(100)
        await until(lambda: network.held)
        network.hold, held = None, network.hold
        network.cut()
        held.set()
        await until(lambda: limiter.line.up and not limiter.line._under_way)
        reservation.settle(100)
        async with limiter.admit([TENANT]):
            assert spent(limiter, TENANT) == (2, 100)
        await leave(reservation)
        await leave(admission)
        await heard(limiter)
        assert keys(redis, b"*:open:*") == []


async def test_what_was_asked_and_never_answered_is_given_back(redis):
    """The server has admitted it and the node never heard: behind the next connection it is as if it had never been."""
    async with proxy(str(redis.socket)) as network, nodes(network.url, moment=lambda: NOW, deadline=0.1) as (limiter,):
        network.hold = asyncio.Event()
        admission = limiter.admit(SCOPES)
        assert await refused(admission) is None  # by the share
        assert limiter.decided_alone == 1
        network.hold, held = None, network.hold
        network.cut()
        held.set()
        await leave(admission)
        await until(lambda: limiter.line.up and not limiter.line._under_way)
        async with limiter.admit([TENANT]):
            assert spent(limiter, TENANT) == (1, 0)
            assert slots(redis) == 1


async def test_a_reservation_that_was_never_answered_is_given_back_to_the_token(redis):
    """Cut down to the burst or not: what others have spent is still spent."""
    async with (
        proxy(str(redis.socket)) as network,
        nodes(network.url, moment=lambda: NOW, deadline=0.1) as (limiter,),
        limiter.admit(SCOPES) as other,
        other.reserve(400) as spending,
        limiter.admit(SCOPES) as admission,
    ):
        spending.settle(400)
        admission.refund()
        await heard(limiter)
        network.hold = asyncio.Event()
        reservation = admission.reserve(5000, clamp=True)
        await refused(reservation)
        network.hold, held = None, network.hold
        network.cut()
        held.set()
        await until(lambda: limiter.line.up and not limiter.line._under_way)
        async with limiter.admit([TENANT]):
            assert spent(limiter, TENANT) == (2, 400)


async def test_who_is_cancelled_while_it_asks_holds_nothing(redis):
    """At admission and at reservation."""
    async with proxy(str(redis.socket)) as network, nodes(network.url, moment=lambda: NOW, deadline=5.0) as (limiter,):
        network.hold = asyncio.Event()
        asking = asyncio.create_task(refused(limiter.admit(SCOPES)))
        await until(lambda: network.held)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        network.hold.set()
        async with limiter.admit(SCOPES) as admission:
            network.hold.clear()
            asking = asyncio.create_task(refused(admission.reserve(100)))
            await until(lambda: len(limiter.line._under_way) > 0)
            await asyncio.sleep(0)
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
            network.hold.set()
        await heard(limiter)
        async with limiter.admit([TENANT]):
            assert spent(limiter, TENANT) == (2, 0)
            assert slots(redis) == 1


async def test_a_node_that_dies_frees_its_slots_when_its_leases_end(redis):
    """Until then they are taken; a node that lives renews its own, however long its work runs."""
    from limits.redis.scripts import LEASE

    now = [NOW]
    full = Scope("tenant:t", "tenant", max_parallel=2)
    dead = Node(redis.url, moment=lambda: now[0])
    await dead.start()
    async with nodes(redis.url, 2, moment=lambda: now[0]) as (living, other):
        assert await refused(dead.limiter.admit([full])) is None
        assert await refused(living.admit([full])) is None
        dead.die()
        assert (await refused(other.admit([full]))).resource == "parallel"
        now[0] += int(LEASE * 0.6e6)
        living.held.renew()
        await heard(living)
        assert (await refused(other.admit([full]))).resource == "parallel"
        now[0] += int(LEASE * 0.6e6)
        assert await refused(other.admit([full])) is None
        assert (await refused(other.admit([full]))).used == 2


async def test_slots_that_the_server_has_lost_are_taken_again(redis):
    """By the next renewal, which writes all of a node's leases at once."""
    full = Scope("tenant:t", "tenant", max_parallel=300)
    async with nodes(redis.url, 2) as (one, two):
        held = [one.admit([full]) for _ in range(300)]
        for admission in held:
            assert await refused(admission) is None
        redis.command(b"FLUSHALL")
        assert await refused(two.admit([full])) is None
        one.held.renew()
        await heard(one)
        assert slots(redis) == 301
        assert (await refused(two.admit([full]))).resource == "parallel"
        for admission in held:
            await leave(admission)
        await heard(one)
        assert slots(redis) == 1


async def test_a_slot_is_free_at_once_when_it_is_left(redis):
    """No waiting for the end of a lease."""
    full = Scope("tenant:t", "tenant", max_parallel=1)
    async with nodes(redis.url, 2) as (one, two):
        for _ in range(3):
            async with one.admit([full]):
                assert await refused(two.admit([full])) is not None
            await heard(one)
            admission = two.admit([full])
            assert await refused(admission) is None
            await leave(admission)
            await heard(two)


async def test_nothing_is_left_when_all_is_over(redis):
    """Balances that are full again go by themselves, and the rest goes with who held it."""
    async with nodes(redis.url) as (limiter,):
        quick = Scope("tenant:t", "tenant", rpm=1_000_000, tpm=1_000_000, max_parallel=3)
        async with limiter.admit([quick]) as admission, admission.reserve(1000) as reservation:
            reservation.settle(700)
        await heard(limiter)
        assert all(int(redis.command(b"PTTL", key)[1:-2]) > 0 for key in keys(redis))
        assert keys(redis, b"*:open:*") == keys(redis, b"*:slots") == []
    assert keys(redis, b"*nodes") == []
    assert b"acme" not in b"".join(keys(redis))


async def test_scripts_that_the_server_has_forgotten_are_sent_again(redis):
    """In the middle of work."""
    async with nodes(redis.url, moment=lambda: NOW) as (limiter,):
        async with limiter.admit(SCOPES) as admission:
            redis.command(b"SCRIPT", b"FLUSH")
            async with admission.reserve(10) as reservation:
                redis.command(b"SCRIPT", b"FLUSH")
                reservation.settle(3)
            await heard(limiter)
            async with limiter.admit(SCOPES):
                assert spent(limiter, TENANT) == (2, 3)
        assert limiter.decided_alone == 0


async def test_a_successor_takes_over_what_its_predecessor_held(redis):
    """It finds the name in the vault: slots are not counted twice, and what it settles counts."""
    buffer = bytearray(Vault.size_for(4))
    model = Scope("model:acme/m", "model", tpm=5000, max_parallel=1)
    first = Node(redis.url, moment=lambda: NOW, vault=Vault.open(buffer))
    await first.start()
    for _ in range(2):
        admission = first.limiter.admit(SCOPES)
        assert await refused(admission) is None
    reservation = admission.reserve(300, model_scope=model)
    assert await refused(reservation) is None
    first.limiter.commit()
    first.die()
    async with nodes(redis.url, moment=lambda: NOW, vault=Vault.open(buffer)) as (second,):
        async with second.adopt(SCOPES, refunded=False) as adopted:
            async with adopted.adopt_reservation(300, model) as resumed:
                await heard(second)
                assert slots(redis) == 2
                resumed.settle(50)
            adopted.refund()
            async with second.admit(SCOPES):
                assert spent(second, TENANT) == (2, 50)
        await heard(second)
        assert slots(redis) == 0
        assert keys(redis, b"*:open:*") == []
        assert second.held.nodes == 1


async def test_a_limit_beyond_any_traffic_is_none_and_debts_stay_exact(redis):
    """Above 2^40 a minute nothing is counted; a debt of 2^40 is carried to the last token."""
    huge, small = Scope("key:t/h", "key", tpm=1 << 60), Scope("tenant:t", "tenant", tpm=(1 << 40) - 1)
    async with nodes(redis.url, moment=lambda: NOW) as (limiter,), limiter.admit([huge, small]) as admission:
        async with admission.reserve(7) as reservation:
            reservation.settle(1 << 62)
        error = await refused(admission.reserve(1))
        assert (error.scope, error.used) == (small, 1 << 40)


@pytest.mark.parametrize("seed", range(3))
async def test_random_work_at_three_nodes_leaks_nothing(redis, seed):
    """Entered, left, cancelled, settled, refunded in any order: in the end no slot is held and nothing is open."""
    rng = random.Random(seed)
    scope = Scope("tenant:t", "tenant", rpm=10_000, tpm=100_000, max_parallel=7)
    model = Scope("model:t/m", "model", max_parallel=3)

    async def request(limiter):
        try:
            async with limiter.admit([scope, KEY]) as admission:
                if rng.random() < 0.2:
                    admission.refund()
                async with admission.reserve(rng.randrange(5000), model_scope=rng.choice([None, model])) as reservation:
                    await asyncio.sleep(rng.random() / 100)
                    if rng.random() < 0.7:
                        reservation.settle(rng.randrange(6000))
        except LimitExceeded:
            pass

    async with nodes(redis.url, 3) as many:
        work = [asyncio.create_task(request(rng.choice(many))) for _ in range(150)]
        await asyncio.sleep(0.01)
        for task in rng.sample(work, 40):
            task.cancel()
        await asyncio.gather(*work, return_exceptions=True)
        for limiter in many:
            await heard(limiter)
        assert keys(redis, b"*:open:*") == keys(redis, b"*:slots") == []
        assert all(limiter.held.items() == [] for limiter in many)


async def test_a_node_can_ask_where_scopes_stand(redis):
    """What another node spent and holds is known after a refresh, which spends nothing and leaves nothing open."""
    async with nodes(redis.url, 2, moment=lambda: NOW) as (one, two):
        async with two.admit(SCOPES) as admission, admission.reserve(400):
            assert one.standing([TENANT]).token_remaining == 1000
            await one.refresh(SCOPES)
            standing = one.standing([TENANT])
            assert (standing.request_remaining, standing.token_remaining, one.parallel(TENANT)) == (59, 600, 1)
            await heard(one)
            before = sorted(keys(redis))
            await one.refresh(SCOPES)
            await heard(one)
            assert sorted(keys(redis)) == before
        await heard(two)
        await one.refresh(SCOPES)
        standing = one.standing([TENANT])
        assert (standing.request_remaining, standing.token_remaining, one.parallel(TENANT)) == (59, 1000, 0)
        await one.refresh([])


async def test_a_refresh_of_a_tenant_in_debt_tells_so(redis):
    """A balance that is overdrawn is nothing left, and is not made worse."""
    scope = Scope("tenant:t", "tenant", rpm=60, tpm=600)
    async with nodes(redis.url, 2, moment=lambda: NOW) as (one, two):
        async with two.admit([scope]) as admission, admission.reserve(600) as reservation:
            reservation.settle(5000)
        await heard(two)
        for _ in range(2):
            await one.refresh([scope])
            standing = one.standing([scope])
            assert (standing.request_remaining, standing.token_remaining) == (59, 0)
            assert standing.token_reset == pytest.approx(500.0)
