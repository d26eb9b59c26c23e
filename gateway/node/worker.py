"""A worker's process: it takes connections, reads, authenticates, streams; for everything else it asks the dispatcher."""

from __future__ import annotations

import asyncio

import msgspec

from gateway.accept import Share
from gateway.app import tune_collector, watch_keys
from gateway.build.apart import WorkerParts, build_worker
from gateway.config import Config
from gateway.dispatch import messages as m
from gateway.dispatch.learning import hear_rated
from gateway.logs import JsonLog, NullLog, RequestLog
from gateway.node.child import END, RETIRE, Child
from gateway.node.inherited import Inherited
from gateway.serving import Serving

_REPORT_SECONDS = 0.5


class WorkerProcess:
    """Nothing happens before `start`."""

    def __init__(self, config: Config, inherited: Inherited, number: int, log: RequestLog | None = None) -> None:
        self._inherited = inherited
        self._number = number
        self._log = log or (JsonLog(worker=number) if config.observability.log == "json" else NullLog())
        self.parts: WorkerParts = build_worker(config, inherited.secret, inherited, inherited.path, number, self._log)
        self.parts.link.on_welcome = self._welcomed
        self.parts.link.verbs = {
            "keys": self._refresh_keys,
            "counts": self._report_now,
            "only": self._only,
            "rated": hear_rated(self.parts.own.learning),
        }
        self.serving = Serving(config, self.parts.edge, self.parts.link.served_others)
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Find the dispatcher, then take connections."""
        parts, inherited = self.parts, self._inherited
        parts.own.ring.load()
        self._tasks = [
            asyncio.create_task(parts.link.run(), name="link"),
            asyncio.create_task(parts.link.watch(), name="link-watch"),
            asyncio.create_task(watch_keys(parts.own.ring), name="keys"),
            asyncio.create_task(parts.own.following.run(), name="policy"),
            asyncio.create_task(self._report(), name="report"),
            asyncio.create_task(self.serving.watch_certificate(), name="certificate"),
        ]
        await parts.link.welcomed()
        self.serving.start_on(
            inherited.sockets,
            Share(inherited.shares, self._number),
            inherited.metrics,
            Share(inherited.metrics_shares, self._number),
        )

    async def stop(self) -> None:
        """Safe to call twice. What is still to be said to the dispatcher is said."""
        await self.parts.own.flights.close()
        await self.parts.own.behind.close()
        await self.serving.stop()
        self._report_now(b"")
        await self.parts.link.say_all()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.parts.replicas.close()
        self._log.close()

    def _welcomed(self) -> None:
        self.parts.metrics.again()
        self._report_now(b"")

    async def _report(self) -> None:
        while True:
            self._inherited.pulse.beat(self._number)
            await asyncio.sleep(_REPORT_SECONDS)
            self._report_now(b"")

    def _report_now(self, _: bytes) -> None:
        for part in self.parts.metrics.take():
            self.parts.link.tell(m.Counts(part))

    def _refresh_keys(self, _: bytes) -> None:
        self.parts.own.ring.refresh()

    def _only(self, payload: bytes) -> None:
        self.parts.metrics.only(msgspec.msgpack.decode(payload, type=list[str]))


async def run(child: Child, config: Config, inherited: Inherited) -> int:
    """Until a signal has ended it, or the supervisor is gone; the exit code."""
    loop = asyncio.get_running_loop()
    process = WorkerProcess(config, inherited, child.number)
    await process.start()
    serving = process.serving
    loop.add_signal_handler(END, serving.signalled)
    loop.add_signal_handler(RETIRE, serving.retire)
    loop.add_reader(child.lifeline, _orphaned, loop, child.lifeline, serving)
    tune_collector()
    child.ready()
    await serving.ended()
    await process.stop()
    return 0


def _orphaned(loop: asyncio.AbstractEventLoop, lifeline: int, serving: Serving) -> None:
    """Nobody would ever signal it again. One that drains already does so on: a second signal would cut its streams."""
    loop.remove_reader(lifeline)
    serving.server.stop_accepting()
    if not serving.server.draining:
        serving.signalled()
