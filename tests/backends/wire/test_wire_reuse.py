"""Which sockets are used again, which are not, and what happens when an idle one is stale."""

import asyncio
import socket

import pytest
from wire_peer import CEILING, END, STREAM, Peer, Server, always, ask, chunk, client_at, deadlines, head, ok, once

from backends.client import AT_ONCE
from backends.errors import ConnectFailed, ConnectionBroken


async def test_a_socket_is_used_again():
    """Requests one after another go over one socket."""
    async with Server(always(ok(b"hello"))) as server:
        client = server.client()
        for _ in range(5):
            assert await ask(client) == (200, b"hello")
        assert [len(peer.sent) for peer in server.peers] == [5]
        await client.close()


async def test_requests_at_once_have_sockets_of_their_own():
    """A socket carries one request at a time."""
    all_here = asyncio.Barrier(3)

    async def script(peer: Peer) -> None:
        while True:
            await peer.request()
            await all_here.wait()
            await peer.send(ok(b"hello"))

    async with Server(script) as server, asyncio.timeout(CEILING):
        client = server.client()
        for _ in range(2):
            await asyncio.gather(*(ask(client) for _ in range(3)))
        assert [len(peer.sent) for peer in server.peers] == [2, 2, 2]
        await client.close()


async def test_the_socket_used_last_is_used_first():
    """The warmest socket is taken, so that the others can grow old."""
    release = asyncio.Event()

    async def script(peer: Peer) -> None:
        while True:
            request = await peer.request()
            if request.endswith(b"slow"):
                await release.wait()
            await peer.send(ok(b"hello"))

    async with Server(script) as server:
        client = server.client()
        slow = asyncio.create_task(ask(client, b"slow"))
        while not server.peers or not server.peers[0].sent:
            await asyncio.sleep(0)
        await ask(client)
        release.set()
        await slow
        for _ in range(3):
            await ask(client)
        assert [len(peer.sent) for peer in server.peers] == [4, 1]
        await client.close()


@pytest.mark.parametrize(
    "answer",
    [
        ok(b"hello", "connection: close"),
        ok(b"hello") + b"HTTP/1.1 500 Smuggled\r\ncontent-length: 0\r\n\r\n",
        ok(b"hello") + b"X",
        STREAM + chunk(b"hello") + END + b"garbage",
        b"HTTP/1.0 200 OK\r\ncontent-length: 5\r\n\r\nhello",
        ok(b"hello", "connection: close") + b"more",
    ],
    ids=["connection: close", "a second answer", "one byte", "after the chunks", "HTTP/1.0", "close and more"],
)
async def test_a_doubtful_socket_is_not_used_again(answer):
    """The answer is good, but a socket that the peer closes or that said too much is closed."""
    async with Server(once(answer, then="stay")) as server:
        client = server.client()
        for _ in range(2):
            assert await ask(client) == (200, b"hello")
        assert [len(peer.sent) for peer in server.peers] == [1, 1]
        await asyncio.gather(*(peer.gone.wait() for peer in server.peers))
        await client.close()


async def test_http_1_0_with_keep_alive_is_used_again():
    """An old server that says keep-alive is believed."""
    async with Server(always(b"HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 2\r\n\r\nhi")) as server:
        client = server.client()
        for _ in range(2):
            await ask(client)
        assert len(server.peers) == 1
        await client.close()


