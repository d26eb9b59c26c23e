import asyncio
import logging
import random
from contextlib import asynccontextmanager, suppress

import pytest
from pool_fleet import enter, leave, make_replica
from pool_server import Server

from backends.balance import make_balance
from backends.client import Client
from backends.errors import ConnectFailed
from backends.health import HealthMonitor
from backends.pool import Pool
from backends.types import Ask, Outcome


@pytest.fixture
async def servers():
    """Makes real servers on free ports, and ends them."""
    started = []

    async def make(count):
        made = [await Server().start() for _ in range(count)]
        started.extend(made)
        return made

    yield make
    for server in started:
        await server.stop()


@pytest.fixture
async def fleet(clock):
    """Makes a pool over servers and a monitor over the pool; `first` is the class of the first replica's client."""
    pools = []

    def make(servers, kind="least_requests", *, first=Client, **options):
        clients = [first, *[Client] * len(servers)]
        replicas = [make_replica(f"r{number}", server.url, clients[number]) for number, server in enumerate(servers)]
        pool = Pool("m", replicas, make_balance(kind, seed=1, clock=clock), clock=clock)
        pools.append(pool)
        options.setdefault("timeout", 0.2)
        return pool, HealthMonitor([pool], clock=clock, rng=random.Random(1), **options)

    yield make
    for pool in pools:
        for replica in pool.replicas:
            await replica.client.close()


@asynccontextmanager
async def running(monitor):
    task = asyncio.create_task(monitor.run())
    yield task
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def until(condition):
    """Wait until it holds; the test's own timeout ends it otherwise."""
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.002)


def lines(caplog):
    return [record.getMessage() for record in caplog.records if record.name == "tiergate.health"]


async def test_a_replica_is_up_after_its_first_good_check(servers, fleet):
    """Before the first check nobody is ready; after it, those are that answer 200."""
    good, bad = await servers(2)
    bad.status = 503
    pool, monitor = fleet([good, bad])
    assert pool.capacity() == 0
    await monitor.check_once()
    assert [replica.up for replica in pool.replicas] == [True, False]
    assert pool.pick(Ask()) is pool.replicas[0]


async def test_health_is_asked_beside_v1_with_host_and_key(servers):
    """The check goes to /health of the server, not below /v1, with the replica's own headers."""
    (server,) = await servers(1)
    replica = make_replica("r0", server.url, api_key="sk-1")
    proxied = make_replica("r1", server.url.replace("/v1", "/seven/v1"))
    pool = Pool("m", [replica, proxied], make_balance("round_robin"))
    await HealthMonitor([pool]).check_once()
    assert sorted(server.paths) == [b"/health", b"/seven/health"]
    head = next(head for head in server.heads if b"authorization" in head)
    assert b"\r\nauthorization: Bearer sk-1\r\n" in head
    assert f"\r\nhost: 127.0.0.1:{server.port}\r\n".encode() in head
    await replica.client.close()
    await proxied.client.close()


async def test_a_refused_connection_counts_at_once(servers, fleet):
    """A replica whose process is gone is down with the first check that is refused."""
    (server,) = await servers(1)
    pool, monitor = fleet([server])
    await monitor.check_once()
    await server.stop()
    await monitor.check_once()
    assert not pool.replicas[0].up


@pytest.mark.parametrize("ill", ["status", "silence", "garbage", "flood", "redirect"])
async def test_bad_checks_count_in_a_row(servers, fleet, ill):
    """A wrong status, silence, or an answer that is not HTTP or far too large takes a replica down at the third time."""
    (server,) = await servers(1)
    pool, monitor = fleet([server], timeout=0.05)
    await monitor.check_once()
    match ill:
        case "status":
            server.status = 500
        case "redirect":
            server.status = 302
        case "silence":
            server.status = None
        case "garbage":
            server.raw = b"\x16\x03\x01 this is not HTTP\r\n\r\n"
        case "flood":
            server.health = b"x" * 10_000_000
    for expected in (True, True, False):
        await monitor.check_once()
        assert pool.replicas[0].up is expected


async def test_a_good_check_ends_the_row(servers, fleet):
    """Two bad checks, a good one and two bad ones leave the replica up."""
    (server,) = await servers(1)
    pool, monitor = fleet([server])
    for status in (200, 500, 500, 200, 500, 500):
        server.status = status
        await monitor.check_once()
    assert pool.replicas[0].up


async def test_it_recovers_after_as_many_good_checks_as_asked_for(servers, fleet):
    """With rise=2 the second good check in a row brings a replica up."""
    (server,) = await servers(1)
    pool, monitor = fleet([server], rise=2)
    for status, expected in ((200, False), (500, False), (200, False), (200, True)):
        server.status = status
        await monitor.check_once()
        assert pool.replicas[0].up is expected


