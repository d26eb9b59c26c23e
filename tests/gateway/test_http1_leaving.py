"""Clients that leave, clients that do not read, and the server's own leaving."""

import asyncio
import contextlib
import os
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from raw_client import HEADERS, echo, staged

from gateway.http1 import Bounds, Server

POST = b"POST /%b HTTP/1.1\r\ncontent-length: 5\r\n\r\n"


class Watched:
    """A handler that waits in the state that the URL names, and tells how it ended."""

    def __init__(self):
        self.started = asyncio.Event()
        self.cancelled = asyncio.Event()

    async def __call__(self, request, response):
        self.started.set()
        try:
            if request.url == b"/body":
                await request.body()
            if request.url == b"/stream":
                response.start(200, HEADERS)
                response.write(b"x")
            if request.url == b"/flood":
                response.start(200, HEADERS)
                while response.writable:
                    response.write(b"x" * 100_000)
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            assert response.gone
            response.write(b"nobody is there")
            response.end()
            self.cancelled.set()
            raise


def reset(wire):
    """Go with a RST, as a killed process's host does."""
    sock = wire.writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    wire.writer.transport.abort()


@pytest.mark.parametrize("how", ["close", "reset", "half"])
@pytest.mark.parametrize("state", [b"body", b"wait", b"stream", b"flood"])
async def test_a_client_that_leaves_cancels_its_handler(state, how):
    """While its body arrives, before the answer, amid a stream, with a full buffer: closed, reset or half closed, it is over."""
    handler = Watched()
    async with staged(handler) as stage:
        wire = await stage.connect()
        await wire.deliver(POST % state + (b"abc" if state == b"body" else b"abcde"))
        await handler.started.wait()
        if state in (b"stream", b"flood"):
            await wire.head()
        if how == "close":
            wire.writer.close()
        elif how == "reset":
            reset(wire)
        else:
            wire.writer.write_eof()
        async with asyncio.timeout(10):
            await handler.cancelled.wait()
        await stage.until(lambda: not stage.server.connections)


@pytest.mark.parametrize("part", [b"", b"GE", b"GET / HTTP/1.1\r\na: b"])
async def test_a_client_that_leaves_before_its_request_leaves_nothing(part):
    """A connection that ends before its first request is complete is forgotten, without an error in the log."""
    async with staged(echo) as stage:
        wire = await stage.connect()
        await wire.deliver(part)
        await stage.until(lambda: bool(stage.server.connections))
        wire.writer.close()
        await stage.until(lambda: not stage.server.connections)
        assert not stage.errors


async def test_requests_that_wait_their_turn_leave_with_the_client():
    """What was pipelined behind a running request is never run once the client has gone."""
    handler = Watched()
    async with staged(handler) as stage:
        wire = await stage.connect()
        await wire.deliver(b"GET /wait HTTP/1.1\r\n\r\n" * 3)
        await handler.started.wait()
        wire.writer.close()
        await handler.cancelled.wait()
        handler.started.clear()
        await stage.until(lambda: not stage.server.connections)
        await asyncio.sleep(0.02)
        assert not handler.started.is_set()


async def test_what_is_answered_at_once_reaches_a_half_closed_client():
    """`printf … | nc` ends its side with its request: an answer that needs no waiting is sent, however large, then the end."""

    async def handler(request, response):
        response.send(200, HEADERS, b"y" * 3_000_000)

    async with staged(handler) as stage:
        wire = await stage.connect()
        wire.send(b"GET / HTTP/1.1\r\n\r\n")
        wire.writer.write_eof()
        assert len((await wire.answer()).body) == 3_000_000
        assert await wire.ended() == b""


async def test_a_slow_reader_holds_the_writer():
    """`writable` turns false when the client does not take its answer, and `on_writable` is called when it has."""
    events = []

    async def handler(request, response):
        resumed = asyncio.Event()
        response.on_writable = resumed.set
        response.start(200, HEADERS)
        while response.writable:
            response.write(b"x" * 65_536)
        events.append("full")
        await resumed.wait()
        assert response.writable
        events.append("taken")
        response.write(b"end")
        response.end()

    async with staged(handler) as stage:
        wire = await stage.connect()
        wire.writer.transport.pause_reading()
        wire.send(b"GET / HTTP/1.1\r\n\r\n")
        await stage.until(lambda: bool(events))
        stage.later(100)
        assert events == ["full"]
        wire.writer.transport.resume_reading()
        assert (await wire.answer()).body.endswith(b"xend")
        assert events == ["full", "taken"]


