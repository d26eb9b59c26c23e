"""How an answer is read: framing, bounds, and what is not an answer."""

import asyncio
import gzip

import pytest
from wire_peer import CEILING, END, STREAM, Peer, Server, always, ask, chunk, deadlines, head, ok, once, pieces_of

from backends.errors import BadResponse, ConnectionBroken


async def test_an_answer_with_a_length_comes_back_whole():
    """Status, headers in lower case and in order, and the body are what the server sent."""
    async with Server(always(ok(b"hello", "X-One: 1", "X-ONE: 2"))) as server:
        client = server.client()
        async with client.request(head(), b"", deadlines()) as answer:
            assert answer.status == 200
            assert answer.headers == [(b"content-length", b"5"), (b"x-one", b"1"), (b"x-one", b"2")]
            assert await answer.read(100) == b"hello"
            assert answer.complete
        await client.close()


async def test_a_sink_given_with_the_request_is_there_before_its_caller_wakes():
    """It is handed the first piece by the read callback, also when that came with the head, and nothing is held for `relay`."""
    async with Server(always(ok(b"hello"))) as server:
        client, got = server.client(), []
        async with client.request(head(), b"", deadlines(), got.append) as answer:
            assert got == [b"hello"]
            await answer.relay(got.append)
        assert got == [b"hello"]
        assert await ask(client) == (200, b"hello")
        await client.close()


async def test_the_request_goes_out_byte_for_byte():
    """Head and body arrive as the caller wrote them."""
    async with Server(always(ok(b""))) as server:
        client = server.client()
        body = bytes(range(256))
        await ask(client, body)
        assert server.peers[0].sent == [head(length=256) + body]
        await client.close()


async def test_a_chunked_answer_is_unframed():
    """The chunks of a body are joined, and its trailers and chunk extensions are dropped."""
    answer = STREAM + b"3;a=b\r\nabc\r\n" + chunk(b"def") + b"0\r\nx-trailer: t\r\n\r\n"
    async with Server(always(answer)) as server:
        client = server.client()
        async with client.request(head(), b"", deadlines()) as got:
            assert await got.read(100) == b"abcdef"
            assert (b"x-trailer", b"t") not in got.headers
        assert await ask(client) == (200, b"abcdef")
        assert len(server.peers) == 1
        await client.close()


@pytest.mark.parametrize("answer", [ok(b"hello"), STREAM + chunk(b"he") + chunk(b"llo") + END])
async def test_an_answer_may_come_byte_by_byte(answer):
    """How the network cuts an answer changes nothing."""

    async def script(peer: Peer) -> None:
        while True:
            await peer.request()
            await peer.bytewise(answer)

    async with Server(script) as server:
        client = server.client()
        assert await ask(client) == (200, b"hello")
        assert b"".join(await pieces_of(client)) == b"hello"
        assert len(server.peers) == 1
        await client.close()


async def test_pieces_come_one_by_one():
    """A piece is handed on before the server sends the next: nothing is buffered to the end."""
    arrived: asyncio.Queue[bytes] = asyncio.Queue()

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(STREAM)
        for word in (b"one", b"two", b"three"):
            await peer.send(chunk(word))
            assert await arrived.get() == word
        await peer.send(END)
        await peer.left()

    async with Server(script) as server, asyncio.timeout(CEILING):
        client = server.client()
        assert await pieces_of(client, seen=arrived.put_nowait) == [b"one", b"two", b"three"]
        await client.close()


async def test_the_head_is_there_before_the_body():
    """Entering the request returns at the head of the answer, however long the body takes."""
    go = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(STREAM)
        await go.wait()
        await peer.send(chunk(b"late") + END)
        await peer.left()

    async with Server(script) as server:
        client = server.client()
        async with client.request(head(), b"", deadlines()) as answer:
            assert answer.status == 200
            assert not answer.complete
            go.set()
            assert await answer.first() == b"late"
        await client.close()


async def test_first_hands_out_all_that_came():
    """`first` returns every body byte that has arrived, and an empty string only for an empty body."""
    async with Server(always(STREAM + chunk(b"one") + chunk(b"two") + END)) as server:
        client = server.client()
        async with client.request(head(), b"", deadlines()) as answer:
            assert await answer.first() == b"onetwo"
            assert await answer.first() == b""
        await client.close()
    async with Server(always(STREAM + END)) as server:
        client = server.client()
        async with client.request(head(), b"", deadlines()) as answer:
            assert await answer.first() == b""
            await answer.relay(pytest.fail)
        await client.close()


