"""A server of a few lines with a health page that can be ill in many ways."""

import asyncio
from contextlib import suppress


class Server:
    """`status` None: accept the request and never answer. `health` and `metrics` are the bodies that are sent.

    `posted` is the status of what is posted, None as above. Answers wait for the `gate`.
    """

    def __init__(self) -> None:
        self.status = self.posted = 200
        self.health = b""
        self.metrics = b""
        self.raw = None
        self.gate = asyncio.Event()
        self.gate.set()
        self.heads = []
        self.bodies = []
        self.arrived = asyncio.Event()
        self.port = 0
        self._server = None
        self._open = set()

    async def start(self):
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def stop(self):
        """As a process that dies: no listener, and every connection is gone."""
        self._server.close()
        for writer in list(self._open):
            writer.transport.abort()
        await self._server.wait_closed()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def paths(self):
        return [head.split(b" ")[1] for head in self.heads]

    async def _serve(self, reader, writer):
        self._open.add(writer)
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = head.partition(b"content-length: ")[2].partition(b"\r\n")[0]
                self.bodies.append(await reader.readexactly(int(length or 0)))
                self.heads.append(head)
                self.arrived.set()
                await self.gate.wait()
                writer.write(await self._answer(head, reader))
        self._open.discard(writer)
        writer.transport.abort()

    async def _answer(self, head, reader):
        status = self.posted if head.startswith(b"POST") else self.status
        if status is None:
            await reader.read()
            raise ConnectionError
        if self.raw is not None:
            return self.raw
        body = self.metrics if b"/metrics" in head else self.health
        return b"HTTP/1.1 %d X\r\ncontent-length: %d\r\n\r\n%s" % (status, len(body), body)