async def test_an_answer_that_nobody_reads_is_given_up():
    """Two minutes without a byte taken end the connection and its handler; any progress starts the two minutes anew."""
    handler = Watched()
    async with staged(handler) as stage:
        wire = await stage.connect()
        wire.writer.transport.pause_reading()
        await wire.deliver(b"GET /flood HTTP/1.1\r\n\r\n")
        await stage.until(lambda: any(not c.writable for c in stage.server.connections))
        await asyncio.sleep(0.05)
        (connection,) = stage.server.connections
        before = connection._transport.get_write_buffer_size()
        stage.later(0)
        stage.later(119)
        wire.writer.transport.resume_reading()
        await stage.until(lambda: connection._transport.get_write_buffer_size() < before)
        wire.writer.transport.pause_reading()
        if not connection._transport.get_write_buffer_size():
            connection._response.write(b"x" * 50_000_000)
        stage.later(130)
        stage.later(249)
        assert stage.server.connections
        assert not handler.cancelled.is_set()
        stage.later(251)
        await stage.until(lambda: not stage.server.connections and handler.cancelled.is_set())


async def test_a_whole_answer_that_nobody_reads_is_given_up_after_its_handler_ended():
    """The last answer of a connection may wait in its buffer; closing waits for it, but not for ever."""

    async def handler(request, response):
        response.send(200, HEADERS, b"x" * 50_000_000)

    async with staged(handler, keep_alive=10.0) as stage:
        for head in (b"GET / HTTP/1.1\r\nconnection: close\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n"):
            wire = await stage.connect()
            wire.writer.transport.pause_reading()
            await wire.deliver(head)
            await stage.until(lambda: any(not c.writable for c in stage.server.connections))
            await asyncio.sleep(0.02)
            stage.later(0)
            stage.later(60)
            await asyncio.sleep(0.02)
            assert stage.server.connections
            stage.later(121)
            await stage.until(lambda: not stage.server.connections)


FREED = """
import asyncio, gc, sys
from raw_client import HEADERS, staged
from gateway.http1 import Connection, Request, Response

async def handler(request, response):
    await request.body()
    response.send(200, HEADERS, b"")

def alive():
    return sum(type(each) in (Connection, Request, Response) for each in gc.get_objects())

async def main():
    async with staged(handler) as stage:
        gc.collect()
        before = alive()
        gc.disable()
        for data in sys.argv[1:]:
            wire = await stage.connect()
            wire.send(data.encode())
            await wire.answer()
            assert alive() > before
            wire.writer.close()
            await stage.until(lambda: not stage.server.connections)
            await stage.until(lambda: alive() == before)

asyncio.run(main())
"""


def test_a_closed_connection_is_freed_at_once():
    """Nothing of a connection that has ended waits for the garbage collector. In a process that holds nothing else."""
    sent = [(POST % b"").decode() + "abcde", "nonsense\r\n\r\n", "POST / HTTP/1.1\r\ncontent-length: 999999999\r\n\r\n"]
    folder = Path(__file__).parent
    paths = os.pathsep.join([str(folder), str(folder.parents[1])])
    env = {**os.environ, "PYTHONPATH": paths}
    ended = subprocess.run([sys.executable, "-c", FREED, *sent], check=False, env=env, capture_output=True, text=True, timeout=90)
    assert ended.returncode == 0, ended.stderr


async def test_draining_ends_idle_connections_and_finishes_others():
    """Kept connections close, a running stream ends as it should, a request on its way is served and told to close."""
    gate = asyncio.Event()

    async def handler(request, response):
        await request.body()
        if request.url == b"/at-once":
            response.send(200, HEADERS, b"a")
            return
        response.start(200, HEADERS)
        response.write(b"a")
        await gate.wait()
        response.write(b"b")
        response.end()

    async with staged(handler) as stage:
        idle, running, arriving = await stage.connect(), await stage.connect(), await stage.connect()
        idle.send(b"GET /at-once HTTP/1.1\r\n\r\n")
        assert (await idle.answer()).body == b"a"
        running.send(b"GET / HTTP/1.1\r\n\r\n")
        await running.head()
        await arriving.deliver(b"GET / HT")
        await stage.until(lambda: sum(not c.idle for c in stage.server.connections) == 2)
        await stage.server.drain()
        assert await idle.ended() == b""
        arriving.send(b"TP/1.1\r\n\r\n")
        gate.set()
        assert [piece async for piece in running.chunks()] == [b"a", b"b"]
        assert await running.ended() == b""
        answer = await arriving.answer()
        assert (answer.body, answer.headers["connection"]) == (b"ab", "close")
        assert await arriving.ended() == b""


def dial(port):
    """A connection on which a request was sent, without a turn of the event loop."""
    sock = socket.create_connection(("127.0.0.1", port))
    sock.sendall(b"GET / HTTP/1.1\r\n\r\n")
    return sock


