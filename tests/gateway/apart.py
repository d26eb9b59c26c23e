"""A dispatcher and its workers in the test's own loop: the real processes' objects and the real socket between them."""

import asyncio
import socket
from dataclasses import dataclass
from typing import Any

from gateway.build.requests import draw_secret
from gateway.config import Config
from gateway.logs import RequestLog
from gateway.node.dispatcher import DispatcherProcess
from gateway.node.inherited import Inherited
from gateway.node.sockets import listen
from gateway.node.worker import WorkerProcess


@dataclass
class Parts:
    """What tests look at, by the names that it has in one process."""

    edge: Any
    pipeline: Any
    lanes: Any
    fleet: Any
    monitor: Any
    ring: Any
    exact: Any
    flights: Any
    limiter: Any
    metrics: Any


class Apart:
    """As `gateway.app.Gateway`, with `workers` workers; `parts` are the first one's, and the dispatcher's."""

    def __init__(self, config: Config, log: RequestLog, workers: int = 1) -> None:
        self.config = config
        self._log = log
        self._count = workers
        self.workers: list[WorkerProcess] = []
        self.port = 0

    async def start(self) -> None:
        server = self.config.server
        sockets = listen(server.host, server.port)
        self.port = sockets[0].getsockname()[1]
        self._sockets = sockets
        self.inherited = Inherited(self._count, draw_secret(self.config), sockets, [])
        await self.start_dispatcher()
        for number in range(1, self._count + 1):
            await self.start_worker(number)
        for sock in sockets:
            sock.close()

    async def start_dispatcher(self) -> None:
        self.dispatcher = DispatcherProcess(self.config, self.inherited)
        await self.dispatcher.start()
        self._look()

    async def start_worker(self, number: int) -> WorkerProcess:
        """Each has sockets of its own to close, as it would after a fork."""
        worker = WorkerProcess(self.config, _Copy(self.inherited, self._sockets), number, self._log)
        await worker.start()
        self.workers.append(worker)
        self._look()
        return worker

    def _look(self) -> None:
        if self.workers:
            owner, own = self.dispatcher.parts.owner, self.workers[0].parts.own
            edge = self.workers[0].parts.edge
            self.parts = Parts(
                edge, own.pipeline, owner.lanes, owner.fleet, owner.monitor, own.ring, owner.exact, own.flights, owner.limiter,
                self.workers[0].parts.metrics,
            )  # fmt: skip

    @property
    def _server(self) -> Any:
        return self.workers[0].serving.server

    @property
    def _tasks(self) -> list[asyncio.Task[None]]:
        return self.dispatcher._tasks

    def signalled(self) -> None:
        for worker in self.workers:
            worker.serving.signalled()

    async def drain(self) -> None:
        await asyncio.gather(*(worker.serving.drain() for worker in self.workers))

    async def stop(self) -> None:
        for worker in self.workers:
            await worker.stop()
        await self.dispatcher.stop()
        self.inherited.close()


class _Copy:
    def __init__(self, inherited: Inherited, sockets: list[socket.socket]) -> None:
        self.secret, self.path, self.metrics = inherited.secret, inherited.path, []
        self.shares, self.metrics_shares = inherited.shares, inherited.metrics_shares
        self.sockets = [sock.dup() for sock in sockets]
