"""How a body arrives: whole, in pieces, in chunks, asked for, too slow, too large, broken."""

import asyncio
from contextlib import suppress

import pytest
from raw_client import HEADERS, echo, staged

CHUNKED = b"POST /x HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n"


def post(body: bytes, more: bytes = b"", version: bytes = b"1.1") -> bytes:
    return b"POST /x HTTP/%b\r\ncontent-length: %d\r\n%b\r\n%b" % (version, len(body), more, body)


@pytest.mark.parametrize("size", [1, 3, 1000])
async def test_a_body_in_pieces_is_put_together(size):
    """However the network cuts a request, its handler sees the same one."""
    async with staged(echo) as stage:
        wire = await stage.connect()
        data = post(bytes(range(256)) * 2)
        for at in range(0, len(data), size):
            await wire.deliver(data[at : at + size])
            await asyncio.sleep(0)
        assert (await wire.answer()).body == b"POST /x " + bytes(range(256)) * 2


async def test_a_handler_may_ask_for_the_body_twice():
    """The second time it is the same object."""

    async def twice(request, response):
        same = await request.body() is await request.body()
        response.send(200, HEADERS, b"%d" % same)

    async with staged(twice) as stage:
        assert (await stage.ask(post(b"abc"))).body == b"1"
        assert (await stage.ask(CHUNKED + b"1\r\na\r\n1\r\nb\r\n0\r\n\r\n")).body == b"1"


async def test_chunked_bodies_are_joined():
    """Chunks, sizes in either case, extensions and trailers: the body is what the chunks hold, and the connection goes on."""
    async with staged(echo) as stage:
        wire = await stage.connect()
        data = CHUNKED + b"3\r\nabc\r\n0A;ext=1\r\n0123456789\r\n0\r\nt: 1\r\n\r\n"
        wire.send(data)
        assert (await wire.answer()).body == b"POST /x abc0123456789"
        for i in range(len(data)):
            await wire.deliver(data[i : i + 1])
        assert (await wire.answer()).body == b"POST /x abc0123456789"


@pytest.mark.parametrize(
    "chunks",
    [
        b"zz\r\n",
        b"-1\r\nabc\r\n",
        b"3 \r\nabc\r\n0\r\n\r\n",
        b"fffffffffffffffff\r\nabc",
        b"3\r\nabcX\r\n0\r\n\r\n",
        b"3\nabc\n0\n\n",
    ],
)
async def test_bad_chunks_are_a_400(chunks):
    """A chunk of no size or a wrong one is told to the handler that waits for it; the connection ends with the answer."""
    async with staged(echo) as stage:
        for pause in (False, True):
            wire = await stage.connect()
            await wire.deliver(CHUNKED)
            if pause:
                await stage.until(lambda: any(c.task for c in stage.server.connections))
            wire.send(chunks)
            answer = await wire.answer()
            assert (answer.status, answer.error["code"]) == (400, "bad_http")
            assert answer.headers["connection"] == "close"
            assert await wire.ended() == b""


async def test_a_client_that_waits_to_be_asked_is_asked():
    """`Expect: 100-continue` gets its 100 once the handler wants the body, and only where one is awaited."""
    async with staged(echo) as stage:
        wire = await stage.connect()
        wire.send(b"POST /x HTTP/1.1\r\nexpect: 100-Continue\r\ncontent-length: 3\r\n\r\n")
        assert await wire.head() == (100, {})
        wire.send(b"abc")
        assert (await wire.answer()).body == b"POST /x abc"
        wire.send(post(b"abc", b"expect: 100-continue\r\n"))
        assert (await wire.answer()).status == 200
        wire.send(b"POST /x HTTP/1.0\r\nexpect: 100-continue\r\ncontent-length: 3\r\n\r\n")
        wire.send(b"abc")
        assert (await wire.answer()).status == 200


async def test_a_client_that_asks_first_is_told_at_once_that_it_is_too_much():
    """With `Expect` and a length over the bound the answer is 413 alone: no 100 invites what would be thrown away."""
    async with staged(echo, max_body=1000) as stage:
        wire = await stage.connect()
        wire.send(b"POST /x HTTP/1.1\r\nexpect: 100-continue\r\ncontent-length: 1001\r\n\r\n")
        answer = await wire.answer()
        assert (answer.status, answer.error["code"]) == (413, "body_too_large")


@pytest.mark.parametrize("length", [1001, 2**40, 2**64 - 1])
async def test_an_announced_body_over_the_bound_is_a_413_before_it_comes(length):
    """The answer does not wait for a body that will not be taken."""
    async with staged(echo, max_body=1000) as stage:
        answer = await stage.ask(b"POST /x HTTP/1.1\r\ncontent-length: %d\r\n\r\n" % length)
        assert (answer.status, answer.error["code"]) == (413, "body_too_large")
        assert answer.headers["connection"] == "close"


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_client_that_writes_everything_first_still_reads_the_413(chunked):
    """Many clients read only when they have written all: eight mebibytes are taken and dropped, and the answer is there."""
    body = b"x" * (8 * 1024 * 1024)
    data = CHUNKED + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body) if chunked else post(body)
    async with staged(echo, max_body=1000) as stage:
        wire = await stage.connect()
        await wire.deliver(data)
        wire.writer.write_eof()
        answer = await wire.answer()
        assert (answer.status, answer.error["code"]) == (413, "body_too_large")
        assert await wire.ended() == b""