def told(sock):
    sock.settimeout(10)
    with sock.makefile("rb") as file:
        return file.readline().rstrip()


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("when", ["drain", "leave"])
async def test_a_request_that_was_on_its_way_when_a_drain_began_is_answered(kept, when):
    """Who has just connected, and who asks once more on a kept connection, gets an answer, its last; also in the end."""

    async def handler(request, response):
        await request.body()
        response.send(503 if stage.server.draining else 200, HEADERS, b"told")

    async with staged(handler) as stage:
        wire, silent = await stage.connect(), await stage.connect()
        await stage.until(lambda: len(stage.server.connections) == 2)
        if kept:
            wire.send(b"GET / HTTP/1.1\r\n\r\n")
            assert (await wire.answer()).status == 200
        if when == "leave" and not kept:
            await stage.server.drain()
        ending = asyncio.create_task(stage.server.drain() if when == "drain" else stage.server.leave())
        stage.server.draining = True
        await asyncio.sleep(0)
        wire.send(b"GET / HTTP/1.1\r\n\r\n")
        answer = await wire.answer()
        assert (answer.status, answer.headers["connection"]) == (503, "close")
        assert await wire.ended() == b""
        await ending
        await stage.server.stop()
        assert await silent.ended() == b""


async def test_cancelled_handlers_may_say_good_bye():
    """`cancel_all` gives a handler its cancellation while the client is still there to be told."""

    async def handler(request, response):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            assert not response.gone
            response.send(503, HEADERS, b"good-bye")

    async with staged(handler) as stage:
        wire = await stage.connect()
        wire.send(b"GET / HTTP/1.1\r\n\r\n")
        await stage.until(lambda: any(c.task for c in stage.server.connections))
        await stage.server.cancel_all()
        assert (await wire.answer()).body == b"good-bye"


async def test_who_waits_in_the_backlog_at_the_end_of_a_drain_is_answered():
    """Who is connected as far as the kernel goes, and has asked, when the server stops to accept, gets an answer, not a reset."""
    async with staged(echo) as stage:
        await stage.server.drain()
        with contextlib.ExitStack() as scope:
            callers = [scope.enter_context(dial(stage.server.port)) for _ in range(100)]
            await stage.server.leave()
            assert [told(caller) for caller in callers] == [b"HTTP/1.1 200 OK"] * 100
            with pytest.raises(ConnectionRefusedError):
                dial(stage.server.port)


async def test_stopping_leaves_nothing(monkeypatch):
    """Running, stubborn, unread, idle: after `stop` there is no connection, no handler and no task of the server."""
    monkeypatch.setattr("gateway.http1._STOP_SECONDS", 0.1)
    release = asyncio.Event()

    async def handler(request, response):
        if request.url == b"/unread":
            response.send(200, HEADERS, b"x" * 50_000_000)
        elif request.url == b"/stubborn":
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                await release.wait()
        else:
            await asyncio.Event().wait()

    server = Server(handler, Bounds(), lambda error, peer: b"")
    await server.start("127.0.0.1", 0)
    writers = []
    for url in (b"/running", b"/stubborn", b"/unread", b""):
        _, writer = await asyncio.open_connection("127.0.0.1", server.port)
        if url:
            writer.transport.pause_reading()
            writer.write(b"GET %b HTTP/1.1\r\n\r\n" % url)
        writers.append(writer)
    async with asyncio.timeout(10):
        while sum(c.task is not None or not c.writable for c in server.connections) < 3 or len(server.connections) < 4:
            await asyncio.sleep(0.005)
    await server.stop()
    async with asyncio.timeout(10):
        while server.connections:
            await asyncio.sleep(0.005)
    release.set()
    for writer in writers:
        writer.transport.abort()
    async with asyncio.timeout(10):
        while len(asyncio.all_tasks()) > 1:
            await asyncio.sleep(0.005)
    with pytest.raises(OSError):
        await asyncio.open_connection("127.0.0.1", server.port)


async def test_a_taken_port_is_an_oserror():
    """Listening where somebody listens fails at once, for the command to report."""
    async with staged(echo) as stage:
        other = Server(echo, Bounds(), lambda error, peer: b"")
        with pytest.raises(OSError):
            await other.start("127.0.0.1", stage.server.port)


async def test_one_connections_fault_does_not_stop_the_clock(caplog):
    """A sweep that fails on one connection ends that one, says so, and still looks at the others."""
    async with staged(echo, header_timeout=0.1) as stage:
        bad, slow = await stage.connect(), await stage.connect()
        await bad.deliver(b"GE")
        await stage.until(lambda: any(c._receiving for c in stage.server.connections))
        (connection,) = [c for c in stage.server.connections if c._receiving]
        connection._deadline = "soon"
        await slow.deliver(b"GE")
        assert (await slow.answer()).status == 408
        assert await bad.ended() == b""
        assert "clock" in caplog.text
