"""The process: start, serve, drain, stop.

Signals: the first SIGTERM or SIGINT begins the drain (`/ready` answers 503, new work is refused, what runs may finish
within `drain_timeout`, what is left then gets an error event); a second one ends at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import signal
import ssl
import sys

from gateway.build import Parts, build
from gateway.clients import Proxies
from gateway.config import Config
from gateway.errors import ApiError
from gateway.http1 import Bounds, Server
from gateway.logs import JsonLog, NullLog, RequestLog
from gateway.refusals import waiting
from gateway.tls import Certificate

_log = logging.getLogger("tiergate")
_KEYS_SECONDS = 1.0


class Gateway:
    """One process's gateway. Nothing happens before `start`."""

    def __init__(self, config: Config, log: RequestLog | None = None) -> None:
        self.config = config
        self._log = log or (JsonLog() if config.observability.log == "json" else NullLog())
        self.parts: Parts = build(config, self._log)
        server = config.server
        bounds = Bounds(
            max_header=server.max_header,
            max_body=server.max_body,
            header_timeout=server.header_timeout,
            body_timeout=server.body_timeout,
            keep_alive=server.keep_alive,
        )
        self._certificate = None if server.tls is None else Certificate(server.tls)
        proxies = Proxies(server.trusted_proxies)
        self._server = Server(self.parts.edge.handle, bounds, self.parts.edge.wire_error, proxies)
        self._metrics_server = Server(self.parts.edge.handle_metrics, bounds, self.parts.edge.wire_error, share=0.05)
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping = asyncio.Event()
        self._drain: asyncio.Task[None] | None = None

    @property
    def port(self) -> int:
        """The port it listens on."""
        return self._server.port

    async def run(self) -> int:
        """Serve until a signal has ended it; the exit code. OSError when the address is taken."""
        loop = asyncio.get_running_loop()
        await self.start()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.signalled)
        gc.collect()
        gc.set_threshold(20_000, 20, 20)  # a request makes few cycles: 4 % of CPU less than with the default of 700
        gc.freeze()  # what start-up made stays: no collection needs to walk it again
        scheme = "http" if self._certificate is None else "https"
        print(f"tiergate: listening on {scheme}://{self.config.server.host}:{self.port}", file=sys.stderr, flush=True)
        await self._stopping.wait()
        await self.stop()
        return 0

    async def start(self) -> None:
        """Listen, and begin to watch replicas and keys."""
        server = self.config.server
        self.parts.ring.load()
        self.parts.admin.load()
        await _listen(self._server, server.host, server.port, self._certificate.context if self._certificate else None)
        if server.metrics:
            self.parts.edge.metrics_here = False
            host, _, port = server.metrics.rpartition(":")
            await _listen(self._metrics_server, host.strip("[]"), int(port))
        self._tasks = [
            asyncio.create_task(self.parts.monitor.run(), name="health"),
            asyncio.create_task(self._watch_keys(), name="keys"),
            *([asyncio.create_task(self._certificate.watch(), name="certificate")] if self._certificate else []),
            *(asyncio.create_task(watch.run(), name="discovery") for watch in self.parts.watches),
        ]

    def signalled(self) -> None:
        """A signal to end: first gently, then at once."""
        if self._drain is None:
            self._drain = asyncio.create_task(self.drain(), name="drain")
        else:
            _log.warning("second signal: ending at once")
            self._drain.cancel()
            self._drain = asyncio.create_task(self._cut(), name="cut")

    async def drain(self) -> None:
        """Refuse new work, let what runs finish, end the rest with an error event, then stop."""
        edge = self.parts.edge
        edge.draining = True
        self._server.drain()
        _log.info("draining: %d requests are running", edge.running)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.config.server.drain_timeout):
                await edge.idle()
        if edge.running:
            _log.warning("drain timeout: ending %d requests", edge.running)
        await self._cut()

    async def _cut(self) -> None:
        """End what still runs: each client is told, as an answer or as its stream's last event."""
        message = "The gateway shut down before this answer was complete."
        self.parts.edge.close(ApiError(503, "shutting_down", message, headers=waiting(1.0), outcome="rejected"))
        await self._server.cancel_all()
        self._stopping.set()

    async def stop(self) -> None:
        """End everything now. Safe to call twice."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.parts.flights.close()
        await self._server.stop()
        await self._metrics_server.stop()
        await self.parts.fleet.close()
        self._log.close()

    async def _watch_keys(self) -> None:
        while True:
            await asyncio.sleep(_KEYS_SECONDS)
            self.parts.ring.refresh()


async def _listen(server: Server, host: str, port: int, tls: ssl.SSLContext | None = None) -> None:
    """As `Server.start`; an OSError then tells the address, as its filename."""
    try:
        await server.start(host, port, tls)
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), f"{host}:{port}") from error