async def test_down_and_up_again_leaves_every_count_alone(servers, fleet, clock):
    """Going down and coming back through checks touches neither requests in flight, nor the breaker, nor the latency."""
    (server, other) = await servers(2)
    pool, monitor = fleet([server, other])
    await monitor.check_once()
    replica = pool.replicas[0]
    held = [enter(pool, replica) for _ in range(7)]
    held[0].first_byte()
    for _ in range(5):
        lease = enter(pool, replica)
        lease.settle(Outcome.FAILED)
        leave(lease)
    before = pool.stats()[0]
    assert (before.inflight, before.breaker) == (7, "open")
    await server.stop()
    await monitor.check_once()
    assert not replica.up
    assert replica.inflight == 7
    await server.start()
    await monitor.check_once()
    assert pool.stats()[0] == before
    for lease in held:
        leave(lease)
    assert replica.inflight == 0


async def test_an_engine_that_only_says_it_is_well_is_found_out_by_its_requests(servers, fleet):
    """A green health page does not keep a replica ready whose requests all fail."""
    asleep, awake = await servers(2)
    pool, monitor = fleet([asleep, awake])
    await monitor.check_once()
    sick = pool.replicas[0]
    for _ in range(5):
        lease = enter(pool, sick)
        lease.settle(Outcome.FAILED)
        leave(lease)
    await monitor.check_once()
    assert sick.up
    assert not sick.ready
    assert {pool.pick(Ask()) for _ in range(10)} == {pool.replicas[1]}


async def test_one_that_hangs_delays_nobody(servers, fleet):
    """While one check waits for a server that does not answer, the others are checked again and again."""
    hanging, quick = await servers(2)
    hanging.status = None
    pool, monitor = fleet([hanging, quick], interval=0.005, timeout=60.0)
    async with running(monitor):
        await until(lambda: len(quick.heads) > 5)
        assert len(hanging.heads) == 1
        assert pool.ready() == [pool.replicas[1]]


async def test_the_monitor_follows_a_server_that_goes_and_comes(servers, fleet):
    """Left to itself the monitor sees a replica come up, go down and come up again."""
    (server,) = await servers(1)
    pool, monitor = fleet([server], interval=0.01)
    heard = []
    pool.on_capacity(heard.append)
    async with running(monitor):
        await until(lambda: pool.capacity() == 256)
        await server.stop()
        await until(lambda: pool.capacity() == 0)
        await server.start()
        await until(lambda: pool.capacity() == 256)
    assert heard == [256, 0, 256]


async def test_a_suspicion_brings_the_check_forward(servers, fleet):
    """When a request could not connect, the replica is looked at now and not a minute later."""
    (server,) = await servers(1)
    pool, monitor = fleet([server], interval=3600.0)
    async with running(monitor):
        await until(lambda: pool.replicas[0].up)
        await server.stop()
        pool.suspect(pool.replicas[0])
        await until(lambda: not pool.replicas[0].up)


async def test_suspicions_without_end_do_not_become_a_flood_of_checks(servers, fleet):
    """However often a replica is suspected, its checks keep a distance."""
    (server,) = await servers(1)
    pool, monitor = fleet([server], interval=3600.0)
    async with running(monitor):
        await until(lambda: pool.replicas[0].up)
        for _ in range(100):
            pool.suspect(pool.replicas[0])
            await asyncio.sleep(0)
        assert len(server.heads) == 1
        await until(lambda: len(server.heads) == 2)
        assert not monitor._watches[pool.replicas[0]].suspected.is_set()


async def test_cancelling_ends_every_check(servers, fleet):
    """Cancelling run() in the middle of checks ends them all: no task is left, and no connection."""
    hanging = await servers(3)
    for server in hanging:
        server.status = None
    _, monitor = fleet(hanging, timeout=60.0)
    before = asyncio.all_tasks()
    task = asyncio.create_task(monitor.run())
    for server in hanging:
        await server.arrived.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: not any(server._open for server in hanging))
    assert {left for left in asyncio.all_tasks() - before if "Server" not in repr(left.get_coro())} == set()


async def test_changes_are_logged_once_and_checks_never(servers, fleet, caplog):
    """One line when a replica is up, one when it is down, with the reason, and none for all the checks between."""
    caplog.set_level(logging.INFO, logger="tiergate.health")
    (server,) = await servers(1)
    server.health = b"leave this out of the log"
    _, monitor = fleet([server])
    for status in (200, 200, 500, 500, 500, 500, 500, 200, 200):
        server.status = status
        await monitor.check_once()
    assert lines(caplog) == ["m/r0 is up: it answers", "m/r0 is down: status 500", "m/r0 is up: it answers"]


async def test_one_that_was_never_up_is_told_once(servers, fleet, caplog):
    """A replica that is not there at the start is one warning, however long it stays away."""
    caplog.set_level(logging.INFO, logger="tiergate.health")
    (server,) = await servers(1)
    await server.stop()
    _, monitor = fleet([server])
    for _ in range(5):
        await monitor.check_once()
    assert lines(caplog) == ["m/r0 is down: no connection: Connection refused"]


