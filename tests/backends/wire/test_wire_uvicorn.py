"""Against the server that vLLM itself uses."""

import asyncio

import pytest
import uvicorn
from wire_peer import CEILING, ask, client_at, deadlines, head, pieces_of

from backends.client import Client
from backends.errors import ConnectionBroken


class App:
    """Streams what the body asks for, and notices who leaves."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.left = asyncio.Event()
        self.begun = asyncio.Event()

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http":
            return
        message = await receive()
        body = message.get("body", b"")
        while message.get("more_body"):
            message = await receive()
            body += message.get("body", b"")
        self.begun.set()
        if body == b"wait":
            while (await receive())["type"] != "http.disconnect":
                pass
            self.left.set()
            return
        headers = [(b"content-type", b"text/event-stream")]
        if not body.startswith(b"stream"):
            headers.append((b"content-length", b"%d" % len(body)))
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        if body == b"stream":
            for number in range(3):
                await send({"type": "http.response.body", "body": b"data: %d\n\n" % number, "more_body": True})
            await send({"type": "http.response.body", "body": b"data: [DONE]\n\n"})
        elif body == b"stream and raise":
            await send({"type": "http.response.body", "body": b"data: 0\n\n", "more_body": True})
            await self.go.wait()
            raise SystemError
        else:
            await send({"type": "http.response.body", "body": body})


@pytest.fixture
async def served():
    app = App()
    config = uvicorn.Config(app, port=0, http="httptools", lifespan="off", log_level="critical", timeout_graceful_shutdown=0)
    server = uvicorn.Server(config)
    server.install_signal_handlers = lambda: None
    task = asyncio.create_task(server._serve())
    while not server.started:
        await asyncio.sleep(0.001)
    client = client_at(server.servers[0].sockets[0].getsockname()[1])
    yield app, client
    await client.close()
    server.should_exit = True
    await task


async def test_echo(served: tuple[App, Client]):
    """Bodies of all sizes come back whole over one socket."""
    _, client = served
    for size in (0, 1, 100_000, 4_000_000):
        assert await ask(client, b"x" * size, limit=1 << 23) == (200, b"x" * size)
    assert len(client._idle) == 1


async def test_stream(served: tuple[App, Client]):
    """A stream comes back whole, and its socket is used again."""
    _, client = served
    for _ in range(3):
        async with client.request(head(length=6), b"stream", deadlines(first_token=CEILING)) as answer:
            pieces = [await answer.first()]
            await answer.relay(pieces.append)
        assert b"".join(pieces) == b"data: 0\n\ndata: 1\n\ndata: 2\n\ndata: [DONE]\n\n"
    assert len(client._idle) == 1


async def test_many_at_once(served: tuple[App, Client]):
    """A hundred requests at once are answered each with its own body."""
    _, client = served
    bodies = [b"number %d" % number for number in range(100)]
    assert await asyncio.gather(*(ask(client, body) for body in bodies)) == [(200, body) for body in bodies]
    assert len(client._idle) == 100


async def test_a_cancelled_request_disconnects(served: tuple[App, Client]):
    """The server is told when the request before its answer is cancelled."""
    app, client = served
    task = asyncio.create_task(ask(client, b"wait"))
    async with asyncio.timeout(CEILING):
        await app.begun.wait()
        task.cancel()
        await app.left.wait()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_an_application_that_fails_in_its_stream(served: tuple[App, Client]):
    """An exception in the server's application after the first piece is a broken connection, not a clean end."""
    app, client = served
    async with client.request(head(length=16), b"stream and raise", deadlines()) as answer:
        assert await answer.first() == b"data: 0\n\n"
        app.go.set()
        with pytest.raises(ConnectionBroken):
            await answer.relay(pytest.fail)


async def test_pieces_of_an_empty_request(served: tuple[App, Client]):
    """A body of nothing is an answer of nothing."""
    _, client = served
    assert await pieces_of(client) == [b""]
