"""A body whose first bytes decide, in the read that they came with, whether the rest of it goes to a sink."""

import asyncio
import gc

import pytest
from wire_peer import CEILING, END, STREAM, Peer, Server, always, chunk, deadlines, head

from backends.answer import Answer
from backends.connection import Connection
from backends.errors import ConnectionBroken, UpstreamTimeout


def taking(got: list[bytes], taken: bool):
    def opens(piece: bytes) -> bool:
        got.append(piece)
        return taken

    return opens


async def silent(peer: Peer) -> None:
    """Says that it streams, and nothing more."""
    await peer.request()
    await peer.send(STREAM)
    await peer.left()


async def relaying(answer: Answer, seen: list[bytes]) -> tuple[Connection, asyncio.Task[bool]]:
    """Its connection, and who waits for its first bytes to take them."""
    connection = next(iter([one for one in gc.get_referrers(answer) if isinstance(one, Connection)]))
    relay = asyncio.create_task(answer.relay_if(taking(seen, True), seen.append))
    await asyncio.sleep(0)
    return connection, relay


@pytest.mark.parametrize("apart", [False, True])
async def test_first_bytes_that_are_taken_are_followed_by_the_rest(apart):
    """The sink gets what comes after them, whether they came with the head or after it, and the socket is used again."""

    async def script(peer: Peer) -> None:
        while True:
            await peer.request()
            await peer.send(STREAM if apart else STREAM + chunk(b"one"))
            await asyncio.sleep(0.01)
            await peer.send((chunk(b"one") if apart else b"") + chunk(b"two") + END)

    async with Server(script) as server, asyncio.timeout(CEILING):
        client = server.client()
        for _ in range(2):
            first, rest = [], []
            async with client.request(head(), b"", deadlines()) as answer:
                assert await answer.relay_if(taking(first, True), rest.append)
                assert answer.complete
            assert len(first) == 1
            assert b"".join(first + rest) == b"onetwo"
        assert len(server.peers) == 1
        await client.close()


async def test_they_are_taken_before_the_event_loop_turns():
    """Nothing is scheduled between the read and the one who takes the bytes: they are gone when the read callback returns."""
    go = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(STREAM)
        await go.wait()
        await peer.send(chunk(b"one") + END)
        await peer.left()

    async with Server(script) as server, asyncio.timeout(CEILING):
        client, seen = server.client(), []
        async with client.request(head(), b"", deadlines()) as answer:
            connection, relay = await relaying(answer, seen)
            connection.data_received(chunk(b"zero"))
            assert seen == [b"zero"]
            go.set()
            assert await relay
            assert seen == [b"zero", b"one"]
        await client.close()


async def test_nothing_is_opened_for_one_who_is_cancelled():
    """Its first bytes may come in the turn in which it was told to end, before it has heard of that."""

    async with Server(silent) as server, asyncio.timeout(CEILING):
        client, seen = server.client(), []
        async with client.request(head(), b"", deadlines()) as answer:
            connection, relay = await relaying(answer, seen)
            relay.cancel()
            connection.data_received(chunk(b"zero"))
            with pytest.raises(asyncio.CancelledError):
                await relay
            assert seen == []
        await client.close()


@pytest.mark.parametrize("apart", [False, True])
async def test_first_bytes_that_are_declined_are_still_there(apart):
    """Whoever reads on has the body from its beginning."""

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(STREAM if apart else STREAM + chunk(b"one"))
        await asyncio.sleep(0.01)
        await peer.send((chunk(b"one") if apart else b"") + chunk(b"two") + END)
        await peer.left()

    async with Server(script) as server, asyncio.timeout(CEILING):
        client, first = server.client(), []
        async with client.request(head(), b"", deadlines()) as answer:
            assert not await answer.relay_if(taking(first, False), pytest.fail)
            assert await answer.read(100) == b"onetwo"
            assert b"onetwo".startswith(first[0])
        await client.close()


async def test_an_empty_body_opens_nothing():
    """Nobody is shown bytes that did not come."""
    async with Server(always(STREAM + END)) as server, asyncio.timeout(CEILING):
        client = server.client()
        async with client.request(head(), b"", deadlines()) as answer:
            assert not await answer.relay_if(pytest.fail, pytest.fail)
            assert await answer.first() == b""
        await client.close()


@pytest.mark.parametrize("said", [STREAM, STREAM + chunk(b"one")])
async def test_a_body_that_breaks_off_is_told(said):
    """Before its first bytes and after them."""

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(said)

    async with Server(script) as server, asyncio.timeout(CEILING):
        client = server.client()
        async with client.request(head(), b"", deadlines()) as answer:
            with pytest.raises(ConnectionBroken):
                await answer.relay_if(taking([], True), pytest.fail)
        await client.close()


async def test_first_bytes_have_their_deadline():
    """It runs while they are waited for."""

    async with Server(silent) as server, asyncio.timeout(CEILING):
        client = server.client()
        async with client.request(head(), b"", deadlines(first_token=0.02)) as answer:
            with pytest.raises(UpstreamTimeout):
                await answer.relay_if(pytest.fail, pytest.fail)
        await client.close()


async def test_what_fails_in_taking_them_is_raised():
    """As what fails in a sink is."""

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(STREAM)
        await asyncio.sleep(0.01)
        await peer.send(chunk(b"one"))
        await peer.left()

    async with Server(script) as server, asyncio.timeout(CEILING):
        client = server.client()
        async with client.request(head(), b"", deadlines()) as answer:
            with pytest.raises(ZeroDivisionError):
                await answer.relay_if(lambda _: 1 / 0, pytest.fail)
        await client.close()
