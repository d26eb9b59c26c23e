"""A server that is stopped, slow, killed, wiped, full or none at all: who decides meanwhile, and what is left of it."""

import asyncio
import logging
import random
from contextlib import suppress

import pytest
from redis_proxy import impostor, proxy
from redis_world import SCOPES, TENANT, Node, heard, keys, leave, nodes, refused, slots, spent, until

pytest.importorskip("redis", reason="the extra `redis` is not installed")
from limits.redis.line import Away
from limits.types import LimitsAway, LimitsState, Scope

OPEN = Scope("tenant:t", "tenant", rpm=10, tpm=1000, max_parallel=6, name="t")


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """The pauses of an outage, shorter."""
    for name, seconds in (("line._RETURN", 0.05), ("line._PAUSES", (0.02, 0.2)), ("held.BEAT", 0.1)):
        monkeypatch.setattr(f"limits.redis.{name}", seconds)


async def back(limiter) -> None:
    while True:
        await until(lambda: limiter.line.up)
        with suppress(Away):  # what is late of before may still come
            return await heard(limiter)


async def away(limiter) -> None:
    """Ask until it is not asked any more."""

    async def ask():
        while limiter.line.up:
            async with limiter.admit([Scope("tenant:other", "tenant", rpm=100_000)]):
                pass

    async with asyncio.timeout(20):
        await ask()


async def test_a_stopped_server_is_asked_three_times_and_comes_back(own_redis, caplog):
    """Then nobody waits for it any more; one line of the log says so, and one that it is back."""
    caplog.set_level(logging.INFO, "tiergate.limits")
    async with nodes(own_redis.url, deadline=0.02) as (limiter,):
        assert limiter.state == LimitsState("redis")
        own_redis.stop()
        for _ in range(20):
            async with limiter.admit(SCOPES) as admission, admission.reserve(10) as reservation:
                reservation.settle(5)
        assert limiter.state == LimitsState("redis", "timeout", "local")
        assert limiter.decided_alone == 40
        own_redis.resume()
        await back(limiter)
        async with limiter.admit(SCOPES):
            assert limiter.decided_alone == 40
    said = [record.getMessage() for record in caplog.records]
    assert [line.split(" is away")[0].split(" answers")[0] for line in said] == [limiter.line.place] * 2
    assert "no answer in time" in said[0]


async def test_a_refresh_waits_no_longer_than_a_decision(own_redis):
    """Of a stopped server it gives up at the deadline; then it tells what this node decides by instead: its slots are its own."""
    async with nodes(own_redis.url, deadline=0.02) as (limiter,):
        async with limiter.admit(SCOPES):
            own_redis.stop()
            async with asyncio.timeout(5):
                while limiter.line.up:
                    await limiter.refresh(SCOPES)
                await limiter.refresh(SCOPES)
            assert limiter.standing([TENANT]).request_remaining == 59
            assert limiter.parallel(TENANT) == 1
        own_redis.resume()
        await back(limiter)
        await limiter.refresh(SCOPES)
        assert limiter.parallel(TENANT) == 0


@pytest.mark.parametrize("fault", ["stopped", "killed", "deaf"])
async def test_each_node_alone_lets_in_its_part(own_redis, fault):
    """Two nodes that were counted: each has half of every limit, less half of what was spent, and the slots that it holds."""
    async with proxy(str(own_redis.socket)) as network, nodes(network.url, 2, deadline=0.2) as (one, two):
        held = one.admit([OPEN])
        reservation = held.reserve(400)
        assert (await refused(held), await refused(reservation)) == (None, None)
        async with two.admit([OPEN]):
            pass
        if fault == "deaf":
            network.deaf = lambda _: True
        else:
            own_redis.stop() if fault == "stopped" else own_redis.kill()
        await asyncio.gather(away(one), away(two))
        passed = {limiter: [limiter.admit([OPEN]) for _ in range(8)] for limiter in (one, two)}
        found = {limiter: [await refused(admission) for admission in each] for limiter, each in passed.items()}
        # of ten requests two are spent, so each has four left; of six slots each has three, and one of those is held
        assert [error is None for error in found[one]] == [True, True, *[False] * 6]
        assert [error is None for error in found[two]] == [True, True, True, *[False] * 5]
        assert {error.scope for each in found.values() for error in each if error} == {OPEN}
        assert found[one][-1].resource == "parallel"
        assert (await refused(passed[two][0].reserve(480))).wait > 0
        assert await refused(passed[two][1].reserve(250)) is None


