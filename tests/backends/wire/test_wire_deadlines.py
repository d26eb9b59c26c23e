"""Each deadline ends the request that it is for, in its own phase, and no other one does."""

import asyncio
import contextlib
import math
import socket

import pytest
from wire_peer import CEILING, END, STREAM, Peer, Server, always, ask, chunk, client_at, deadlines, head, ok

from backends.errors import UpstreamTimeout

SOON = 0.03  # long enough for a local answer to be on its way, short enough not to wait for


async def timed_out(client, **timers) -> UpstreamTimeout:
    with pytest.raises(UpstreamTimeout) as caught:
        async with client.request(head(), b"", deadlines(**timers)) as answer:
            await answer.relay(lambda _: None)
    return caught.value


async def silent(peer: Peer) -> None:
    await peer.request()
    await peer.left()


@contextlib.contextmanager
def full_backlog():
    """A port whose queue of connections is full: a further one is neither refused nor made."""
    with socket.socket() as listening, contextlib.ExitStack() as clients:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        for _ in range(4):
            waiting = clients.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listening.getsockname())
        yield listening.getsockname()[1]


@pytest.mark.parametrize(("timers", "phase"), [({"connect": SOON}, "connect"), ({"total": SOON}, "total")])
async def test_a_connection_that_is_not_made(timers, phase):
    """While connecting, the connect deadline and the total one hold, and nothing was sent."""
    with full_backlog() as port:
        client = client_at(port)
        error = await timed_out(client, **timers)
        assert (error.phase, error.sent) == (phase, False)
        await client.close()


async def test_the_connect_deadline_covers_tls():
    """A server that accepts and never answers the TLS handshake runs into the connect deadline, and the socket is closed."""
    async with Server(lambda peer: peer.left()) as server, asyncio.timeout(CEILING):
        client = client_at(server.port, scheme="https")
        error = await timed_out(client, connect=SOON)
        assert (error.phase, error.sent) == ("connect", False)
        await server.peers[0].gone.wait()
        await client.close()


async def test_the_connect_deadline_covers_the_lookup():
    """A name server that hangs is a connect timeout."""
    client = client_at(80, host="replica.invalid")

    async def hang() -> None:
        await asyncio.Event().wait()

    client.resolve = hang
    error = await timed_out(client, connect=SOON)
    assert (error.phase, error.sent) == ("connect", False)
    client._lookup.cancel()
    await client.close()


async def test_no_answer_at_all():
    """A server that accepts and says nothing runs into the first-token deadline."""
    async with Server(silent) as server, asyncio.timeout(CEILING):
        client = server.client()
        error = await timed_out(client, first_token=SOON)
        assert (error.phase, error.sent) == ("first_token", True)
        await server.peers[0].gone.wait()
        await client.close()


@pytest.mark.parametrize("opening", [b"HTTP/1.1 200", STREAM, b"HTTP/1.1 100 Continue\r\n\r\n"])
async def test_a_head_without_a_body(opening):
    """The first-token deadline runs until the first byte of the body, whatever came before it."""

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(opening)
        await peer.left()

    async with Server(script) as server, asyncio.timeout(CEILING):
        client = server.client()
        assert (await timed_out(client, first_token=SOON, between_tokens=CEILING)).phase == "first_token"
        await server.peers[0].gone.wait()
        await client.close()


@pytest.mark.parametrize("drip", [b"HTTP/1.1 100 Continue\r\n\r\n", b"x"])
async def test_a_drip_is_no_first_token(drip):
    """Interim answers, or a head that comes byte by byte, do not move the first-token deadline."""

    async def script(peer: Peer) -> None:
        await peer.request()
        if drip == b"x":
            await peer.send(b"HTTP/1.1 200 OK\r\nx: ")
        while True:
            await peer.send(drip)
            await asyncio.sleep(0.002)

    async with Server(script) as server, asyncio.timeout(CEILING):
        client = server.client()
        assert (await timed_out(client, first_token=SOON)).phase == "first_token"
        await client.close()


async def test_a_stream_that_stops():
    """After the first byte the gap between two reads is what counts, also when its deadline is the nearer one."""

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(STREAM + chunk(b"one"))
        await peer.left()

    async with Server(script) as server, asyncio.timeout(CEILING):
        client = server.client()
        error = await timed_out(client, first_token=CEILING, between_tokens=SOON)
        assert (error.phase, error.sent) == ("between_tokens", True)
        await server.peers[0].gone.wait()
        await client.close()


