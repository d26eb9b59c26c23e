"""Many requests, cancelled and cut at random: an answer is always the answer to its own request."""

import asyncio
import contextlib
import gc
import random
import socket

import pytest
from wire_peer import CEILING, END, STREAM, Peer, Server, always, ask, chunk, client_at, deadlines, head, ok

from backends.connection import Connection
from backends.errors import UpstreamError


def moody(rng: random.Random):
    """A server that echoes bodies in every framing, and at times cuts, babbles, closes or falls silent."""

    async def script(peer: Peer) -> None:
        while True:
            body = (await peer.request()).split(b"\r\n\r\n", 1)[1]
            mood = rng.randrange(10)
            if mood == 0:
                return
            if mood == 1:
                await peer.send(ok(body)[: rng.randrange(1, 60)])
                return
            if mood == 2:
                await peer.send(ok(body) + ok(b"not asked for"))
                await peer.left()
            elif mood == 3:
                await peer.send(ok(body, "connection: close"))
                return
            elif mood == 4:
                await peer.send(b"HTTP/1.1 200 OK\r\n\r\n" + body)
                return
            elif mood == 5:
                await peer.bytewise(STREAM + chunk(body) + END)
            elif mood < 8:
                await peer.send(STREAM + chunk(body[:3]))
                await asyncio.sleep(rng.random() / 500)
                await peer.send(chunk(body[3:]) + END)
            else:
                await peer.send(ok(body))

    return script


@pytest.mark.parametrize("seed", range(4))
async def test_no_answer_reaches_another_request(seed):
    """Whatever servers and callers do, a request gets its own answer, an error or its cancellation; and nothing is left."""
    rng = random.Random(seed)
    outcomes = {"answered": 0, "failed": 0, "cancelled": 0}

    async def one(client, number: int) -> None:
        body = b"request %05d" % number
        try:
            async with client.request(head(length=len(body)), body, deadlines()) as answer:
                got = [await answer.first()]
                await answer.relay(got.append)
            # A cut is told from an end wherever HTTP can tell them apart.
            assert b"".join(got) == body
            outcomes["answered"] += 1
        except UpstreamError:
            outcomes["failed"] += 1

    async def lane(client, numbers: range) -> None:
        for number in numbers:
            task = asyncio.create_task(one(client, number))
            if rng.random() < 0.3:
                await asyncio.sleep(rng.random() / 300)
                task.cancel()
            await asyncio.wait([task])
            if task.cancelled():
                outcomes["cancelled"] += 1
            else:
                task.result()

    async with Server(moody(rng)) as server, asyncio.timeout(CEILING):
        client = server.client()
        await asyncio.gather(*(lane(client, range(start, start + 20)) for start in range(0, 400, 20)))
        assert sum(outcomes.values()) == 400
        assert min(outcomes.values()) > 0
        assert len(client._idle) <= 20
        await client.close()


@contextlib.contextmanager
def uncollected():
    """No collector runs; counts the connections that were made since, and are not freed."""
    gc.collect()
    gc.disable()
    gc.freeze()  # what is there already is not looked at

    def alive() -> int:
        return sum(isinstance(thing, Connection) for thing in gc.get_objects())

    try:
        yield alive
    finally:
        gc.enable()


async def test_a_closed_connection_is_freed_without_the_collector():
    """Nothing refers in a circle to a connection that is over, so that a server that closes each costs no collections."""
    async with Server(always(ok(b"hello", "connection: close"))) as server:
        client = server.client()
        with uncollected() as alive:
            async with client.request(head(), b"", deadlines(first_token=CEILING)) as answer:
                await answer.read(100)
                assert alive() == 1
            del answer
            for _ in range(10):
                await asyncio.sleep(0)
            assert alive() == 0
        assert await ask(client) == (200, b"hello")
        await client.close()


@pytest.mark.parametrize("way", ["left", "refused"])
async def test_a_connection_that_never_came_about_is_freed_without_the_collector(way):
    """Nor to one whose request left as it was made, at whatever moment, or that was refused."""
    async with Server(always(ok(b"hello"))) as server:
        client = client_at(free_port() if way == "refused" else server.port)
        with uncollected() as alive:
            for turns in range(8):
                task = asyncio.create_task(ask(client))
                if way == "left":
                    for _ in range(turns):
                        await asyncio.sleep(0)
                    task.cancel()
                await asyncio.wait([task])
                if not task.cancelled():
                    task.exception()  # seen, so that nobody keeps it
                del task
                client._drop_idle()
            await client.close()
            for _ in range(100):
                if not alive():
                    break
                await asyncio.sleep(0.005)
            assert alive() == 0


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]
