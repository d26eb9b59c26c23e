"""A process's listeners, and how it comes to its end: drain, or at once.

The first signal to end begins the drain (`/ready` answers 503, new work is refused, what runs may finish within
`drain_timeout`, what is left then gets an error event); a second one ends at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence

from gateway.accept import Share
from gateway.clients import Proxies
from gateway.config import Config
from gateway.edge import Edge
from gateway.errors import ApiError
from gateway.http1 import Bounds, Server
from gateway.refusals import waiting
from gateway.tls import Certificate

_log = logging.getLogger("tiergate")
AGAIN = 0.25
"""Seconds. A signal that comes so soon after the first is the same one, sent to the process and to its group, as by `timeout`."""


class Serving:
    """Puts an edge on the network. Nothing happens before one of the starts.

    `others` returns when nothing is made here any more for clients of other processes: a drain waits for them, too.
    """

    def __init__(self, config: Config, edge: Edge, others: Callable[[], Awaitable[None]] | None = None) -> None:
        server = config.server
        bounds = Bounds(
            max_header=server.max_header,
            max_body=server.max_body,
            header_timeout=server.header_timeout,
            body_timeout=server.body_timeout,
            keep_alive=server.keep_alive,
        )
        self._config = config
        self._edge = edge
        self._certificate = None if server.tls is None else Certificate(server.tls)
        self.server = Server(edge.handle, bounds, edge.wire_error, Proxies(server.trusted_proxies))
        self._metrics_server = Server(edge.handle_metrics, bounds, edge.wire_error, share=0.05)
        self._ended = asyncio.Event()
        self._drain: asyncio.Task[None] | None = None
        self._others = others
        edge.metrics_here = not server.metrics

    async def start(self) -> None:
        """Listen where the config says. OSError, with the address as its filename, when it is taken."""
        server = self._config.server
        await _listen(self.server, server.host, server.port, self._tls)
        if server.metrics:
            host, port = metrics_address(server.metrics)
            await _listen(self._metrics_server, host, port)

    def start_on(
        self, sockets: Sequence[socket.socket], share: Share, metrics: Sequence[socket.socket], metrics_share: Share
    ) -> None:
        """Serve on sockets that other processes have as well."""
        self.server.start_on(sockets, share, self._tls)
        if metrics:
            self._metrics_server.start_on(metrics, metrics_share)

    async def watch_certificate(self) -> None:
        """For ever, where there is one."""
        if self._certificate is not None:
            await self._certificate.watch()

    async def ended(self) -> None:
        """Returns when a signal has ended it."""
        await self._ended.wait()

    def signalled(self) -> None:
        """A signal to end: first gently, then at once."""
        if self._drain is None:
            self._drain = asyncio.create_task(self.drain(), name="drain")
        else:
            _log.warning("second signal: ending at once")
            self._drain.cancel()
            self._drain = asyncio.create_task(self._cut(), name="cut")

    def retire(self) -> None:
        """Others take over: accept nobody, serve whom it has, then end."""
        if self._drain is None:
            self._drain = asyncio.create_task(self._retire(), name="retire")

    async def drain(self) -> None:
        """Refuse new work, let what runs finish, end the rest with an error event, then stop."""
        edge = self._edge
        edge.draining = True
        _log.info("draining: %d requests are running", edge.running)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._config.server.drain_timeout):
                await self.server.drain()
                await edge.idle()
                await self._served_others()
                await self.server.leave()
        if edge.running:
            _log.warning("drain timeout: ending %d requests", edge.running)
        await self._cut()

    async def stop(self) -> None:
        """End everything now. Safe to call twice."""
        if self._drain is not None:
            self._drain.cancel()
        await self.server.stop()
        await self._metrics_server.stop()

    @property
    def scheme(self) -> str:
        return "http" if self._certificate is None else "https"

    @property
    def _tls(self) -> ssl.SSLContext | None:
        return self._certificate.context if self._certificate else None

    async def _retire(self) -> None:
        self._metrics_server.stop_accepting()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._config.server.drain_timeout):
                await self.server.retire()
                await self._served_others()
        if self._edge.running:
            _log.warning("drain timeout: ending %d requests", self._edge.running)
        await self._cut()

    async def _served_others(self) -> None:
        if self._others is not None:
            await self._others()

    async def _cut(self) -> None:
        """End what still runs: each client is told, as an answer or as its stream's last event."""
        message = "The gateway shut down before this answer was complete."
        self._edge.close(ApiError(503, "shutting_down", message, headers=waiting(1.0), outcome="rejected"))
        await self.server.cancel_all()
        self._ended.set()


def metrics_address(address: str) -> tuple[str, int]:
    """Host and port of `server.metrics`."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


async def _listen(server: Server, host: str, port: int, tls: ssl.SSLContext | None = None) -> None:
    """As `Server.start`; an OSError then tells the address, as its filename."""
    try:
        await server.start(host, port, tls)
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), f"{host}:{port}") from error