async def test_a_stream_that_goes_on():
    """Each piece moves the deadline: a stream may last longer than any gap in it."""
    gap = 0.4

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(STREAM)
        loop = asyncio.get_running_loop()
        end = loop.time() + 2 * gap
        while loop.time() < end:
            await peer.send(chunk(b"x"))
            await asyncio.sleep(0.01)
        await peer.send(END)
        await peer.left()

    async with Server(script) as server:
        client = server.client()
        got: list[bytes] = []
        async with client.request(head(), b"", deadlines(first_token=CEILING, between_tokens=gap)) as answer:
            got.append(await answer.first())
            await answer.relay(got.append)
            assert answer.complete
        assert len(b"".join(got)) > 1
        await client.close()


async def test_the_total_deadline_ends_a_stream_that_goes_on():
    """However lively a stream is, the total deadline ends it."""

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(STREAM)
        while True:
            await peer.send(chunk(b"x"))
            await asyncio.sleep(0.001)

    async with Server(script) as server, asyncio.timeout(CEILING):
        client = server.client()
        error = await timed_out(client, first_token=CEILING, between_tokens=CEILING, total=0.2)
        assert (error.phase, error.sent) == ("total", True)
        await client.close()


async def test_an_unstreamed_request_has_only_the_total():
    """Without the other two, only the total deadline ends a request that nobody answers."""
    async with Server(silent) as server, asyncio.timeout(CEILING):
        client = server.client()
        assert (await timed_out(client, total=SOON)).phase == "total"
        await client.close()


async def test_a_deadline_in_the_past():
    """A request whose time is up fails at once, and sends nothing on a fresh socket."""
    async with Server(silent) as server, asyncio.timeout(CEILING):
        client = server.client()
        error = await timed_out(client, total=-1.0)
        assert (error.phase, error.sent) == ("total", False)
        await client.close()


async def test_no_deadline_at_all():
    """An infinite total is allowed."""
    async with Server(always(ok(b"hello"))) as server:
        client = server.client()
        for _ in range(2):
            assert await ask(client, total=math.inf) == (200, b"hello")
        await client.close()


async def test_a_timer_of_the_last_request_does_not_end_the_next():
    """On a socket that is used again, the deadlines of the request before are forgotten."""
    go = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(ok(b"hello"))
        await peer.request()
        await go.wait()
        await peer.send(ok(b"again"))
        await peer.left()

    async with Server(script) as server, asyncio.timeout(CEILING):
        client = server.client()
        await ask(client, total=0.3)
        second = asyncio.create_task(ask(client))
        await asyncio.sleep(0.35)  # the first deadline passes
        go.set()
        assert await second == (200, b"again")
        assert len(server.peers) == 1
        await client.close()


async def test_a_nearer_deadline_on_a_warm_socket_holds():
    """On a socket that is used again, a shorter deadline than the last one's holds."""

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(ok(b"hello"))
        await silent(peer)

    async with Server(script) as server, asyncio.timeout(CEILING):
        client = server.client()
        await ask(client, first_token=CEILING)
        assert (await timed_out(client, first_token=SOON)).phase == "first_token"
        await client.close()


async def test_no_deadline_but_the_total_runs_while_paused():
    """A paused stream is not late: its gap begins again when it is resumed."""

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(STREAM + chunk(b"one"))
        await peer.left()

    async with Server(script) as server, asyncio.timeout(CEILING):
        client = server.client()
        async with client.request(head(), b"", deadlines(first_token=0.2, between_tokens=0.2)) as answer:
            assert await answer.first() == b"one"
            answer.pause()
            relay = asyncio.create_task(answer.relay(lambda _: None))
            await asyncio.sleep(0.3)
            assert not relay.done()
            answer.resume()
            with pytest.raises(UpstreamTimeout) as caught:
                await relay
            assert caught.value.phase == "between_tokens"
        await client.close()


async def test_the_total_runs_while_paused():
    """A reader that never comes back cannot hold a replica for longer than the total deadline."""

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(STREAM + chunk(b"one"))
        await peer.left()

    async with Server(script) as server, asyncio.timeout(CEILING):
        client = server.client()
        async with client.request(head(), b"", deadlines(between_tokens=CEILING, total=0.3)) as answer:
            await answer.first()
            answer.pause()
            with pytest.raises(UpstreamTimeout) as caught:
                await answer.relay(lambda _: None)
        assert caught.value.phase == "total"
        await server.peers[0].gone.wait()
        await client.close()