async def test_a_demand_above_a_part_passes_and_makes_a_debt(own_redis):
    """What fits the limit but not a node's part is let in when the part is full; what fits neither never is."""
    async with nodes(own_redis.url, 4, deadline=0.2) as (limiter, *_):
        own_redis.kill()
        await away(limiter)
        admission = limiter.admit([OPEN])
        assert await refused(admission) is None
        error = await refused(admission.reserve(1001))
        assert (error.never, error.limit) == (True, 1000)
        reservation = admission.reserve(900)
        assert (await refused(reservation), reservation.tokens) == (None, 900)
        error = await refused(limiter.admit([OPEN]).reserve(1))
        assert not error.never
        assert 60 * 650 / 250 < error.wait < 60 * 652 / 250
        assert limiter.standing([OPEN]).token_limit == 250
        reservation.settle(0)
        assert limiter.standing([OPEN]).token_remaining == 250


async def test_parts_have_parts_of_the_burst(own_redis):
    """Two nodes of 600 requests a minute with a burst of ten seconds: each has fifty at once, and five a second."""
    clock = 1000.0
    async with nodes(own_redis.url, 2, deadline=0.2, clock=lambda: clock) as (limiter, _):
        own_redis.kill()
        await away(limiter)
        scope = Scope("tenant:t", "tenant", rpm=600, tpm=6000, burst=10.0, name="t")
        found = [await refused(limiter.admit([scope])) for _ in range(51)]
        assert [error is None for error in found] == [True] * 50 + [False]
        assert found[-1].wait == pytest.approx(0.2, abs=1e-5)
        clock += 0.2001
        admission = limiter.admit([scope])
        assert await refused(admission) is None
        assert (await refused(admission.reserve(1001))).never
        assert await refused(admission.reserve(1000)) is None


async def test_open_lets_everybody_in_and_closed_nobody(own_redis):
    """And both count what they decided."""
    async with nodes(own_redis.url, deadline=0.2, on_outage="open") as (limiter,):
        own_redis.kill()
        for _ in range(30):
            async with limiter.admit([OPEN]) as admission, admission.reserve(900):
                pass
        assert limiter.decided_alone == 60
        assert str(limiter.state) == "redis away: connection; open"
    closed = Node(own_redis.url, deadline=0.2, on_outage="closed")
    limiter = await closed.start()
    with pytest.raises(LimitsAway):
        await limiter.admit([OPEN]).__aenter__()
    async with limiter.admit([]):
        pass
    own_redis.start()
    await back(limiter)
    admission = limiter.admit([OPEN])
    assert await refused(admission) is None
    own_redis.kill()
    await until(lambda: not limiter.line.up)
    with pytest.raises(LimitsAway):
        await admission.reserve(1).__aenter__()
    await limiter.close()


async def test_a_server_that_is_not_there_at_the_start_is_found_later(own_redis):
    """Until then the node takes itself for the only one."""
    own_redis.kill()
    async with nodes_later(own_redis.url) as limiter:
        assert limiter.state == LimitsState("redis", "connection", "local")
        async with limiter.admit(SCOPES):
            pass
        own_redis.start()
        await back(limiter)
        async with limiter.admit(SCOPES):
            assert slots(own_redis) == 1


@pytest.mark.parametrize(("instances", "passed"), [(1, 10), (4, 2), (20, 1)])
async def test_a_node_that_starts_in_an_outage_goes_by_the_expected_number_of_nodes(own_redis, instances, passed):
    """Its part is that of one of so many from the first request on; one at least."""
    own_redis.kill()
    async with nodes_later(own_redis.url, instances=instances) as limiter:
        found = [await refused(limiter.admit([Scope("tenant:t", "tenant", rpm=10)])) for _ in range(11)]
        assert [error is None for error in found].count(True) == passed


@pytest.mark.parametrize(("instances", "count", "passed"), [(4, 1, 2), (2, 3, 3)])
async def test_more_nodes_than_expected_are_counted(own_redis, instances, count, passed):
    """The expected number is the least that a limit is divided by; when more are there, by as many."""
    async with nodes(own_redis.url, count, instances=instances, deadline=0.2) as (limiter, *_):
        own_redis.kill()
        await away(limiter)
        found = [await refused(limiter.admit([Scope("tenant:t", "tenant", rpm=10)])) for _ in range(11)]
        assert [error is None for error in found].count(True) == passed


