"""Leaving a request early, on every way out, closes its socket at once; and a slow reader slows the server down."""

import asyncio

import pytest
from wire_peer import CEILING, END, STREAM, Peer, Server, always, ask, chunk, client_at, deadlines, head, ok

from backends.errors import ConnectionBroken


def stopping_after(data: bytes):
    async def script(peer: Peer) -> None:
        await peer.request()
        if data:
            await peer.send(data)
        await peer.left()

    return script


async def stream(client, started: asyncio.Event, *, sent: bytes = b"") -> None:
    async with client.request(head(length=len(sent)), sent, deadlines()) as answer:
        await answer.first()
        started.set()
        await answer.relay(lambda _: None)


@pytest.mark.parametrize(
    "data",
    [b"", b"HTTP/1.1 2", STREAM, STREAM + chunk(b"one"), b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf"],
    ids=["before the head", "in the head", "before the body", "in a stream", "in a body with a length"],
)
async def test_a_cancelled_request_closes_its_socket(data):
    """Wherever a request is cancelled, the server sees the end of the connection, and the socket is not used again."""
    async with Server(stopping_after(data)) as server, asyncio.timeout(CEILING):
        client = server.client()
        started = asyncio.Event()
        task = asyncio.create_task(stream(client, started))
        while not server.peers or not server.peers[0].sent:
            await asyncio.sleep(0)
        for _ in range(20):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await server.peers[0].gone.wait()
        assert not client._idle
        await client.close()


async def test_a_request_cancelled_while_writing_closes_its_socket():
    """A large body that the server does not read is not waited for."""
    go = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.reader.readuntil(b"\r\n\r\n")
        await go.wait()
        await peer.left()

    async with Server(script) as server, asyncio.timeout(CEILING):
        client = server.client()
        task = asyncio.create_task(stream(client, asyncio.Event(), sent=b"x" * 16_000_000))
        while not server.peers:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        go.set()
        await server.peers[0].gone.wait()
        await client.close()


async def test_a_request_cancelled_while_connecting_leaves_no_socket():
    """A TLS handshake that is under way is given up with the request."""
    async with Server(lambda peer: peer.left()) as server, asyncio.timeout(CEILING):
        client = client_at(server.port, scheme="https")
        task = asyncio.create_task(ask(client))
        while not server.peers:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await server.peers[0].gone.wait()
        await client.close()


@pytest.mark.parametrize("yields", range(12))
async def test_a_cancelled_request_never_leaves_a_dirty_socket(yields):
    """Cancelled after any number of turns of the loop, a request leaves a socket that is closed or clean."""

    async def script(peer: Peer) -> None:
        while True:
            request = await peer.request()
            await peer.send(STREAM + chunk(request[-3:]) + chunk(b"more") + END)

    async with Server(script) as server, asyncio.timeout(CEILING):
        client = server.client()
        await ask(client, b"one")
        task = asyncio.create_task(ask(client, b"two"))
        for _ in range(yields):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        for number in range(3):
            body = b"%03d" % number
            assert await ask(client, body) == (200, body + b"more")
        await client.close()


async def test_leaving_without_reading_closes_the_socket():
    """A body that nobody read is not read for the sake of the socket."""
    async with Server(stopping_after(STREAM + chunk(b"one"))) as server, asyncio.timeout(CEILING):
        client = server.client()
        async with client.request(head(), b"", deadlines()) as answer:
            assert answer.status == 200
        await server.peers[0].gone.wait()
        assert not client._idle
        await client.close()


async def test_an_answer_that_was_not_taken_but_arrived_leaves_the_socket():
    """An answer that arrived to its end keeps the socket usable, even when the caller raised."""
    async with Server(always(ok(b"hello"))) as server:
        client = server.client()
        request = client.request(head(), b"", deadlines())
        answer = await request.__aenter__()
        assert await answer.read(100) == b"hello"
        await request.__aexit__(KeyError, KeyError(), None)
        await ask(client)
        assert len(server.peers) == 1
        await client.close()


async def test_a_sink_that_raises_ends_the_request():
    """The sink's own exception comes out of `relay`, and the socket is closed."""

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(STREAM + chunk(b"one"))
        await go.wait()
        await peer.send(chunk(b"two"))
        await peer.left()

    def sink(piece: bytes) -> None:
        raise ZeroDivisionError(piece)

    go = asyncio.Event()
    async with Server(script) as server, asyncio.timeout(CEILING):
        client = server.client()
        async with client.request(head(), b"", deadlines()) as answer:
            assert await answer.first() == b"one"
            go.set()
            with pytest.raises(ZeroDivisionError, match="two"):
                await answer.relay(sink)
        await server.peers[0].gone.wait()
        assert not client._idle
        await client.close()


async def test_a_sink_that_raises_on_the_last_piece_is_heard():
    """The end of the answer in the same read does not hide the sink's exception."""

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(STREAM + chunk(b"one"))
        await go.wait()
        await peer.send(chunk(b"two") + END)
        await peer.left()

    go = asyncio.Event()
    async with Server(script) as server, asyncio.timeout(CEILING):
        client = server.client()
        async with client.request(head(), b"", deadlines()) as answer:
            await answer.first()
            go.set()
            with pytest.raises(ZeroDivisionError):
                await answer.relay(lambda _: 1 / 0)
        assert not client._idle
        await client.close()


async def test_a_sink_that_raises_on_the_held_bytes_ends_the_request():
    """The same holds for the bytes that had come before `relay` was called."""
    async with Server(stopping_after(STREAM + chunk(b"one"))) as server, asyncio.timeout(CEILING):
        client = server.client()
        async with client.request(head(), b"", deadlines()) as answer:
            while not answer._held:
                await asyncio.sleep(0)
            with pytest.raises(ZeroDivisionError):
                await answer.relay(lambda _: 1 / 0)
        await server.peers[0].gone.wait()
        await client.close()


class Flood:
    """A server that writes as fast as it is read, and counts."""

    def __init__(self, size: int = 64_000_000) -> None:
        self.size = size
        self.written = 0
        self.done = asyncio.Event()

    async def __call__(self, peer: Peer) -> None:
        await peer.request()
        await peer.send(STREAM)
        while self.written < self.size:
            await peer.send(chunk(b"x" * 65_536))
            self.written += 65_536
        await peer.send(END)
        self.done.set()
        await peer.left()

    async def stalls(self) -> None:
        """Return once the server has stopped writing."""
        before = -1
        while before != self.written:
            before = self.written
            for _ in range(5):
                await asyncio.sleep(0.01)


async def test_a_paused_answer_stops_the_server():
    """While paused nothing is read: the server's writes stop; resumed, all of it arrives."""
    flood = Flood()
    async with Server(flood) as server, asyncio.timeout(CEILING):
        client = server.client()
        got = 0

        def sink(piece: bytes) -> None:
            nonlocal got
            got += len(piece)
            if not paused.is_set():
                paused.set()
                answer.pause()

        paused = asyncio.Event()
        async with client.request(head(), b"", deadlines()) as answer:
            relay = asyncio.create_task(answer.relay(sink))
            await paused.wait()
            await flood.stalls()
            assert got < 1_000_000
            assert flood.written < flood.size
            answer.resume()
            await relay
            assert answer.complete
            assert got == flood.written
        assert len(client._idle) == 1
        await client.close()


async def test_an_answer_that_nobody_reads_is_not_hoarded():
    """Between the head and the first reader a bounded part of the body is held; then the server has to wait."""
    flood = Flood()
    async with Server(flood) as server, asyncio.timeout(CEILING):
        client = server.client()
        async with client.request(head(), b"", deadlines(between_tokens=CEILING)) as answer:
            await flood.stalls()
            assert answer._size < 1_000_000
            assert flood.written < flood.size
            size = len(await answer.first())
            sizes: list[int] = []
            await answer.relay(lambda piece: sizes.append(len(piece)))
            assert size + sum(sizes) == flood.written
        await client.close()


async def test_a_hoarded_answer_may_be_read_whole():
    """`read` after a wait takes the held part and all that the server still has."""
    flood = Flood(8_000_000)
    async with Server(flood) as server, asyncio.timeout(CEILING):
        client = server.client()
        async with client.request(head(), b"", deadlines()) as answer:
            await flood.stalls()
            assert len(await answer.read(10_000_000)) == flood.written
        await client.close()


async def test_pausing_twice_is_pausing_once():
    """Pause and resume are states, not counts, and do nothing to an answer that is over."""
    async with Server(always(ok(b"hello"))) as server:
        client = server.client()
        async with client.request(head(), b"", deadlines()) as answer:
            answer.resume()
            answer.pause()
            answer.pause()
            answer.resume()
            assert await answer.read(100) == b"hello"
        answer.pause()
        answer.resume()
        assert await ask(client) == (200, b"hello")
        assert len(server.peers) == 1
        await client.close()


async def test_a_socket_paused_at_its_last_piece_is_used_again():
    """An answer paused by its last piece leaves a socket that is read: its end is noticed while idle."""
    go = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(STREAM + chunk(b"one"))
        await go.wait()
        await peer.send(chunk(b"two") + END)
        await peer.request()
        await peer.send(ok(b"hello"))

    async with Server(script) as server, asyncio.timeout(CEILING):
        client = server.client()
        async with client.request(head(), b"", deadlines()) as answer:
            await answer.first()
            go.set()
            await answer.relay(lambda _: answer.pause())
            assert answer.complete
        assert await ask(client) == (200, b"hello")
        assert len(server.peers) == 1
        while client._idle:
            await asyncio.sleep(0)
        await client.close()


async def test_a_connection_that_breaks_while_paused_is_noticed_when_resumed():
    """A paused answer learns of its connection's end when it is read again."""

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(STREAM + chunk(b"one"))

    async with Server(script) as server, asyncio.timeout(CEILING):
        client = server.client()
        async with client.request(head(), b"", deadlines()) as answer:
            await answer.first()
            answer.pause()
            relay = asyncio.create_task(answer.relay(lambda _: None))
            await asyncio.sleep(0)
            answer.resume()
            with pytest.raises(ConnectionBroken):
                await relay
        await client.close()
