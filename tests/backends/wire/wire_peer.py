"""A raw server for one test: the test plays the other end of each connection, byte by byte."""

from __future__ import annotations

import asyncio
import math
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable
from typing import Self

from backends.client import Client, Deadlines, Origin

CEILING = 20.0  # seconds; a generous end for what must happen, never a measure


class Peer:
    """One connection, seen from the server. `sent` holds the requests that came over it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.sent: list[bytes] = []
        self.gone = asyncio.Event()

    async def request(self) -> bytes:
        """The next whole request: head and, by its content-length, body."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = 0
        for line in head.split(b"\r\n"):
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        request = head + await self.reader.readexactly(length)
        self.sent.append(request)
        return request

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def bytewise(self, data: bytes) -> None:
        """Each byte in a segment of its own, as far as the kernel lets us."""
        for at in range(len(data)):
            await self.send(data[at : at + 1])
            await asyncio.sleep(0)

    def close(self) -> None:
        self.writer.close()

    def reset(self) -> None:
        """End the connection with a RST."""
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    async def left(self) -> None:
        """Return once the client has closed its end."""
        try:
            while await self.reader.read(65_536):
                pass
        except (ConnectionError, OSError):
            pass
        self.gone.set()


Script = Callable[[Peer], Awaitable[None]]


class Server:
    """Plays one script per connection. Use as `async with`."""

    def __init__(self, script: Script, *, tls: ssl.SSLContext | None = None) -> None:
        self._script = script
        self._tls = tls
        self.peers: list[Peer] = []
        self.unhandled: list[dict[str, object]] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: self.unhandled.append(context))
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.sleep(0)
        assert not self.unhandled, self.unhandled

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        peer = Peer(reader, writer)
        self.peers.append(peer)
        try:
            await self._script(peer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        except RuntimeError as error:
            if "closed" not in str(error):  # how uvloop says that the client has left
                raise
        finally:
            writer.transport.abort()
            self._tasks.discard(task)

    def client(self, **options: object) -> Client:
        return client_at(self.port, **options)


def client_at(port: int, *, scheme: str = "http", host: str = "127.0.0.1", **options: object) -> Client:
    return Client(Origin.parse(f"{scheme}://{host}:{port}/v1"), **options)  # type: ignore[arg-type]


def deadlines(
    *,
    connect: float = CEILING,
    first_token: float | None = None,
    between_tokens: float | None = None,
    total: float = CEILING,
) -> Deadlines:
    at = math.inf if total == math.inf else asyncio.get_running_loop().time() + total
    return Deadlines(connect, first_token, between_tokens, at)


def head(method: str = "POST", length: int = 0) -> bytes:
    return f"{method} /v1/chat/completions HTTP/1.1\r\nhost: replica\r\ncontent-length: {length}\r\n\r\n".encode()


async def ask(client: Client, body: bytes = b"{}", *, limit: int = 1 << 20, **timers: float | None) -> tuple[int, bytes]:
    """One unstreamed request."""
    async with client.request(head(length=len(body)), body, deadlines(**timers)) as answer:  # type: ignore[arg-type]
        return answer.status, await answer.read(limit)


async def pieces_of(client: Client, *, seen: Callable[[bytes], None] | None = None) -> list[bytes]:
    """One streamed request: its pieces as they came."""
    pieces: list[bytes] = []

    def sink(piece: bytes) -> None:
        pieces.append(piece)
        if seen is not None:
            seen(piece)

    async with client.request(head(), b"", deadlines()) as answer:
        sink(await answer.first())
        await answer.relay(sink)
        assert answer.complete
    return pieces


def ok(body: bytes, *headers: str) -> bytes:
    lines = ["HTTP/1.1 200 OK", f"content-length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


STREAM = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-type: text/event-stream\r\n\r\n"
END = b"0\r\n\r\n"


def always(answer: bytes) -> Script:
    """Every request gets the same answer, and the connection stays."""

    async def script(peer: Peer) -> None:
        while True:
            await peer.request()
            await peer.send(answer)

    return script


def once(answer: bytes, *, then: str = "close") -> Script:
    """One request, one answer, then the end (`close`, `reset`) or nothing (`stay`)."""

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(answer)
        if then == "stay":
            await peer.left()
        elif then == "reset":
            peer.reset()

    return script
