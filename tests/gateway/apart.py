"""A dispatcher and its workers in the test's own loop: the real processes' objects and the real socket between them."""

import asyncio
from dataclasses import dataclass, replace
from typing import Any

from gateway.build.requests import draw_secret
from gateway.config import Config
from gateway.logs import RequestLog
from gateway.node.dispatcher import DispatcherProcess
from gateway.node.inherited import Inherited
from gateway.node.sockets import listen
from gateway.node.worker import WorkerProcess
from gateway.serving import metrics_address


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
    semantic: Any
    flights: Any
    behind: Any
    limiter: Any
    metrics: Any
    share: Any


class Apart:
    """As `gateway.app.Gateway`, with `workers` workers; `parts` are the first one's, and the dispatcher's."""

    def __init__(self, config: Config, log: RequestLog, workers: int = 1) -> None:
        self.config = replace(config, server=replace(config.server, workers=workers))
        self._log = log
        self._count = workers
        self.workers: list[WorkerProcess] = []
        self.port = 0

    async def start(self) -> None:
        server = self.config.server
        sockets = listen(server.host, server.port)
        self.port = sockets[0].getsockname()[1]
        self._metrics = listen(*metrics_address(server.metrics)) if server.metrics else []
        self.inherited = Inherited(self._count, draw_secret(self.config), sockets, self._metrics)
        await self.start_dispatcher()
        for number in range(1, self._count + 1):
            await self.start_worker(number)
        for sock in (*sockets, *self._metrics):
            sock.close()

    async def start_dispatcher(self) -> None:
        self.dispatcher = DispatcherProcess(self.config, self.inherited)
        await self.dispatcher.start()
        self._look()

    async def replace_dispatcher(self) -> None:
        """Another one in the place of the one that goes without a word."""
        self.dispatcher.parts.node.closing = True
        for session in list(self.dispatcher.parts.node.sessions):
            session.channel.abort()
        self.dispatcher._server.close()
        for task in self.dispatcher._tasks:
            task.cancel()
        await asyncio.gather(*self.dispatcher._tasks, return_exceptions=True)
        await self.start_dispatcher()

    async def start_worker(self, number: int) -> WorkerProcess:
        """Each has sockets of its own to close, as it would after a fork."""
        worker = WorkerProcess(self.config, _Copy(self.inherited), number, self._log)
        await worker.start()
        self.workers.append(worker)
        self._look()
        return worker

    def _look(self) -> None:
        if self.workers:
            owner, own = self.dispatcher.parts.owner, self.workers[0].parts.own
            edge = self.workers[0].parts.edge
            self.parts = Parts(
                edge, own.pipeline, owner.lanes, owner.fleet, owner.monitor, own.ring, owner.exact, owner.semantic, own.flights,
                own.behind, owner.limiter, self.workers[0].parts.metrics,
                owner.share,
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

    def idle(self) -> bool:
        """Nobody holds anything, here or there, and every word about it was heard."""
        links = [worker.parts.link for worker in self.workers]
        return (
            not any(session.cases for session in self.dispatcher.parts.node.sessions)
            and not self.dispatcher.parts.node.berths
            and not any(link.tickets or link._leaving for link in links)
            and not any(worker.parts.edge.running or worker.parts.own.flights.tasks for worker in self.workers)
        )

    async def stop(self) -> None:
        for worker in self.workers:
            await worker.stop()
        await self.dispatcher.stop()
        self.inherited.close()


class _Copy:
    """What a worker has after a fork: descriptors of its own."""

    def __init__(self, inherited: Inherited) -> None:
        self.secret, self.path = inherited.secret, inherited.path
        self.pulse, self.loads, self.talks = inherited.pulse, inherited.loads, inherited.talks
        self.switches = inherited.switches
        self.shares, self.metrics_shares = inherited.shares, inherited.metrics_shares
        self.sockets = [sock.dup() for sock in inherited.sockets]
        self.metrics = [sock.dup() for sock in inherited.metrics]
