"""A replica that answers with the very bytes that a test says, each in a write of its own."""

import asyncio
from collections.abc import Sequence
from typing import Self

_HEALTHY = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"


def chunked(stream: bytes, sizes: Sequence[int]) -> bytes:
    """A body in chunks of these sizes, over and over."""
    framed, at, turn = b"", 0, 0
    while at < len(stream):
        piece = stream[at : at + sizes[turn % len(sizes)]]
        framed += b"%x\r\n%b\r\n" % (len(piece), piece)
        at, turn = at + len(piece), turn + 1
    return framed + b"0\r\n\r\n"


class ByteUpstream:
    """`play` sets what the next requests are answered with. Use as `async with`."""

    def __init__(self) -> None:
        self._writes: list[bytes] = []
        self._close = False
        self.calls = 0
        self.received = b""  # the last request's body
        self.held_from = 1  # the first write that waits for `going_on`; 0 is the head
        self.going_on = asyncio.Event()
        self.going_on.set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def play(
        self, stream: bytes, *, chunks: Sequence[int] = (4096,), writes: Sequence[int] = (65_536,), framed: bool = True,
        content_type: str = "text/event-stream; charset=utf-8",
    ) -> None:  # fmt: skip
        """`chunks`: how the body is cut into chunks; `writes`: how the bytes are cut into writes, chunk heads included.

        Not `framed`: the body ends with its connection.
        """
        body = chunked(stream, chunks) if framed else stream
        framing = "transfer-encoding: chunked" if framed else "connection: close"
        head = f"HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\n{framing}\r\n\r\n".encode()
        self._writes, at, turn = [head], 0, 0
        while at < len(body):
            self._writes.append(body[at : at + writes[turn % len(writes)]])
            at, turn = at + len(self._writes[-1]), turn + 1
        self._close = not framed

    def drop(self) -> None:
        """End every connection, whatever is under way on it."""
        for writer in list(self._connections):
            writer.transport.abort()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        self._connections: set[asyncio.StreamWriter] = set()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self.drop()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections.add(writer)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                if head.startswith(b"GET"):
                    writer.write(_HEALTHY)
                    continue
                length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
                self.received = await reader.readexactly(length)
                await self._answer(writer)
                if self._close:
                    break
        except (asyncio.IncompleteReadError, ConnectionError, RuntimeError):  # the last is how uvloop says that it was dropped
            pass
        finally:
            self._connections.discard(writer)
            writer.close()

    async def _answer(self, writer: asyncio.StreamWriter) -> None:
        self.calls += 1
        number = 0
        while number < len(self._writes):
            if number >= self.held_from:
                await self.going_on.wait()
            piece = self._writes[number]
            number += 1
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
            await asyncio.sleep(0)  # what was written leaves with the first turn of the loop, and is read with the second
