"""One request after another on a connection: reuse, pipelining, HTTP/1.0, HEAD, and the forms of an answer."""

import asyncio

import pytest
from raw_client import HEADERS, echo, staged

GET = b"GET /%d HTTP/1.1\r\n\r\n"


async def stream(request, response):
    """Three pieces."""
    await request.body()
    response.start(200, HEADERS)
    for piece in (b"one", b"", b"two", b"three"):
        response.write(piece)
    response.end()
    response.end()


async def test_a_connection_is_used_again():
    """Answer after answer on one connection, whole or streamed, and none of them says close."""
    for handler, body in ((echo, b"GET /1 "), (stream, b"onetwothree")):
        async with staged(handler) as stage:
            wire = await stage.connect()
            for _ in range(3):
                wire.send(GET % 1)
                answer = await wire.answer()
                assert answer.body == body
                assert "connection" not in answer.headers
                assert answer.headers["date"].endswith("GMT")
            assert len(stage.server.connections) == 1


async def test_an_idle_connection_is_closed_in_time():
    """After `keep_alive` seconds without a request the connection ends without a word."""
    async with staged(echo, keep_alive=30.0) as stage:
        wire = await stage.connect()
        wire.send(GET % 1)
        await wire.answer()
        stage.later(29)
        wire.send(GET % 2)
        assert (await wire.answer()).body == b"GET /2 "
        stage.later(31)
        assert await wire.ended() == b""


@pytest.mark.parametrize("size", [1 << 20, 5000, 11])
async def test_pipelined_requests_are_answered_in_order(size):
    """A hundred requests at once, the first the slowest: the answers keep the order of the questions, one runs at a time."""
    running = 0

    async def handler(request, response):
        nonlocal running
        running += 1
        assert running == 1
        body = await request.body()
        if request.url == b"/0":
            await asyncio.sleep(0.05)
        running -= 1
        response.send(200, HEADERS, request.url + body)

    async with staged(handler) as stage:
        wire = await stage.connect()
        data = b"".join(b"POST /%d HTTP/1.1\r\ncontent-length: 3\r\n\r\nabc" % i for i in range(100))
        for at in range(0, len(data), size):
            await wire.deliver(data[at : at + size])
        for i in range(100):
            assert (await wire.answer()).body == b"/%dabc" % i


async def test_few_pipelined_requests_wait_at_a_time():
    """However many come, few are parsed while one runs: the rest stays bytes, and in the end in the client's own buffers."""
    gate = asyncio.Event()
    most = 0

    async def handler(request, response):
        nonlocal most
        if request.url == b"/0":
            await gate.wait()
        most = max(most, *(len(c._queue) for c in stage.server.connections))
        response.send(200, HEADERS, request.url)

    async with staged(handler) as stage:
        wire = await stage.connect()
        count = 20_000
        data = b"".join(GET % i for i in range(count))
        sent = asyncio.create_task(wire.deliver(data))
        await stage.until(lambda: any(not c._reading for c in stage.server.connections))
        await asyncio.sleep(0.05)
        (connection,) = stage.server.connections
        assert len(connection._queue) < 16 + 8192 / len(GET % 1)
        assert len(connection._held) < 2**20
        gate.set()
        for i in range(count):
            assert (await wire.answer()).body == b"/%d" % i
        await sent
        assert most < 16 + 8192 / len(GET % 1)


async def test_a_pipelined_body_waits_in_the_network():
    """A large body whose turn has not come is not taken in, its clock does not run, and it is whole when its turn comes."""
    gate = asyncio.Event()

    async def handler(request, response):
        if request.url == b"/first":
            await gate.wait()
        response.send(200, HEADERS, b"%d" % len(await request.body()))

    async with staged(handler, body_timeout=5.0) as stage:
        wire = await stage.connect()
        wire.send(b"GET /first HTTP/1.1\r\n\r\n")
        size = 12 * 1024 * 1024
        sent = asyncio.create_task(wire.deliver(b"POST /second HTTP/1.1\r\ncontent-length: %d\r\n\r\n" % size + b"x" * size))
        await stage.until(lambda: any(not c._reading for c in stage.server.connections))
        stage.later(100)
        (connection,) = stage.server.connections
        assert connection._receiving.received < 1_000_000
        gate.set()
        assert (await wire.answer()).body == b"0"
        assert (await wire.answer()).body == b"%d" % size
        await sent


async def test_garbage_behind_good_requests_is_answered_in_its_turn():
    """What was well-formed is answered first, then comes the 400, then the end; nothing behind it is read as a request."""
    gate = asyncio.Event()

    async def handler(request, response):
        await gate.wait()
        response.send(200, HEADERS, request.url)

    async with staged(handler) as stage:
        for garbage, status in ((b"\x16\x03\x01 nonsense\r\n\r\n", 400), (b"GET /" + b"u" * 9000, 414)):
            gate.clear()
            wire = await stage.connect()
            wire.send(GET % 1 + GET % 2 + garbage + GET % 3)
            await asyncio.sleep(0.02)
            gate.set()
            assert (await wire.answer()).body == b"/1"
            assert (await wire.answer()).body == b"/2"
            answer = await wire.answer()
            assert answer.status == status
            assert answer.error["type"] == "invalid_request_error"
            assert await wire.ended() == b""