async def test_a_chunked_body_is_refused_when_it_passes_the_bound():
    """Without an announced length the 413 comes with the byte that is too much; at the bound all is well."""
    async with staged(echo, max_body=1000) as stage:
        whole = await stage.ask(CHUNKED + b"3e8\r\n" + b"x" * 1000 + b"\r\n0\r\n\r\n")
        assert whole.status == 200
        wire = await stage.connect()
        await wire.deliver(CHUNKED + b"3e8\r\n" + b"x" * 1000 + b"\r\n")
        await stage.until(lambda: any(c._receiving and c._receiving.received == 1000 for c in stage.server.connections))
        await wire.deliver(b"1\r\nx\r\n")
        assert (await wire.answer()).status == 413


async def test_what_is_drained_is_bounded_in_time():
    """A client that never stops sending, or never closes, is cut off after two seconds."""
    async with staged(echo, max_body=1000) as stage:
        sending, waiting = await stage.connect(), await stage.connect()
        for wire in (sending, waiting):
            wire.send(b"POST /x HTTP/1.1\r\ncontent-length: 9999999999\r\n\r\n")
            assert (await wire.answer()).status == 413
        await sending.deliver(b"x" * 10_000)
        stage.later(1.5)
        await asyncio.sleep(0.02)
        assert len(stage.server.connections) == 2
        stage.later(2.5)
        await stage.until(lambda: not stage.server.connections)


async def test_what_is_drained_is_bounded_in_bytes(monkeypatch):
    """Past 64 MiB of a refused body the connection is cut."""
    monkeypatch.setattr("gateway.connection._DRAIN_BYTES", 1_000_000)
    async with staged(echo, max_body=1000) as stage:
        wire = await stage.connect()
        wire.send(b"POST /x HTTP/1.1\r\ncontent-length: 9999999999\r\n\r\n")
        assert (await wire.answer()).status == 413
        with suppress(ConnectionError):
            while stage.server.connections:
                await wire.deliver(b"x" * 100_000)
        await stage.until(lambda: not stage.server.connections)


async def test_a_body_that_does_not_come_in_time_is_a_408():
    """The clock runs from the head to the end of the body, whatever drips in meanwhile."""
    async with staged(echo, body_timeout=5.0) as stage:
        wire = await stage.connect()
        await wire.deliver(post(b"x" * 100)[:-90])
        await stage.until(lambda: any(c.task for c in stage.server.connections))
        await asyncio.sleep(0.01)
        stage.later(4)
        await wire.deliver(b"x")
        await asyncio.sleep(0.02)
        stage.later(5.5)
        answer = await wire.answer()
        assert (answer.status, answer.error["code"]) == (408, "body_timeout")
        assert await wire.ended() == b""


async def test_an_answer_without_the_body_ends_the_connection():
    """A handler that refuses before it reads the body: the client gets the answer, and the rest of its body is no request."""

    async def refuse(request, response):
        response.send(401, HEADERS, b"no")

    body = b"GET /smuggled HTTP/1.1\r\n\r\n"
    async with staged(refuse) as stage:
        wire = await stage.connect()
        await wire.deliver(post(body)[: -len(body)])
        answer = await wire.answer()
        assert (answer.status, answer.headers["connection"]) == (401, "close")
        await wire.deliver(body)
        assert await wire.ended() == b""


UPGRADE = b"connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABkAARAAAAAAAIAAAAA\r\n"


@pytest.mark.parametrize("size", [1 << 20, 1])
async def test_an_offer_to_upgrade_is_ignored(size):
    """Java's HTTP client offers h2c on its first request: that is served as plain HTTP/1.1, body and next request too."""
    async with staged(echo) as stage:
        wire = await stage.connect()
        data = post(b"abc", UPGRADE) + post(b"defg", UPGRADE) + post(b"h")
        for at in range(0, len(data), size):
            await wire.deliver(data[at : at + size])
        for body in (b"abc", b"defg", b"h"):
            answer = await wire.answer()
            assert answer.body == b"POST /x " + body
            assert "connection" not in answer.headers
        wire.send(b"POST /y HTTP/1.1\r\ntransfer-encoding: chunked\r\n" + UPGRADE + b"\r\n2\r\nab\r\n0\r\n\r\n")
        assert (await wire.answer()).body == b"POST /y ab"
        wire.send(b"GET /z HTTP/1.1\r\nconnection: upgrade, close\r\nupgrade: websocket\r\n\r\n")
        answer = await wire.answer()
        assert (answer.body, answer.headers["connection"]) == (b"GET /z ", "close")


async def test_an_offer_to_upgrade_keeps_every_bound():
    """Malformed, too large and too slow requests are told the same with an `Upgrade` in their head."""
    async with staged(echo, max_body=1000, body_timeout=5.0) as stage:
        assert (await stage.ask(post(b"x" * 2000, UPGRADE))).status == 413
        assert (await stage.ask(b"POST /x HTTP/1.1\r\ntransfer-encoding: chunked\r\n" + UPGRADE + b"\r\nzz\r\n")).status == 400
        assert (await stage.ask(b"GET / HTTP/1.1\r\n" + UPGRADE + b"a: " + b"x" * 70_000 + b"\r\n\r\n")).status == 431
        wire = await stage.connect()
        await wire.deliver(post(b"abc", UPGRADE)[:-1])
        await stage.until(lambda: any(c.task for c in stage.server.connections))
        await asyncio.sleep(0.01)
        stage.later(6)
        assert (await wire.answer()).status == 408