@pytest.mark.parametrize(
    "interim",
    [
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n",
        b"HTTP/1.1 102 Processing\r\n\r\n" * 3,
    ],
)
async def test_interim_answers_are_skipped(interim):
    """1xx answers and their headers are not the answer."""
    async with Server(always(interim + ok(b"hello"))) as server:
        client = server.client()
        async with client.request(head(), b"", deadlines()) as answer:
            assert (answer.status, answer.headers) == (200, [(b"content-length", b"5")])
            assert await answer.read(100) == b"hello"
        await ask(client)
        assert len(server.peers) == 1
        await client.close()


@pytest.mark.parametrize("status", [b"204 No Content", b"304 Not Modified\r\ncontent-length: 5"])
async def test_answers_without_a_body_end_at_their_head(status):
    """204 and 304 are complete at once, and the socket lives on."""
    async with Server(always(b"HTTP/1.1 " + status + b"\r\n\r\n")) as server:
        client = server.client()
        for _ in range(2):
            assert await ask(client) == (int(status[:3]), b"")
        assert len(server.peers) == 1
        await client.close()


async def test_head_has_no_body():
    """The answer to HEAD is complete at its head, whatever length it tells."""
    async with Server(once(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n", then="stay")) as server:
        client = server.client()
        async with client.request(head("HEAD"), b"", deadlines()) as answer:
            assert await answer.read(100) == b""
        await server.peers[0].gone.wait()
        await client.close()


@pytest.mark.parametrize("first_line", [b"HTTP/1.1 200 OK", b"HTTP/1.0 200 OK"])
async def test_a_body_without_framing_ends_with_the_connection(first_line):
    """Without a length and chunks, the end of the connection is the end of the body."""
    async with Server(once(first_line + b"\r\nserver: old\r\n\r\nall of it")) as server:
        client = server.client()
        assert await ask(client) == (200, b"all of it")
        assert b"".join(await pieces_of(client)) == b"all of it"
        assert len(server.peers) == 2
        await client.close()


async def test_a_body_without_framing_that_is_reset_is_broken():
    """A reset is not an end, not even where the connection's end is the body's."""
    heard = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(b"HTTP/1.1 200 OK\r\n\r\nsome of it")
        await heard.wait()
        peer.reset()

    async with Server(script) as server:
        client = server.client()
        async with client.request(head(), b"", deadlines()) as answer:
            assert await answer.first() == b"some of it"
            heard.set()
            with pytest.raises(ConnectionBroken) as caught:
                await answer.read(100)
            assert caught.value.sent
        await client.close()


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"", "closed before the head"),
        (b"HTTP/1.1 200 OK\r\ncontent-le", "half a head"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf", "inside a body with a length"),
        (STREAM + b"10\r\nhalf", "inside a chunk"),
        (STREAM + chunk(b"whole"), "between chunks"),
        (STREAM + chunk(b"whole") + b"0\r\n", "before the last empty line"),
        (b"HTTP/1.1 100 Continue\r\n\r\n", "after an interim answer"),
    ],
)
@pytest.mark.parametrize("end", ["close", "reset"])
async def test_a_cut_answer_is_broken(answer, reason, end):
    """A connection that ends before the answer does is ConnectionBroken, sent, wherever it ends."""
    async with Server(once(answer, then=end)) as server:
        client = server.client()
        with pytest.raises(ConnectionBroken) as caught:
            await ask(client)
        assert caught.value.sent, reason
        assert len(server.peers) == 1
        await client.close()


