"""The downstream side of the wire: HTTP/1.1 on `asyncio.Protocol` and llhttp (through httptools).

Why not an ASGI server: measured beside each other on one machine (0.5 KB in, 0.6 KB out, 32 connections), uvicorn takes
31 µs of CPU a request, granian 28-34, this one 10; and a token that arrives from a replica is written to the client
from the very callback that read it, where ASGI would wake a task for each.

Here is the listening side; `connection` reads and writes, `messages` is what handlers see.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import resource
import socket
import ssl
from collections.abc import Callable, Sequence
from email.utils import formatdate
from pathlib import Path

from gateway.accept import Acceptor, Share, Shares
from gateway.clients import Proxies
from gateway.connection import Connection, Handler
from gateway.errors import ApiError
from gateway.messages import Bounds, Request, Response

__all__ = ["Bounds", "Connection", "Request", "Response", "Server"]

_STOP_SECONDS = 5.0
_ON_THE_WAY = 0.2  # seconds that a request may be, which its client sent before it could know of the drain
_TURNED_AWAY = 256

_log = logging.getLogger("tiergate.http")


def connection_bounds(share: float) -> tuple[int, int]:
    """How many connections a server may hold, and how many more it may tell that there is no room; 0: no bound."""
    descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if descriptors == resource.RLIM_INFINITY:
        return 0, 0
    free = max(0, descriptors - _open_descriptors())
    return max(1, int(free * share)), min(_TURNED_AWAY, free // 16)


def _open_descriptors() -> int:
    try:
        return sum(1 for _ in Path("/dev/fd").iterdir())
    except OSError:
        return 64


class Server:
    """A listening socket and its connections.

    `on_wire_error` is told of requests that never became one, and by whom; it gives the header block of their answer.
    `proxies` are believed when they say whom a request is from. `share`: of the process's descriptors; what no server has
    is for the way to the replicas.
    """

    def __init__(
        self,
        handler: Handler,
        bounds: Bounds,
        on_wire_error: Callable[[ApiError, str], bytes],
        proxies: Proxies | None = None,
        share: float = 0.7,
    ) -> None:
        self._share = share
        self.handler = handler
        self.proxies = proxies or Proxies()
        self.bounds = bounds
        self.on_wire_error = on_wire_error
        self.connections: set[Connection] = set()
        self.draining = False
        self.date = b""
        self.port = 0
        self.max_connections = 0  # 0: no bound
        self.turned_away = 0  # how many past it may be told so at one time
        self._listener: asyncio.Server | None = None
        self._acceptor: Acceptor | None = None
        self._tls: ssl.SSLContext | None = None
        self._sweeper: asyncio.Task[None] | None = None

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return self._loop

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> None:
        """Listen. Raises OSError when the port is taken. `port` 0 takes a free one; see `self.port`.

        With `tls`, a handshake has as long as a request's head. One that fails ends its connection, and nobody hears of it.
        """
        self._open()
        self._tls = tls
        handshake = None if tls is None else self.bounds.header_timeout
        self._listener = await self._loop.create_server(
            lambda: Connection(self), host, port, backlog=1024, ssl=tls, ssl_handshake_timeout=handshake
        )
        self.port = self._listener.sockets[0].getsockname()[1]
        self._sweeper = self._loop.create_task(self._sweep(), name="sweep")

    def start_on(self, sockets: Sequence[socket.socket], share: Share, tls: ssl.SSLContext | None = None) -> None:
        """As `start`, on sockets that listen already and on which other processes wait, too: see `gateway.accept`."""
        self._open()
        self.port = sockets[0].getsockname()[1]
        self._tls = tls
        self._acceptor = self._accept(sockets, share)
        self._acceptor.start()
        self._sweeper = self._loop.create_task(self._sweep(), name="sweep")

    def _accept(self, sockets: Sequence[socket.socket], share: Share) -> Acceptor:
        bounds = self.bounds
        return Acceptor(sockets, lambda: Connection(self), lambda: len(self.connections), share, self._tls, bounds.header_timeout)

    def stop_accepting(self) -> None:
        """No new connections from here on; those that there are go on. Safe to call twice."""
        if self._listener is not None:
            self._listener.close()
        if self._acceptor is not None:
            self._acceptor.close()

    def _open(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._tick()
        self.max_connections, self.turned_away = connection_bounds(self._share)

    async def drain(self) -> None:
        """From here on every answer is its connection's last. Kept connections on which nothing comes close in a moment: who has
        just sent a request on one gets an answer that says so, which is better than none.
        """
        self.draining = True
        if any(connection.idle and connection.served for connection in self.connections):
            await asyncio.sleep(_ON_THE_WAY)
        for connection in list(self.connections):
            if connection.idle and connection.served:
                connection.close()

    async def leave(self) -> None:
        """Stop accepting, and answer, for a moment, who has just connected, also who has so to the kernel alone."""
        if self._listener is not None:
            waiting = [socket.socket(fileno=os.dup(sock.fileno())) for sock in self._listener.sockets]
            self._listener.close()  # the sockets listen on, as these have them too
            self._acceptor = self._accept(waiting, Share(Shares(1), 1))
        if self._acceptor is not None:
            self._acceptor.take_all()
        self.stop_accepting()
        until = self._loop.time() + _ON_THE_WAY
        while self._loop.time() < until and self._occupied:  # noqa: ASYNC110 - once, at the end
            await asyncio.sleep(0.01)

    async def retire(self) -> None:
        """Leave the field to others on the same sockets: stop accepting, and return when no connection is left.

        As `drain`, but nobody's request fails because workers change. One that a client of a kept connection sends while that
        is being closed would: so whoever asks once more is served, and told that it was the last time, and only who has asked
        for nothing for a second or two is closed. What was just opened is served, too: its request is on the way, and
        `header_timeout` bounds the wait for those who never ask.
        """
        self.stop_accepting()
        self.draining = True
        for connection in self.connections:
            connection.hurry()
        while self._occupied:  # noqa: ASYNC110 - once, at the end
            await asyncio.sleep(0.01)

    @property
    def _occupied(self) -> bool:
        return bool(self.connections) or (self._acceptor is not None and self._acceptor.arriving > 0)

    async def cancel_all(self) -> None:
        """Cancel every handler, and give each five seconds to say good-bye to its client."""
        tasks = [connection.task for connection in self.connections if connection.task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_STOP_SECONDS)

    async def stop(self) -> None:
        """Close the listener and every connection, whatever it is doing. Handlers and unread answers have five seconds."""
        self.stop_accepting()
        await self.cancel_all()
        for connection in list(self.connections):
            connection.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_STOP_SECONDS):
                while self.connections:  # noqa: ASYNC110 - once, at the end of the process
                    await asyncio.sleep(0.01)
        for connection in list(self.connections):
            connection.abort()
        if self._sweeper is not None:
            self._sweeper.cancel()
            await asyncio.wait([self._sweeper])

    def _tick(self) -> None:
        self.date = f"date: {formatdate(usegmt=True)}\r\n".encode()

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(1)
            self._tick()
            if self._acceptor is not None:
                self._acceptor.tell()
            now = self._loop.time()
            for connection in list(self.connections):
                try:
                    connection.sweep(now)
                except Exception:  # noqa: BLE001 - one connection's fault must not end the clock of all others
                    _log.exception("a connection's clock failed")
                    connection.abort()
