"""What a request's head may be, and what becomes of one that is none."""

import asyncio

import pytest
from raw_client import HEADERS, echo, staged

MALFORMED = {
    "not HTTP": b"hello there\r\n\r\n",
    "empty method": b" / HTTP/1.1\r\n\r\n",
    "lower-case method": b"get / HTTP/1.1\r\n\r\n",
    "space in the URL": b"GET /a b HTTP/1.1\r\n\r\n",
    "NUL in the URL": b"GET /a\x00b HTTP/1.1\r\n\r\n",
    "bytes over 127 in the URL": "GET /é HTTP/1.1\r\n\r\n".encode(),
    "HTTP/0.9": b"GET /\r\n\r\n",
    "HTTP/1.2": b"GET / HTTP/1.2\r\n\r\n",
    "HTTP/2.0 by name": b"GET / HTTP/2.0\r\n\r\n",
    "preface of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x12\x04\x00\x00\x00\x00\x00",
    "hello of TLS": bytes.fromhex("16030100c8010000c40303") + bytes(190),
    "space in a header's name": b"GET / HTTP/1.1\r\nfoo bar: 1\r\n\r\n",
    "space before the colon": b"POST / HTTP/1.1\r\ncontent-length : 3\r\n\r\nabc",
    "no colon": b"GET / HTTP/1.1\r\nfoo\r\n\r\n",
    "folded header": b"GET / HTTP/1.1\r\na: b\r\n c\r\n\r\n",
    "folded first header": b"GET / HTTP/1.1\r\n a: b\r\n\r\n",
    "NUL in a value": b"GET / HTTP/1.1\r\na: b\x00c\r\n\r\n",
    "NUL in a name": b"GET / HTTP/1.1\r\na\x00: c\r\n\r\n",
    "CR in a value": b"GET / HTTP/1.1\r\na: b\rc: d\r\n\r\n",
    "bare LF": b"GET / HTTP/1.1\na: b\n\n",
    "two lengths": b"POST / HTTP/1.1\r\ncontent-length: 3\r\ncontent-length: 4\r\n\r\nabc",
    "the same length twice": b"POST / HTTP/1.1\r\ncontent-length: 3\r\ncontent-length: 3\r\n\r\nabc",
    "a list of lengths": b"POST / HTTP/1.1\r\ncontent-length: 3, 3\r\n\r\nabc",
    "negative length": b"POST / HTTP/1.1\r\ncontent-length: -3\r\n\r\nabc",
    "signed length": b"POST / HTTP/1.1\r\ncontent-length: +3\r\n\r\nabc",
    "hexadecimal length": b"POST / HTTP/1.1\r\ncontent-length: 0x3\r\n\r\nabc",
    "length over 64 bits": b"POST / HTTP/1.1\r\ncontent-length: 99999999999999999999\r\n\r\nabc",
    "empty length": b"POST / HTTP/1.1\r\ncontent-length:\r\n\r\nabc",
    "length and chunks": b"POST / HTTP/1.1\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks and length": b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\ncontent-length: 3\r\n\r\n0\r\n\r\n",
    "unknown transfer coding": b"POST / HTTP/1.1\r\ntransfer-encoding: gzip\r\n\r\nabc",
    "chunked, but not last": b"POST / HTTP/1.1\r\ntransfer-encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
    "chunked twice": b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks in HTTP/1.0": b"POST / HTTP/1.0\r\ntransfer-encoding: chunked\r\nconnection: keep-alive\r\n\r\n0\r\n\r\n",
}


@pytest.mark.parametrize("data", MALFORMED.values(), ids=MALFORMED)
@pytest.mark.parametrize("pieces", [False, True], ids=["at once", "byte by byte"])
async def test_what_is_no_http_is_a_400_and_the_end(data, pieces):
    """Each malformed head gets one error of the usual shape with a request id, and the connection ends."""
    async with staged(echo) as stage:
        wire = await stage.connect()
        for piece in [data[i : i + 1] for i in range(len(data))] if pieces else [data]:
            await wire.deliver(piece)
            await asyncio.sleep(0)
        answer = await wire.answer()
        assert answer.status == 400
        assert answer.error["type"] == "invalid_request_error"
        assert answer.error["code"] == "bad_http"
        assert answer.headers["x-request-id"] == "wire-1"
        assert answer.headers["connection"] == "close"
        assert await wire.ended() == b""
        assert len(stage.errors) == 1


async def test_connect_is_refused():
    """A client that takes this for a proxy is told that it is none."""
    async with staged(echo) as stage:
        wire = await stage.connect()
        wire.send(b"CONNECT example.org:443 HTTP/1.1\r\nhost: example.org\r\n\r\n")
        answer = await wire.answer()
        assert (answer.status, answer.error["code"]) == (405, "method_not_allowed")
        assert await wire.ended() == b""


HEADS = {
    "one header that does not end": b"GET / HTTP/1.1\r\na: " + b"x" * 70_000,
    "one name that does not end": b"GET / HTTP/1.1\r\n" + b"x" * 70_000,
    "many small headers": b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 12_000,
    "complete, and too large": b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 12_000 + b"\r\n",
}