async def test_names_are_resolved_again_every_half_minute(servers, fleet, clock):
    """The addresses are looked up at the first check and then once in thirty seconds."""
    asked = []

    class Resolving(Client):
        async def resolve(self):
            asked.append(clock.now)
            await super().resolve()

    _, monitor = fleet(await servers(1), first=Resolving)
    for pause in (0, 10, 19, 1, 5, 30):
        clock.now += pause
        await monitor.check_once()
    assert asked == [1000, 1030, 1065]


@pytest.mark.parametrize("fault", [ConnectFailed("name unknown"), OSError("no resolver"), None])
async def test_a_name_that_cannot_be_resolved_now_is_no_bad_check(servers, fleet, clock, fault):
    """While the resolver fails or hangs, the known addresses serve on."""
    known = []

    class Unresolving(Client):
        async def resolve(self):
            if not known:
                known.append(True)
                return await super().resolve()
            if fault is None:
                await asyncio.Event().wait()
            raise fault

    (server,) = await servers(1)
    pool, monitor = fleet([server], timeout=0.05, first=Unresolving)
    for _ in range(5):
        await monitor.check_once()
        clock.now += 30
    assert pool.replicas[0].up
    assert len(server.heads) == 5


async def test_the_queue_is_scraped_for_the_policy_that_reads_it(servers, fleet, clock):
    """/metrics is read after a good check, with the requests in flight of that moment beside it."""
    (server,) = await servers(1)
    server.metrics = b'vllm:num_requests_waiting{engine="0"} 5.0\n'
    pool, monitor = fleet([server], "queue_depth")
    replica = pool.replicas[0]
    enter(pool, replica)
    await monitor.check_once()
    assert (replica.waiting, replica.waiting_at, replica.waiting_inflight) == (5.0, clock.now, 1)
    assert server.paths == [b"/health", b"/metrics"]


async def test_nobody_else_is_scraped(servers, fleet):
    """Other policies cost the servers one small request a check."""
    (server,) = await servers(1)
    _, monitor = fleet([server])
    await monitor.check_once()
    assert server.paths == [b"/health"]


@pytest.mark.parametrize("page", [b"", b"\x00\xff" * 1000, b"vllm:num_requests_waiting NaN\n", b"x" * 3_000_000])
async def test_a_page_that_cannot_be_read_is_no_fault(servers, fleet, page):
    """A strange or huge metrics page leaves the replica up and the last advice to age."""
    (server,) = await servers(1)
    server.metrics = page
    pool, monitor = fleet([server], "queue_depth")
    await monitor.check_once()
    assert pool.replicas[0].up
    assert pool.stats()[0].waiting is None


async def test_what_the_queue_was_is_not_told_for_ever(servers, fleet, clock):
    """A page that does not tell takes the number back; where no page comes any more it is not shown after ten seconds."""
    (server,) = await servers(1)
    pool, monitor = fleet([server], "queue_depth")
    for page in (b"", b"vllm:num_requests_waiting NaN\n"):
        server.metrics = b"vllm:num_requests_waiting 500\n"
        await monitor.check_once()
        assert pool.stats()[0].waiting == 500
        server.metrics = page
        await monitor.check_once()
        assert (pool.stats()[0].waiting, pool.replicas[0].waiting) == (None, 0)
    server.metrics = b"vllm:num_requests_waiting 500\n"
    await monitor.check_once()
    clock.now += 10
    assert pool.stats()[0].waiting == 500
    clock.now += 1
    assert pool.stats()[0].waiting is None


async def test_a_fault_in_one_check_does_not_end_the_watch(servers, fleet, caplog):
    """An error that nobody foresaw counts as a bad check of that replica, and the others are watched on."""

    class Broken(Client):
        def request(self, head, body, deadlines):
            raise RuntimeError("secret detail")

    broken, good = await servers(2)
    pool, monitor = fleet([broken, good], interval=0.005, first=Broken)
    async with running(monitor) as task:
        await until(lambda: len(good.heads) > 3)
        assert not task.done()
    assert pool.replicas[1].up
    assert lines(caplog)[0] == "m/r0 is down: the check failed (RuntimeError)"


async def test_an_opening_that_ended_shows_without_traffic(servers, fleet, clock):
    """With nobody picking, the next check makes the capacity of a half-open replica known."""
    pool, monitor = fleet(await servers(2))
    await monitor.check_once()
    for _ in range(5):
        lease = enter(pool, pool.replicas[0])
        lease.settle(Outcome.FAILED)
        leave(lease)
    heard = []
    pool.on_capacity(heard.append)
    clock.now += 5
    await monitor.check_once()
    assert heard == [257]
