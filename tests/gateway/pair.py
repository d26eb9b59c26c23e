"""Two workers and their dispatcher in the test's own loop, each worker on a port of its own: a test chooses whom to ask."""

import asyncio
import copy
from types import SimpleNamespace
from typing import Any

import msgspec

from gateway.accept import Shares
from gateway.build.requests import draw_secret
from gateway.config import Config
from gateway.node.dispatcher import DispatcherProcess
from gateway.node.inherited import Inherited
from gateway.node.sockets import listen
from gateway.node.worker import WorkerProcess


class Log:
    """The request log of one worker."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def write(self, facts: object) -> None:
        self.lines.append(msgspec.json.decode(msgspec.json.encode(facts)))

    def close(self) -> None:
        pass


class Worker:
    """One of the two. For the helpers of `gateway_talk` it is a stack whose gateway has that worker's port."""

    def __init__(self, config: Config, inherited: Inherited, number: int) -> None:
        own = copy.copy(inherited)
        own.sockets, own.shares = listen("127.0.0.1", 0), Shares(2)
        self.log = Log()
        self.gateway = SimpleNamespace(port=own.sockets[0].getsockname()[1])
        self.process = WorkerProcess(config, own, number, self.log)

    @property
    def link(self) -> Any:
        return self.process.parts.link

    @property
    def running(self) -> int:
        return self.process.parts.edge.running

    async def until(self, condition: Any, seconds: float = 10.0) -> None:
        async with asyncio.timeout(seconds):
            while not condition():
                await asyncio.sleep(0.005)

    def die(self) -> None:
        """What others see of a worker that is killed: its connections end in the middle of whatever they carry."""
        for task in self.process._tasks:
            task.cancel()
        self.link._channel.abort()


class Pair:
    """`a` and `b`."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._inherited = Inherited(2, draw_secret(config), [], [])
        self.fakes: dict[str, Any] = {}

    async def start(self) -> None:
        await self.start_dispatcher()
        self.a, self.b = (Worker(self._config, self._inherited, number) for number in (1, 2))
        for worker in (self.a, self.b):
            await worker.process.start()

    async def start_dispatcher(self) -> None:
        self.dispatcher = DispatcherProcess(self._config, self._inherited)
        await self.dispatcher.start()

    @property
    def node(self) -> Any:
        return self.dispatcher.parts.node

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [*self.a.log.lines, *self.b.log.lines]

    def idle(self) -> bool:
        """Nothing is held, under way or on its way anywhere."""
        lanes, workers = self.dispatcher.parts.owner.lanes.values(), (self.a, self.b)
        return (
            not any(replica.inflight for lane in lanes for replica in lane.pool.replicas)
            and not any(lane.scheduler.inflight or lane.scheduler.queue.load.requests for lane in lanes)
            and not any(len(w.process.parts.own.flights) or w.process.parts.own.flights.tasks or w.running for w in workers)
            and not any(len(w.link.outgoing) or len(w.link.incoming) or w.link.tickets for w in workers)
            and not len(self.node.feeds)
            and not self.node.berths
        )

    async def stop(self) -> None:
        for worker in (self.a, self.b):
            await worker.process.stop()
        await self.dispatcher.stop()
        self._inherited.close()