@pytest.mark.parametrize("data", HEADS.values(), ids=HEADS)
@pytest.mark.parametrize("size", [1 << 20, 1024, 7])
async def test_a_head_over_its_bound_is_a_431(data, size):
    """In one piece, in packets or in crumbs: the answer comes once, and what follows is dropped without another."""
    async with staged(echo) as stage:
        wire = await stage.connect()
        for at in range(0, len(data), size):
            wire.send(data[at : at + size])
            if at % 4096 < size:
                await wire.writer.drain()
                await asyncio.sleep(0)
        answer = await wire.answer()
        assert (answer.status, answer.error["code"]) == (431, "header_too_large")
        for _ in range(20):
            await wire.deliver(b"z" * 5000)
        assert await wire.ended() == b""
        assert len(stage.errors) == 1


async def test_a_large_body_does_not_make_the_head_large():
    """The bound is the head's alone, though the body came in the same read; and a head just below it passes."""
    async with staged(echo) as stage:
        body = b"y" * 300_000
        answer = await stage.ask(b"POST / HTTP/1.1\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
        assert answer.body == b"POST / " + body
        head = b"GET / HTTP/1.1\r\na: " + b"x" * 65_000 + b"\r\n\r\n"
        assert (await stage.ask(head)).status == 200


@pytest.mark.parametrize("size", [1 << 20, 100])
async def test_a_url_over_its_bound_is_a_414(size):
    """8 KiB are the bound, whether the URL comes at once or in pieces."""
    async with staged(echo) as stage:
        for length, status in ((8192, 200), (8193, 414), (60_000, 414)):
            wire = await stage.connect()
            data = b"GET /%b HTTP/1.1\r\n\r\n" % (b"u" * (length - 1))
            for at in range(0, len(data), size):
                await wire.deliver(data[at : at + size])
            answer = await wire.answer()
            assert answer.status == status
            assert status == 200 or answer.error["code"] == "url_too_long"


async def test_a_head_that_does_not_end_in_time_is_a_408():
    """The clock starts with the first byte, more bytes do not set it back, and a silent connection is closed without a word."""
    async with staged(echo, header_timeout=5.0, keep_alive=60.0) as stage:
        silent, slow = await stage.connect(), await stage.connect()
        await slow.deliver(b"GET / HTTP/1.1\r\n")
        await stage.until(lambda: any(c._in_head for c in stage.server.connections))
        stage.later(4)
        await slow.deliver(b"a: b\r\n")
        await asyncio.sleep(0.02)
        stage.later(5.5)
        answer = await slow.answer()
        assert (answer.status, answer.error["code"]) == (408, "header_timeout")
        assert await slow.ended() == b""
        assert await silent.ended() == b""
        assert len(stage.errors) == 1


async def test_the_real_clock_sweeps_too():
    """Without any help from the test, a slow head and an idle connection end in a moment."""
    async with staged(echo, header_timeout=0.1, keep_alive=0.1) as stage:
        slow, idle = await stage.connect(), await stage.connect()
        slow.send(b"GET / HT")
        idle.send(b"GET / HTTP/1.1\r\n\r\n")
        assert (await idle.answer()).status == 200
        assert (await slow.answer()).status == 408
        assert await slow.ended() == await idle.ended() == b""


async def test_empty_lines_between_requests_are_no_requests():
    """Line ends before a request are skipped, and neither end a running request nor keep an idle connection for ever."""
    release = asyncio.Event()

    async def slow(request, response):
        await request.body()
        await release.wait()
        response.send(200, HEADERS, b"done")

    async with staged(slow, header_timeout=5.0, keep_alive=5.0) as stage:
        wire = await stage.connect()
        wire.send(b"\r\n\r\nPOST / HTTP/1.1\r\ncontent-length: 1\r\n\r\nx\r\n")
        await stage.until(lambda: any(c.task for c in stage.server.connections))
        await wire.deliver(b"\r\n")
        await asyncio.sleep(0.02)
        stage.later(3600)
        release.set()
        assert (await wire.answer()).body == b"done"
        await wire.deliver(b"\r\n")
        await asyncio.sleep(0.02)
        stage.later(6)
        assert await wire.ended() == b""


async def test_headers_arrive_as_documented():
    """Names in lower case, values without white space around them, order and repetitions kept, bytes over 127 as they are."""

    async def headers(request, response):
        response.send(200, HEADERS, repr(request.headers).encode())

    async with staged(headers) as stage:
        answer = await stage.ask(b"GET / HTTP/1.1\r\nFoo: \t a b \t\r\nBAR:\r\nfoo: \xff\r\n\r\n")
        assert answer.body == repr([(b"foo", b"a b"), (b"bar", b""), (b"foo", b"\xff")]).encode()


async def test_trailers_are_not_headers():
    """What follows the last chunk cannot pass for a header, and is bounded like the head."""

    async def headers(request, response):
        await request.body()
        response.send(200, HEADERS, repr(request.headers).encode())

    head = b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n"
    async with staged(headers) as stage:
        answer = await stage.ask(head + b"authorization: Bearer other\r\n\r\n")
        assert answer.body == b"[(b'transfer-encoding', b'chunked')]"
        wire = await stage.connect()
        wire.send(head)
        for _ in range(30):
            await wire.deliver(b"a: " + b"b" * 4096 + b"\r\n")
        answer = await wire.answer()
        assert (answer.status, answer.error["code"]) == (431, "header_too_large")