class nodes_later:
    def __init__(self, url, **options):
        self.node = Node(url, **options)

    async def __aenter__(self):
        return await self.node.start()

    async def __aexit__(self, *_):
        await self.node.limiter.close()


POINTS = ["before admission", "between", "running", "at the end"]
FAULTS = ["stopped", "slow", "killed", "flushed"]


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("fault", FAULTS)
async def test_no_fault_at_any_point_leaks(own_redis, fault, point):
    """The request goes through, and when the server is back and all have left, no slot is held and nothing is open there."""
    model = Scope("model:acme/m", "model", rpm=100, max_parallel=2)
    async with proxy(str(own_redis.socket)) as network, nodes(network.url, deadline=0.03) as (limiter,):

        async def strike(here):
            if here != point:
                return
            if fault == "stopped":
                own_redis.stop()
            elif fault == "slow":
                network.delay = 0.06
            elif fault == "killed":
                own_redis.kill()
            else:
                own_redis.command(b"FLUSHALL")
            if fault == "killed":
                await until(lambda: not limiter.line.up)

        await strike("before admission")
        async with limiter.admit(SCOPES) as admission:
            await strike("between")
            async with admission.reserve(100, model_scope=model) as reservation:
                await strike("running")
                if point == "running" and fault in ("stopped", "slow"):
                    await away(limiter)
                assert limiter.standing(SCOPES).request_limit
                await strike("at the end")
                reservation.settle(40)
        network.delay = 0.0
        if fault == "stopped":
            own_redis.resume()
        elif fault == "killed":
            own_redis.start()
        await back(limiter)
        await until(lambda: not limiter.line._under_way and not limiter.line._unsaid)
        assert keys(own_redis, b"*:open:*") == keys(own_redis, b"*:slots") == []
        assert limiter.held.items() == []
        assert limiter._alone == {}
        async with limiter.admit(SCOPES):
            requests, tokens = spent(limiter, TENANT)
            assert 1 <= requests <= 2
            assert 0 <= tokens <= 40


async def test_slots_held_through_an_outage_are_held_on_the_server_again(own_redis):
    """Those of before, and those that were given out meanwhile."""
    async with nodes(own_redis.url, deadline=0.2) as (limiter,):
        before = limiter.admit(SCOPES)
        assert await refused(before) is None
        own_redis.kill()
        await until(lambda: not limiter.line.up)
        meanwhile = limiter.admit(SCOPES)
        assert await refused(meanwhile) is None
        own_redis.start()
        await back(limiter)
        assert slots(own_redis) == 2
        await leave(meanwhile)
        await leave(before)
        await heard(limiter)
        assert slots(own_redis) == 0


async def test_a_flapping_server_gives_no_second_part(own_redis):
    """What a node let in alone in one outage is spent in the next."""
    few = Scope("tenant:few", "tenant", rpm=4)
    async with nodes(own_redis.url, deadline=0.2) as (limiter,):
        own_redis.kill()
        await until(lambda: not limiter.line.up)
        for _ in range(4):
            assert await refused(limiter.admit([few])) is None
        own_redis.start()
        await back(limiter)
        own_redis.kill()
        await until(lambda: not limiter.line.up)
        assert await refused(limiter.admit([few])) is not None


class Noted(random.Random):
    """Which ranges were drawn from."""

    def __init__(self):
        super().__init__(7)
        self.drawn = []

    def uniform(self, a, b):
        self.drawn.append((a, b))
        return a


async def test_nodes_do_not_come_back_at_one_instant(own_redis):
    """From a probe that is answered to asking again it takes a time that each draws for itself, and not at the first start."""
    rng = Noted()
    async with nodes(own_redis.url, deadline=0.2, rng=rng) as (limiter,):
        assert (0.0, 0.05) not in rng.drawn
        own_redis.kill()
        await until(lambda: not limiter.line.up)
        own_redis.start()
        await back(limiter)
        assert (0.0, 0.05) in rng.drawn


