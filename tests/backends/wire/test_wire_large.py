"""Large request bodies, and answers that come while they are still being written."""

import asyncio
import socket
import tracemalloc

import pytest
from wire_peer import CEILING, Peer, Server, ask, client_at, deadlines, head, ok

from backends.errors import UpstreamTimeout

LARGE = bytes(range(256)) * 65_536  # 16 MiB


@pytest.mark.parametrize("size", [0, 1, 65_536, 65_537, 262_144, 262_145, len(LARGE)])
async def test_a_body_of_any_size_arrives(size):
    """What the server reads is what the caller wrote, below and above the sizes where the way of writing changes."""

    async def script(peer: Peer) -> None:
        while True:
            await peer.request()
            await peer.send(ok(b"hello"))

    async with Server(script) as server, asyncio.timeout(CEILING):
        client = server.client()
        for _ in range(2):
            assert await ask(client, LARGE[:size]) == (200, b"hello")
        assert server.peers[0].sent == [head(length=size) + LARGE[:size]] * 2
        await client.close()


async def test_a_large_body_is_not_copied():
    """A body that the server does not read yet is held once, by the caller, and not again by us."""
    go = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.reader.readuntil(b"\r\n\r\n")
        await go.wait()

    async with Server(script) as server, asyncio.timeout(CEILING):
        client = server.client()
        tracemalloc.start()
        task = asyncio.create_task(ask(client, LARGE))
        while not server.peers:
            await asyncio.sleep(0)
        await asyncio.sleep(0.05)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < len(LARGE) // 4
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        go.set()
        await client.close()


@pytest.mark.parametrize("size", [1_000, 100_000, len(LARGE)])
@pytest.mark.parametrize("end", ["close", "half-close", "stay"])
async def test_an_early_answer_is_delivered(size, end):
    """A server that refuses before it has read the body, and closes, is heard; its socket is not used again."""
    refusal = b"HTTP/1.1 413 Too Large\r\nconnection: close\r\ncontent-length: 9\r\n\r\ntoo large"

    async def script(peer: Peer) -> None:
        await peer.reader.readuntil(b"\r\n\r\n")
        await peer.send(refusal)
        if end == "stay":
            await go.wait()
        elif end == "half-close":
            peer.writer.write_eof()
            await peer.reader.read(65_536)

    go = asyncio.Event()
    async with Server(script) as server, asyncio.timeout(CEILING):
        client = server.client()
        for number in range(10):
            assert await ask(client, LARGE[:size]) == (413, b"too large"), number
        assert len(server.peers) == 10
        go.set()
        await client.close()


def refusing(listening: socket.socket, bodies: list[int], answer: bytes) -> None:
    """Read a part of each request, answer, and close with the rest unread, which the kernel turns into a reset."""
    for size in bodies:
        connection, _ = listening.accept()
        with connection:
            unread = size
            while unread > 0:
                unread -= len(connection.recv(65_536))
            connection.sendall(answer)


async def test_an_early_answer_outruns_the_reset():
    """An early answer is heard even when our write learns of the reset before our read finds the answer."""
    bodies = [100, 70_000, 1_000_000] * 20
    answer = b"HTTP/1.1 413 Too Large\r\nconnection: close\r\ncontent-length: 9\r\n\r\ntoo large"
    with socket.create_server(("127.0.0.1", 0)) as listening:
        serving = asyncio.create_task(asyncio.to_thread(refusing, listening, bodies, answer))
        client = client_at(listening.getsockname()[1])
        for number in range(len(bodies)):
            assert await ask(client, LARGE[: 1 << 22]) == (413, b"too large"), number
        await serving
        await client.close()


async def test_an_early_answer_with_keep_alive_closes_a_socket_that_is_not_written_out():
    """An answer that is complete before the request was written leaves a socket that cannot be used again."""
    go = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.reader.readuntil(b"\r\n\r\n")
        await peer.send(ok(b"early"))
        await go.wait()
        await peer.left()

    async with Server(script) as server, asyncio.timeout(CEILING):
        client = server.client()
        assert await ask(client, LARGE) == (200, b"early")
        assert not client._idle
        go.set()
        await server.peers[0].gone.wait()
        await client.close()


async def test_an_early_answer_without_framing_is_not_held_up():
    """A server that answers early, without a length, and closes its half is complete, though it reads no more."""
    go = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.reader.readuntil(b"\r\n\r\n")
        peer.writer.write(b"HTTP/1.1 401 Unauthorized\r\n\r\nno")
        peer.writer.write_eof()
        await go.wait()

    async with Server(script) as server, asyncio.timeout(CEILING):
        client = server.client()
        assert await ask(client, LARGE) == (401, b"no")
        go.set()
        await client.close()


async def test_the_first_token_deadline_waits_for_the_request():
    """Each part of a large body that goes out begins the first-token deadline again."""

    async def script(peer: Peer) -> None:
        await peer.reader.readuntil(b"\r\n\r\n")
        read = 0
        while read < len(LARGE):
            read += len(await peer.reader.read(1_048_576))
            await asyncio.sleep(0.005)
        await peer.send(ok(b"hello"))

    async with Server(script) as server, asyncio.timeout(CEILING):
        client = server.client()
        assert await ask(client, LARGE, first_token=2.0) == (200, b"hello")
        await client.close()


async def test_a_server_that_reads_no_more_runs_into_the_first_token_deadline():
    """A large body that is stuck is a first-token timeout, sent."""
    go = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.reader.readuntil(b"\r\n\r\n")
        await go.wait()

    async with Server(script) as server, asyncio.timeout(CEILING):
        client = server.client()
        with pytest.raises(UpstreamTimeout) as caught:
            async with client.request(head(length=len(LARGE)), LARGE, deadlines(first_token=0.1)):
                pytest.fail("no answer came")
        assert (caught.value.phase, caught.value.sent) == ("first_token", True)
        go.set()
        await client.close()
