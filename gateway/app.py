"""The process that is alone: start, serve, drain, stop. Several workers are in `gateway.node`."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import sys

from gateway.build import Parts, build
from gateway.config import Config
from gateway.http1 import Server
from gateway.keys import KeyRing
from gateway.logs import JsonLog, NullLog, RequestLog
from gateway.serving import AGAIN, Serving

KEYS_SECONDS = 1.0

_log = logging.getLogger("tiergate")


class Gateway:
    """One process's gateway. Nothing happens before `start`."""

    def __init__(self, config: Config, log: RequestLog | None = None) -> None:
        self.config = config
        self._log = log or (JsonLog() if config.observability.log == "json" else NullLog())
        self.parts: Parts = build(config, self._log)
        self._serving = Serving(config, self.parts.edge)
        self._tasks: list[asyncio.Task[None]] = []
        self._signalled: float | None = None  # when

    @property
    def port(self) -> int:
        """The port it listens on."""
        return self._serving.server.port

    @property
    def _server(self) -> Server:
        return self._serving.server

    async def run(self) -> int:
        """Serve until a signal has ended it; the exit code. OSError when the address is taken."""
        loop = asyncio.get_running_loop()
        await self.start()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.signalled)
        loop.add_signal_handler(signal.SIGHUP, _log.warning, "SIGHUP: one process has nobody to take over: nothing is reloaded")
        tune_collector()
        print(
            f"tiergate: listening on {self._serving.scheme}://{self.config.server.host}:{self.port}", file=sys.stderr, flush=True
        )
        await self._serving.ended()
        await self.stop()
        return 0

    async def start(self) -> None:
        """Listen, and begin to watch replicas and keys."""
        parts = self.parts
        parts.ring.load()
        parts.admin.load()
        await parts.exact.start()
        await parts.limiter.start()
        await self._serving.start()
        self._tasks = [
            asyncio.create_task(parts.monitor.run(), name="health"),
            asyncio.create_task(watch_keys(parts.ring), name="keys"),
            asyncio.create_task(parts.semantic.run(), name="semantic"),
            asyncio.create_task(parts.share.run(), name="share"),
            asyncio.create_task(parts.schedule.run(), name="calibrate"),
            asyncio.create_task(parts.following.run(), name="policy"),
            asyncio.create_task(self._serving.watch_certificate(), name="certificate"),
            asyncio.create_task(parts.ears.run(), name="kv-events"),
            *(asyncio.create_task(watch.run(), name="discovery") for watch in parts.watches),
        ]

    def signalled(self) -> None:
        """A signal to end: first gently, then at once."""
        now = asyncio.get_running_loop().time()
        if self._signalled is None or now - self._signalled >= AGAIN:
            self._signalled = self._signalled or now
            self._serving.signalled()

    async def drain(self) -> None:
        """Refuse new work, let what runs finish, end the rest with an error event, then stop."""
        await self._serving.drain()

    async def stop(self) -> None:
        """End everything now. Safe to call twice."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.parts.flights.close()
        await self.parts.behind.close()
        await self._serving.stop()
        await asyncio.to_thread(self.parts.journal.close)
        await self.parts.semantic.close()
        await self.parts.exact.close()
        await self.parts.limiter.close()
        await self.parts.fleet.close()
        self._log.close()


async def watch_keys(ring: KeyRing) -> None:
    """For ever: follow the key file."""
    while True:
        await asyncio.sleep(KEYS_SECONDS)
        ring.refresh()


def tune_collector() -> None:
    """Once everything has started."""
    gc.collect()
    gc.set_threshold(20_000, 20, 20)  # a request makes few cycles: 4 % of CPU less than with the default of 700
    gc.freeze()  # what start-up made stays: no collection needs to walk it again
