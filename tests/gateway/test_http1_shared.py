"""Several servers on the same listening sockets: who takes a connection, and how one of them leaves."""

import asyncio
import contextlib
import os
import resource
import socket

import pytest
from raw_client import Wire

from gateway.accept import Share, Shares
from gateway.http1 import Bounds, Server
from gateway.node.sockets import listen


def got(shares, count, number):
    for other, has in enumerate(count, 1):
        shares.put(other, has)
    return shares.excess(number)


def test_only_clearly_more_than_an_even_share_is_too_much():
    """A few more than the average are nobody's business; a sixteenth of one's own, and one, are the limit."""
    shares = Shares(2)
    assert not got(shares, [0, 0], 1)
    assert not got(shares, [2, 0], 1)
    assert got(shares, [3, 0], 1)
    assert not got(shares, [3, 0], 2)
    assert not got(shares, [108, 100], 1)
    assert got(shares, [120, 100], 1)
    assert not got(Shares(1), [1000], 1)


class Shop:
    """Servers 1 to N on one address, each answering with its number, once it is let."""

    def __init__(self, workers):
        self.sockets = listen("127.0.0.1", 0)
        self.port = self.sockets[0].getsockname()[1]
        self.shares = Shares(workers)
        self.gate = asyncio.Event()
        self.gate.set()
        self.waiting = 0
        self.scope = contextlib.AsyncExitStack()

    async def open(self, number):
        async def answer(request, response):
            self.waiting += 1
            await self.gate.wait()
            self.waiting -= 1
            response.send(200, b"", b"%d" % number)

        server = Server(answer, Bounds(), lambda error, peer: b"")
        server.start_on([sock.dup() for sock in self.sockets], Share(self.shares, number))
        self.scope.push_async_callback(server.stop)
        return server

    async def dial(self):
        return await self.scope.enter_async_context(Wire(self.port))

    async def until(self, condition):
        async with asyncio.timeout(20):
            while not condition():
                await asyncio.sleep(0.002)


async def ask(wire):
    wire.send(b"GET / HTTP/1.1\r\nhost: h\r\n\r\n")
    return await wire.answer()


@pytest.fixture
async def shop():
    """`shop(workers)` → a Shop whose doors are closed at the end."""
    shops = []

    def make(workers):
        shops.append(Shop(workers))
        return shops[-1]

    yield make
    for one in shops:
        await one.scope.aclose()
        for sock in one.sockets:
            sock.close()


async def test_who_has_more_leaves_the_next_to_others(shop):
    """One server has 40 connections when another opens: of the next 30, that one takes all but a few."""
    here = shop(2)
    first = await here.open(1)
    for _ in range(40):
        await ask(await here.dial())
    second = await here.open(2)
    for _ in range(30):
        await ask(await here.dial())
    assert len(first.connections) + len(second.connections) == 70
    assert len(second.connections) >= 25


async def test_nobody_waits_for_a_worker_that_hangs(shop):
    """The others leave it the next ones in vain: then they take them after all."""
    here = shop(2)
    server = await here.open(1)
    wires = await asyncio.gather(*(here.dial() for _ in range(100)))
    answers = await asyncio.gather(*map(ask, wires))
    assert [answer.body for answer in answers] == [b"1"] * 100
    assert len(server.connections) == 100


async def test_connections_that_ended_are_told(shop):
    """What a server has is corrected by its clock, not only when the next one comes."""
    here = shop(2)
    server = await here.open(1)
    wires = [await here.dial() for _ in range(10)]
    for wire in wires:
        await ask(wire)
    assert here.shares.excess(1)
    for wire in wires:
        wire.writer.close()
    await here.until(lambda: not here.shares.excess(1))
    assert not server.connections


async def test_one_stops_accepting_and_the_other_takes_all(shop):
    """Open connections go on; every new one is the other's. Twice is as once."""
    here = shop(2)
    first = await here.open(1)
    old = [await here.dial() for _ in range(10)]
    for wire in old:
        await ask(wire)
    await here.open(2)
    first.stop_accepting()
    first.stop_accepting()
    assert {(await ask(await here.dial())).body for _ in range(10)} == {b"2"}
    assert {(await ask(wire)).body for wire in old} == {b"1"}


async def test_the_last_one_that_stops_refuses(shop):
    """When all have closed the sockets, connecting is refused at once; amid a hold-back, nobody is taken after it."""
    here = shop(2)
    server = await here.open(1)
    for _ in range(5):
        await ask(await here.dial())
    for sock in here.sockets:
        sock.close()
    late = await here.dial()
    async with asyncio.timeout(20):
        while server._acceptor._later is None:
            await asyncio.sleep(0)
    server.stop_accepting()
    with contextlib.suppress(ConnectionResetError):
        assert await late.ended() == b""
    assert len(server.connections) == 5
    with pytest.raises(ConnectionRefusedError):
        await here.dial()


async def test_one_that_retires_serves_whom_it_has(shop):
    """Idle connections close; what was just opened is served, and so is what runs: then it is done."""
    here = shop(1)
    server = await here.open(1)
    idle, busy, fresh = [await here.dial() for _ in range(3)]
    await ask(idle)
    await here.until(lambda: len(server.connections) == 3)
    here.gate.clear()
    busy.send(b"GET / HTTP/1.1\r\nhost: h\r\n\r\n")
    await here.until(lambda: here.waiting == 1)
    retired = asyncio.create_task(server.retire())
    assert await idle.ended() == b""
    fresh.send(b"GET / HTTP/1.1\r\nhost: h\r\n\r\n")
    await here.until(lambda: here.waiting == 2)
    assert not retired.done()
    here.gate.set()
    for wire in (busy, fresh):
        answer = await wire.answer()
        assert (answer.body, answer.headers["connection"]) == (b"1", "close")
    async with asyncio.timeout(20):
        await retired


async def test_descriptors_that_ran_out_are_waited_for(shop, caplog):
    """No connection can be accepted: that is said once a second, and what waits is served when there is room again."""
    here = shop(1)
    await here.open(1)
    with socket.create_connection(("127.0.0.1", here.port)) as sock:
        sock.sendall(b"GET / HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n")
        free = os.dup(0)
        os.close(free)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
        try:
            await here.until(lambda: caplog.records)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        (record,) = caplog.records
        assert record.message == "no connection can be accepted for a second: Too many open files"
        sock.setblocking(False)
        assert (await asyncio.wait_for(asyncio.get_running_loop().sock_recv(sock, 100), 20)).startswith(b"HTTP/1.1 200")


async def test_who_waits_in_the_backlog_is_taken_by_the_last_that_leaves(shop):
    """Two servers leave one after the other while 50 wait: each is answered, by either."""
    here = shop(2)
    servers = [await here.open(1), await here.open(2)]
    for sock in here.sockets:
        sock.close()
    with contextlib.ExitStack() as scope:
        callers = [scope.enter_context(socket.create_connection(("127.0.0.1", here.port))) for _ in range(25)]
        leaving = [asyncio.create_task(servers[0].leave())]
        await asyncio.sleep(0)
        callers += [scope.enter_context(socket.create_connection(("127.0.0.1", here.port))) for _ in range(25)]
        leaving += [asyncio.create_task(servers[1].leave())]
        for caller in callers:
            caller.sendall(b"GET / HTTP/1.1\r\nconnection: close\r\n\r\n")
        await asyncio.gather(*leaving)
        answers = [caller.makefile("rb").read() for caller in callers]
        assert all(answer.startswith(b"HTTP/1.1 200") for answer in answers)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", here.port))