@pytest.mark.parametrize("last", [b"", b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n\r\n", b"x"])
async def test_an_idle_socket_that_speaks_or_ends_is_dropped_at_once(last):
    """Bytes or EOF on an idle socket close it without waiting for its next use."""

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(ok(b"hello"))
        await go.wait()
        if last:
            await peer.send(last)
            await peer.left()

    go = asyncio.Event()
    async with Server(script) as server, asyncio.timeout(CEILING):
        client = server.client()
        await ask(client)
        assert len(client._idle) == 1
        go.set()
        while client._idle:
            await asyncio.sleep(0)
        if last:
            await server.peers[0].gone.wait()
        assert await ask(client) == (200, b"hello")
        assert len(server.peers) == 2
        await client.close()


@pytest.mark.parametrize("end", ["close", "reset"])
async def test_a_stale_socket_is_replaced_once(end):
    """The server closes an idle socket just as it is used again: the request is sent once more, on a fresh socket."""

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(ok(b"hello"))
        await peer.request()
        if peer is server.peers[0]:
            if end == "reset":
                peer.reset()
            return
        await peer.send(ok(b"hello"))

    async with Server(script) as server:
        client = server.client()
        await ask(client, b"one")
        assert await ask(client, b"two") == (200, b"hello")
        assert [[request[-3:] for request in peer.sent] for peer in server.peers] == [[b"one", b"two"], [b"two"]]
        await client.close()


async def test_the_second_socket_gets_no_second_chance():
    """When the fresh socket dies as well, the request is broken: it is never sent a third time."""

    async def script(peer: Peer) -> None:
        await peer.request()
        if peer is server.peers[0]:
            await peer.send(ok(b"hello"))
            await peer.request()

    async with Server(script) as server:
        client = server.client()
        await ask(client)
        with pytest.raises(ConnectionBroken) as caught:
            await ask(client)
        assert caught.value.sent
        assert [len(peer.sent) for peer in server.peers] == [2, 1]
        await client.close()


@pytest.mark.parametrize("end", ["close", "reset"])
async def test_a_socket_that_dies_later_was_not_stale(end):
    """A server that had the request for a while may have begun: it is not sent again, however idle the socket had been."""

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(ok(b"hello"))
        await peer.request()
        await asyncio.sleep(3 * AT_ONCE)
        if end == "reset":
            peer.reset()

    async with Server(script) as server:
        client = server.client()
        await ask(client)
        with pytest.raises(ConnectionBroken) as caught:
            await ask(client)
        assert caught.value.sent
        assert [len(peer.sent) for peer in server.peers] == [2]
        await client.close()


async def test_what_is_to_go_out_once_goes_over_a_new_socket():
    """A request that was sent before takes no idle socket, which might be stale, and leaves the idle one where it is."""
    async with Server(always(ok(b"hello"))) as server:
        client = server.client()
        await ask(client)
        async with client.request(head(), b"", deadlines(), new=True) as answer:
            assert answer.status == 200
            await answer.read(100)
        assert [len(peer.sent) for peer in server.peers] == [1, 1]
        assert len(client._idle) == 2
        await client.close()


async def test_a_fresh_socket_that_dies_is_not_replaced():
    """Only an idle socket can be stale."""
    async with Server(once(b"")) as server:
        client = server.client()
        with pytest.raises(ConnectionBroken):
            await ask(client)
        assert len(server.peers) == 1
        await client.close()


@pytest.mark.parametrize("heard", [b"H", b"HTTP/1.1 100 Continue\r\n\r\n"])
async def test_a_socket_that_answered_is_not_stale(heard):
    """After one byte of an answer nothing is sent again."""

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(ok(b"hello"))
        await peer.request()
        await peer.send(heard)

    async with Server(script) as server:
        client = server.client()
        await ask(client)
        with pytest.raises(ConnectionBroken):
            await ask(client)
        assert len(server.peers) == 1
        await client.close()


async def test_idle_sockets_are_closed_in_time():
    """A socket idle for longer than `idle_seconds` is closed, without anybody asking for it."""
    async with Server(once(ok(b"hello"), then="stay")) as server, asyncio.timeout(CEILING):
        client = server.client(idle_seconds=0.02)
        await ask(client)
        await server.peers[0].gone.wait()
        assert not client._idle
        await client.close()


async def test_an_old_socket_is_not_taken():
    """A socket past its age is not used, even when the timer has not looked yet."""
    async with Server(always(ok(b"hello"))) as server:
        client = server.client(idle_seconds=0.0)
        await ask(client)
        await ask(client)
        assert [len(peer.sent) for peer in server.peers] == [1, 1]
        await client.close()


async def test_the_idle_sockets_are_bounded():
    """Beyond `max_idle` a socket is closed after its request."""
    all_here = asyncio.Barrier(3)

    async def script(peer: Peer) -> None:
        await peer.request()
        await all_here.wait()
        await peer.send(ok(b"hello"))
        await peer.left()

    async with Server(script) as server, asyncio.timeout(CEILING):
        client = server.client(max_idle=1)
        await asyncio.gather(*(ask(client) for _ in range(3)))
        assert len(client._idle) == 1
        while sum(peer.gone.is_set() for peer in server.peers) < 2:
            await asyncio.sleep(0)
        await client.close()


async def test_closing_closes_what_is_idle():
    """`close` ends the idle sockets at once; a request in flight goes on and its socket is closed after it."""
    go = asyncio.Event()

    async def script(peer: Peer) -> None:
        request = await peer.request()
        if request.endswith(b"slow"):
            await go.wait()
        await peer.send(ok(b"hello"))
        await peer.left()

    async with Server(script) as server, asyncio.timeout(CEILING):
        client = server.client()
        slow = asyncio.create_task(ask(client, b"slow"))
        while not server.peers or not server.peers[0].sent:
            await asyncio.sleep(0)
        await ask(client)
        await client.close()
        await server.peers[1].gone.wait()
        go.set()
        assert await slow == (200, b"hello")
        await server.peers[0].gone.wait()
        with pytest.raises(ConnectFailed):
            await ask(client)


async def test_nothing_listens():
    """A refused connection is ConnectFailed, not sent, without an address in its text."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        client = client_at(taken.getsockname()[1])
        with pytest.raises(ConnectFailed) as caught:
            await ask(client)
        assert not caught.value.sent
        assert "127.0.0.1" not in str(caught.value)
        await client.close()


async def test_an_unknown_name():
    """A name that cannot be resolved is ConnectFailed for the lookup and for the request."""
    client = client_at(80, host="no-such-host.invalid")
    with pytest.raises(ConnectFailed):
        await client.resolve()
    with pytest.raises(ConnectFailed) as caught:
        await ask(client)
    assert not caught.value.sent
    await client.close()


async def test_a_name_is_looked_up_by_the_first_request():
    """A request resolves the name when nobody has, and the addresses are kept."""
    async with Server(always(ok(b"hello"))) as server:
        client = client_at(server.port, host="localhost")
        assert await asyncio.gather(ask(client), ask(client)) == [(200, b"hello")] * 2
        assert "127.0.0.1" in client._addresses
        await client.close()


async def test_an_address_needs_no_lookup():
    """A literal address is used as it is."""
    client = client_at(80, host="[::1]")
    assert client._addresses == ("::1",)
    await client.resolve()
    assert client._addresses == ("::1",)
    await client.close()


async def test_the_next_address_is_tried():
    """When the first address of a name refuses, the next one is tried under the same deadline."""
    async with Server(always(ok(b"hello"))) as server:
        client = client_at(server.port, host="localhost")
        client._addresses = ("127.0.0.2", "127.0.0.1")
        assert await ask(client) == (200, b"hello")
        await client.close()


async def test_a_moved_name_drops_the_idle_sockets():
    """New addresses end the idle sockets to the old ones; a lookup that finds the same leaves them."""
    async with Server(always(ok(b"hello"))) as server:
        client = client_at(server.port, host="localhost")
        await ask(client)
        await client.resolve()
        assert len(client._idle) == 1
        client._addresses = ("127.0.0.2",)
        await client.resolve()
        assert not client._idle
        assert await ask(client) == (200, b"hello")
        await client.close()


async def test_small_packets_go_at_once():
    """TCP_NODELAY is set."""
    async with Server(always(ok(b"hello"))) as server:
        client = server.client()
        async with client.request(head(), b"", deadlines()) as answer:
            sock = answer._line._transport.get_extra_info("socket")
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            await answer.read(100)
        await client.close()


async def test_a_socket_paused_at_the_end_of_an_answer_is_used_again():
    """A slow client may have its last piece written, and be writable again after the answer was complete."""
    listening = asyncio.Event()

    async def script(peer: Peer) -> None:
        while True:
            await peer.request()
            await peer.send(STREAM + chunk(b"first"))
            await listening.wait()
            await peer.send(chunk(b"last") + END)

    async with Server(script) as server, asyncio.timeout(CEILING):
        client = server.client()
        for _ in range(3):
            listening.clear()
            async with client.request(head(length=2), b"{}", deadlines()) as answer:
                seen = [await answer.first()]

                def sink(piece: bytes, answer=answer, seen=seen) -> None:
                    seen.append(piece)
                    answer.pause()

                asyncio.get_running_loop().call_soon(listening.set)
                await answer.relay(sink)
                answer.resume()
                assert b"".join(seen) == b"firstlast"
        assert [len(peer.sent) for peer in server.peers] == [3]
        await client.close()