@pytest.mark.parametrize(
    "says", [b"+OK\r\n", b"$3\r\nabc\r\n", b"*0\r\n", b":1\r\n", b"\x00\xff" * 40, b"-WRONGTYPE no\r\n", None]
)
async def test_what_is_no_server_decides_nothing(says):
    """Whatever answers in its place, requests are decided alone, and the gateway lives."""
    async with impostor(says, polite=True) as url, nodes_later(url) as limiter:
        for _ in range(5):
            async with limiter.admit(SCOPES) as admission, admission.reserve(10) as reservation:
                reservation.settle(5)
        assert limiter.decided_alone == 10
        assert not limiter.line.up


async def test_a_server_without_memory_is_away(own_redis):
    """It cannot write, so it cannot decide; with memory it does again."""
    async with nodes(own_redis.url) as (limiter,):
        own_redis.command(b"CONFIG", b"SET", b"maxmemory", b"1")
        await away(limiter)
        assert limiter.state.away == "failed"
        own_redis.command(b"CONFIG", b"SET", b"maxmemory", b"0")
        await back(limiter)


async def test_corrections_that_were_refused_are_said_again(own_redis):
    """What a server without its replicas would not take it takes when it has them: the tokens that were not used are back."""
    scope = Scope("tenant:t", "tenant", rpm=100, tpm=1000, max_parallel=5)
    async with nodes(own_redis.url) as (limiter,):
        admission = limiter.admit([scope])
        reservation = admission.reserve(900)
        assert (await refused(admission), await refused(reservation)) == (None, None)
        own_redis.command(b"CONFIG", b"SET", b"min-replicas-to-write", b"1")
        reservation.settle(100)
        await leave(reservation)
        admission.refund()
        await leave(admission)
        await until(lambda: not limiter.line._under_way or not limiter.line.up)
        await until(lambda: len(limiter.line._refused) >= 2)
        own_redis.command(b"CONFIG", b"SET", b"min-replicas-to-write", b"0")
        await back(limiter)
        await heard(limiter)
        async with limiter.admit([scope]):
            requests, tokens = spent(limiter, scope)
            assert (requests, limiter.line.forgotten) == (1, 0)
            assert tokens <= 100
        await heard(limiter)
        assert keys(own_redis, b"*:open:*") == keys(own_redis, b"*:slots") == []


async def test_what_is_refused_again_and_again_is_forgotten_and_costs_others_nothing(own_redis):
    """Where something else has overwritten a key, corrections are given up after a few tries, and the server is asked on."""
    scopes = [Scope(f"tenant:t{number}", "tenant", rpm=100) for number in range(8)]
    async with nodes(own_redis.url) as (limiter,):
        held = [limiter.admit([scope]) for scope in scopes]
        assert [await refused(admission) for admission in held] == [None] * 8
        for key in keys(own_redis, b"*"):
            if b":open:" in key:
                own_redis.command(b"SET", key, b"overwritten")
        for admission in held:
            async with limiter.admit([TENANT]):
                admission.refund()
                await heard(limiter)
        await until(lambda: limiter.line.forgotten == 8)
        assert not limiter.line._refused
        assert limiter.line.up
        own_redis.command(b"FLUSHALL")
        for admission in held:
            await leave(admission)


async def test_a_replica_by_now_is_given_up_for_what_answers_in_its_place(own_redis):
    """After a failover the old connection says only that nothing may be written: another one is made, and again, until it may."""
    async with proxy(str(own_redis.socket)) as network, nodes(network.url) as (limiter,):
        before = network.accepted
        own_redis.command(b"REPLICAOF", b"127.0.0.1", b"1")
        await away(limiter)
        await until(lambda: network.accepted > before + 1)
        own_redis.command(b"REPLICAOF", b"NO", b"ONE")
        await back(limiter)
        async with limiter.admit(SCOPES):
            assert slots(own_redis) == 1


async def test_what_may_be_said_is_bounded(own_redis, monkeypatch):
    """While the server is away for long, the oldest words are forgotten, and counted."""
    monkeypatch.setattr("limits.redis.line._MOST", 10)
    async with nodes(own_redis.url) as (limiter,):
        held = [limiter.admit([Scope("tenant:many", "tenant", rpm=1000, tpm=1000)]) for _ in range(30)]
        for admission in held:
            assert await refused(admission) is None
        own_redis.kill()
        await until(lambda: not limiter.line.up)
        for admission in held:
            await leave(admission)
        assert len(limiter.line._unsaid) == 10
        assert limiter.line.forgotten == 20