async def test_what_came_before_the_cut_is_handed_out_first():
    """The pieces that arrived before a connection broke reach the reader before the error does."""
    async with Server(once(STREAM + chunk(b"one") + b"ff\r\ntwo")) as server:
        client = server.client()
        got: list[bytes] = []
        async with client.request(head(), b"", deadlines()) as answer:
            got.append(await answer.first())
            with pytest.raises(ConnectionBroken):
                await answer.relay(got.append)
            assert not answer.complete
        assert b"".join(got) == b"onetwo"
        await client.close()


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"<html>\r\n\r\n",
        b"HTTP/1.1 2x0 OK\r\n\r\n",
        b"HTTP/1.1 099 Low\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 700 High\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nbad header\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\nhi",
        b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999999\r\n\r\nhi",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
        STREAM + b"zz\r\nhi\r\n",
        STREAM + b"ffffffffffffffffffff\r\nhi\r\n",
        STREAM + b"2\r\nhiX\r\n",
        STREAM + b"-2\r\nhi\r\n",
    ],
)
async def test_what_is_not_http_is_refused(answer):
    """An answer that breaks the grammar is a BadResponse and closes the socket."""
    async with Server(once(answer, then="stay")) as server:
        client = server.client()
        with pytest.raises(BadResponse) as caught:
            await ask(client)
        assert caught.value.sent
        await server.peers[0].gone.wait()
        await client.close()


def endless(part: bytes):
    async def script(peer: Peer) -> None:
        await peer.request()
        for _ in range(100_000):
            await peer.send(part)

    return script


@pytest.mark.parametrize(
    "script",
    [
        once(b"HTTP/1.1 200 OK\r\nx: " + b"a" * 1_000_000 + b"\r\ncontent-length: 2\r\n\r\nhi", then="stay"),
        once(b"HTTP/1.1 200 OK\r\n" + b"x: aaaa\r\n" * 100_000 + b"content-length: 2\r\n\r\nhi", then="stay"),
        once(b"HTTP/1.1 200 OK\r\nx: " + b"a" * 70_000 + b"\r\ncontent-length: 2\r\n\r\nhi", then="stay"),
        endless(b"HTTP/1.1 100 Continue\r\n\r\n" * 1_000),
        once(STREAM + b"2;" + b"a" * 1_000_000, then="stay"),
        once(STREAM + chunk(b"hi") + b"0\r\nx: " + b"a" * 1_000_000, then="stay"),
    ],
    ids=["a long header", "many headers", "just too long", "interim answers for ever", "a chunk extension", "a trailer"],
)
async def test_what_surrounds_the_body_is_bounded(script):
    """64 KiB of head, interim answers, chunk extension or trailer are refused, not stored."""
    async with Server(script) as server:
        client = server.client()
        with pytest.raises(BadResponse):
            await ask(client)
        await client.close()


async def test_a_head_just_under_the_bound_passes():
    """A large head that is allowed is read, also when the body comes in the same read."""
    answer = ok(b"b" * 10_000, "x: " + "a" * 60_000)
    async with Server(always(answer)) as server:
        client = server.client()
        assert await ask(client) == (200, b"b" * 10_000)
        await client.close()


@pytest.mark.parametrize("answer", [ok(b"x" * 1_001), STREAM + chunk(b"x" * 600) + chunk(b"x" * 401) + END])
async def test_a_body_over_the_limit_is_refused(answer):
    """`read` raises BadResponse past its limit, and not at it."""
    async with Server(always(answer)) as server:
        client = server.client()
        with pytest.raises(BadResponse):
            await ask(client, limit=1_000)
        assert await ask(client, limit=1_001) == (200, b"x" * 1_001)
        await client.close()


async def test_an_endless_body_over_the_limit_is_cut_off():
    """A body that never ends costs no more than the limit."""
    async with Server(_flood) as server:
        client = server.client()
        with pytest.raises(BadResponse):
            await ask(client, limit=1_000_000)
        await client.close()


async def _flood(peer: Peer) -> None:
    await peer.request()
    await peer.send(STREAM)
    while True:
        await peer.send(chunk(b"x" * 65_536))


async def test_encoded_bytes_are_not_touched():
    """A content-encoding is the client's affair: the bytes pass."""
    packed = gzip.compress(b"hello" * 100)
    async with Server(always(ok(packed, "content-encoding: gzip"))) as server:
        client = server.client()
        assert await ask(client) == (200, packed)
        await client.close()


async def test_errors_tell_no_addresses():
    """No error text holds the address of the replica or bytes of its answer."""
    async with Server(once(b"secret-banner\r\n")) as server:
        client = server.client()
        with pytest.raises(BadResponse) as caught:
            await ask(client)
        assert "secret" not in str(caught.value)
        assert "127.0.0.1" not in str(caught.value)
        await client.close()
