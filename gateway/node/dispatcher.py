"""The dispatcher's process: everything that has one owner, and a Unix socket on which workers ask for it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Iterable

from gateway.app import tune_collector, watch_keys
from gateway.build.apart import NodeParts, build_node
from gateway.config import Config
from gateway.dispatch.channel import Channel, listen
from gateway.dispatch.session import Session
from gateway.node.child import END, Child
from gateway.node.inherited import Inherited
from limits.vault import Vault

_log = logging.getLogger("tiergate.node")
_FIRST_LOOK = 1.0  # seconds; who has not answered by then is not up yet
_BEAT = 0.1  # seconds


class DispatcherProcess:
    """Nothing happens before `start`."""

    def __init__(self, config: Config, inherited: Inherited) -> None:
        self._config = config
        self._inherited = inherited
        self.parts: NodeParts = build_node(
            config,
            inherited.secret,
            Vault.open(inherited.vault),
            inherited,
            store=inherited.tally.write,
            pids=_pids,
            restarts=inherited.restarts.read,
        )
        kept = inherited.tally.read()
        if kept:
            self.parts.tally.restore(kept)
        self._server: asyncio.AbstractServer | None = None
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Look at the replicas, then listen: a worker's first question must not find that nobody is up yet."""
        parts, owner = self.parts, self.parts.owner
        parts.own.ring.load()
        if self._config.admin.key:
            parts.admin.load()
        await owner.exact.start()
        await owner.limiter.start()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FIRST_LOOK), asyncio.TaskGroup() as group:
                for watch in owner.watches:
                    group.create_task(watch.look())
                group.create_task(owner.monitor.check_once())
        self._tasks = [
            asyncio.create_task(owner.monitor.run(), name="health"),
            asyncio.create_task(watch_keys(parts.own.ring), name="keys"),
            asyncio.create_task(parts.node.run(), name="roster"),
            asyncio.create_task(self._beat(), name="pulse"),
            asyncio.create_task(parts.page.run(), name="loads"),
            asyncio.create_task(owner.semantic.run(), name="semantic"),
            asyncio.create_task(owner.ears.run(), name="kv-events"),
            asyncio.create_task(owner.share.run(), name="share"),
            asyncio.create_task(owner.schedule.run(), name="calibrate"),
            asyncio.create_task(parts.own.following.run(), name="policy"),
            *(asyncio.create_task(watch.run(), name="discovery") for watch in owner.watches),
        ]
        self._server = await listen(self._inherited.listening(), self._channel)

    async def _beat(self) -> None:
        """For ever: show the supervisor that the event loop turns."""
        while True:
            self._inherited.pulse.beat(0)
            await asyncio.sleep(_BEAT)

    def _channel(self) -> Channel:
        return self.parts.node.session().channel

    async def stop(self) -> None:
        """Safe to call twice. The next one goes on from what is written here."""
        with contextlib.suppress(OSError, ValueError):
            self._inherited.tally.write(self.parts.tally.keep())
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.parts.node.hand_over()
        await self.parts.node.close()
        await asyncio.to_thread(self.parts.owner.journal.close)
        await self.parts.owner.semantic.close()
        await self.parts.owner.exact.close()
        await self.parts.owner.limiter.close()
        await self.parts.owner.fleet.close()


def _pids(sessions: Iterable[Session]) -> list[int]:
    return [os.getppid(), os.getpid(), *(session.pid for session in sessions if session.pid)]


async def run(child: Child, config: Config, inherited: Inherited) -> int:
    """Until it is told to, or until the supervisor is gone and no worker is left; the exit code."""
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    process = DispatcherProcess(config, inherited)
    loop.add_signal_handler(END, ended.set)
    await process.start()
    loop.add_reader(child.lifeline, _orphaned, loop, child.lifeline, process, ended)
    tune_collector()
    child.ready()
    await ended.wait()
    await process.stop()
    return 0


def _orphaned(loop: asyncio.AbstractEventLoop, lifeline: int, process: DispatcherProcess, ended: asyncio.Event) -> None:
    """The workers drain by themselves, and need the dispatcher until they have."""
    loop.remove_reader(lifeline)
    process.parts.node.spawn(_last(process, ended))


async def _last(process: DispatcherProcess, ended: asyncio.Event) -> None:
    while process.parts.node.sessions:  # noqa: ASYNC110 - once, at the end of the process
        await asyncio.sleep(0.05)
    ended.set()
