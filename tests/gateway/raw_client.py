"""A client of bare sockets, and a server with a handler of the test's own."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Self

from gateway.errors import ApiError
from gateway.http1 import Bounds, Request, Response, Server

HEADERS = b"content-type: text/plain\r\n"


@dataclass(frozen=True)
class Answer:
    """One answer as it came."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def error(self) -> dict[str, Any]:
        error: dict[str, Any] = json.loads(self.body)["error"]
        assert set(error) == {"message", "type", "param", "code"}
        return error


class Wire:
    """One connection, bytes as they are."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def __aenter__(self) -> Self:
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self._port, limit=2**26)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.close()

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def deliver(self, data: bytes) -> None:
        """Write, and wait until the kernel has taken it."""
        self.writer.write(data)
        await self.writer.drain()

    async def head(self) -> tuple[int, dict[str, str]]:
        lines = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines[1:] if line)
        return int(lines[0].split()[1]), headers

    async def answer(self, *, head: bool = False) -> Answer:
        """The next answer; `head` when it is one to a HEAD."""
        async with asyncio.timeout(20):
            status, headers = await self.head()
            if head:
                return Answer(status, headers, b"")
            if "content-length" in headers:
                return Answer(status, headers, await self.reader.readexactly(int(headers["content-length"])))
            if headers.get("transfer-encoding") == "chunked":
                return Answer(status, headers, b"".join([piece async for piece in self.chunks()]))
            return Answer(status, headers, await self.reader.read())

    async def chunks(self) -> AsyncIterator[bytes]:
        while size := int(await self.reader.readuntil(b"\r\n"), 16):
            yield (await self.reader.readexactly(size + 2))[:-2]
        await self.reader.readexactly(2)

    async def ended(self) -> bytes:
        """What still came until the server ended its side."""
        async with asyncio.timeout(20):
            return await self.reader.read()


class Stage:
    """A server and the means to look at it."""

    def __init__(self, server: Server, scope: AsyncExitStack) -> None:
        self.server = server
        self.errors: list[str] = []  # the codes of what the wire itself refused
        self._scope = scope

    async def connect(self) -> Wire:
        return await self._scope.enter_async_context(Wire(self.server.port))

    async def ask(self, data: bytes) -> Answer:
        """Bytes on a connection of their own, and the first answer."""
        wire = await self.connect()
        wire.send(data)
        return await wire.answer()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not condition():
                await asyncio.sleep(0.002)

    def later(self, seconds: float) -> None:
        """What the sweep would do so many seconds from now."""
        now = self.server.loop.time() + seconds
        for connection in list(self.server.connections):
            connection.sweep(now)


@asynccontextmanager
async def staged(handler: Any, **bounds: Any) -> AsyncIterator[Stage]:
    """A running server; what its handler refuses is answered as the edge does. Leaving it, no connection or task may be left."""
    errors: list[str] = []

    def told(error: ApiError, peer: str = "") -> bytes:
        errors.append(error.code)
        return b"content-type: application/json\r\nx-request-id: wire-%d\r\n" % len(errors)

    async def edge(request: Request, response: Response) -> None:
        try:
            await handler(request, response)
        except ApiError as error:
            response.send(error.status, told(error), error.body())

    server = Server(edge, Bounds(**bounds), told)
    await server.start("127.0.0.1", 0)
    stage = Stage(server, scope := AsyncExitStack())
    stage.errors = errors
    try:
        yield stage
        await scope.aclose()
        await stage.until(lambda: not server.connections)
    finally:
        await scope.aclose()
        await server.stop()
    assert not server.connections
    await stage.until(lambda: len(asyncio.all_tasks()) == 1)


async def echo(request: Request, response: Response) -> None:
    """Answers method, URL and body."""
    body = await request.body()
    response.send(200, HEADERS, b"%b %b %b" % (request.method, request.url, body))
