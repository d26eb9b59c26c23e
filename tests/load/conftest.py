"""A server that says exactly what a test wants."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

import pytest

Talk = Callable[[bytes, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Scripted:
    """Reads requests one after another and lets `talk` answer each; keeps what it read."""

    talk: Talk
    requests: list[bytes] = field(default_factory=list)
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
                request = head + await reader.readexactly(length)
                self.requests.append(request)
                await self.talk(request, writer)
                await writer.drain()
        writer.close()


Serve = Callable[[Talk], Awaitable[Scripted]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    async with contextlib.AsyncExitStack() as scope:

        async def serve(talk: Talk) -> Scripted:
            scripted = Scripted(talk)
            server = await asyncio.start_server(scripted.serve, "127.0.0.1", 0)
            scope.callback(server.close)
            scripted.port = server.sockets[0].getsockname()[1]
            return scripted

        yield serve