async def test_nothing_is_answered_after_a_close():
    """Requests behind one that said `Connection: close` are not run, and the answer before them is not lost to a reset."""
    ran = []

    async def handler(request, response):
        ran.append(request.url)
        await asyncio.sleep(0.01)
        response.send(200, HEADERS, b"y" * 500_000)

    async with staged(handler) as stage:
        wire = await stage.connect()
        wire.send(b"GET /1 HTTP/1.1\r\nconnection: close\r\n\r\n" + GET % 2 + b"x" * 100_000)
        answer = await wire.answer()
        assert (len(answer.body), answer.headers["connection"]) == (500_000, "close")
        assert await wire.ended() == b""
        assert ran == [b"/1"]


async def test_old_clients():
    """HTTP/1.0 ends with the answer unless the client asked to go on, which is confirmed; its streams end with the connection."""
    async with staged(echo) as stage:
        wire = await stage.connect()
        wire.send(b"GET /1 HTTP/1.0\r\nconnection: keep-alive\r\n\r\n")
        answer = await wire.answer()
        assert (answer.body, answer.headers["connection"]) == (b"GET /1 ", "keep-alive")
        wire.send(b"GET /2 HTTP/1.0\r\n\r\n")
        answer = await wire.answer()
        assert (answer.body, answer.headers["connection"]) == (b"GET /2 ", "close")
        assert await wire.ended() == b""
    async with staged(stream) as stage:
        for more in (b"", b"connection: keep-alive\r\n"):
            wire = await stage.connect()
            wire.send(b"GET /1 HTTP/1.0\r\n" + more + b"\r\n")
            status, headers = await wire.head()
            assert (status, headers["connection"]) == (200, "close")
            assert "transfer-encoding" not in headers
            assert await wire.ended() == b"onetwothree"


async def test_heads_have_no_body():
    """A HEAD is answered as a GET would be, without the body; the connection goes on."""
    for handler in (echo, stream):
        async with staged(handler) as stage:
            wire = await stage.connect()
            for _ in range(2):
                wire.send(b"HEAD / HTTP/1.1\r\n\r\n")
                answer = await wire.answer(head=True)
                assert answer.status == 200
                assert ("content-length" in answer.headers) is (handler is echo)
            wire.send(GET % 1)
            assert (await wire.answer()).body.startswith((b"GET /1", b"one"))


async def test_the_head_of_a_stream_travels_with_its_first_piece():
    """One packet for both; a stream without pieces has its head at the end; an empty piece does not end the chunks."""

    async def handler(request, response):
        response.start(200, HEADERS)
        if request.url == b"/one":
            response.write(b"")
            response.write(b"data")
        response.end()

    async with staged(handler) as stage:
        for url, rest in ((b"/one", b"4\r\ndata\r\n0\r\n\r\n"), (b"/none", b"0\r\n\r\n")):
            wire = await stage.connect()
            wire.send(b"GET %b HTTP/1.1\r\nconnection: close\r\n\r\n" % url)
            data = await wire.ended()
            assert data.endswith(b"transfer-encoding: chunked\r\n" + stage.server.date + b"connection: close\r\n\r\n" + rest)


async def test_unusual_statuses_have_a_line():
    """A status without a phrase of its own is sent as it is."""

    async def handler(request, response):
        response.send(int(request.url[1:]), HEADERS, b"")
        assert response.status == int(request.url[1:])

    async with staged(handler) as stage:
        wire = await stage.connect()
        for status in (200, 299, 418, 499, 529, 599):
            wire.send(GET % status)
            assert (await wire.answer()).status == status


@pytest.mark.parametrize("failure", [b"nothing", b"raises", b"half", b"twice"])
async def test_a_handler_that_fails_is_cut_off_and_logged(failure, caplog):
    """An exception, a missing answer, half an answer or a second one: the connection ends without another byte."""

    async def handler(request, response):
        if failure == b"half":
            response.start(200, HEADERS)
            response.write(b"half")
        elif failure == b"twice":
            response.send(200, HEADERS, b"")
            response.send(200, HEADERS, b"")
        if failure != b"nothing":
            raise ValueError("the handler's own")

    async with staged(handler) as stage:
        wire = await stage.connect()
        wire.send(GET % 1 + GET % 2)
        data = await wire.ended()
        assert data.count(b"HTTP/1.1") == (failure in (b"half", b"twice"))
        assert not data.endswith(b"0\r\n\r\n")
        assert len(caplog.records) == (failure != b"nothing")


async def test_a_request_runs_beside_others():
    """A slow handler on one connection holds nobody on another."""
    gate = asyncio.Event()

    async def handler(request, response):
        if request.url == b"/slow":
            await gate.wait()
        response.send(200, HEADERS, b"")

    async with staged(handler) as stage:
        slow, quick = await stage.connect(), await stage.connect()
        slow.send(b"GET /slow HTTP/1.1\r\n\r\n")
        await stage.until(lambda: any(c.task for c in stage.server.connections))
        quick.send(GET % 1)
        assert (await quick.answer()).status == 200
        gate.set()
        assert (await slow.answer()).status == 200
