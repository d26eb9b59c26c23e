"""A fake vLLM that starts and stops within a running loop.

uvicorn's protocol does all that is on the wire. Its `Server` is not used: that one is made for a process of its own
(signals, a tick every tenth of a second, a slow goodbye), and a test wants none of it. What it does beyond listening is the
`date` header once a second, which is done here.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from email.utils import formatdate
from types import TracebackType
from typing import Self

from uvicorn import Config
from uvicorn.server import ServerState

from gateway.lab.fake.engine import Engine
from gateway.lab.fake.faults import Faults
from gateway.lab.fake.log import Entry, Log
from gateway.lab.fake.metrics import Metrics
from gateway.lab.fake.options import Options
from gateway.lab.fake.protocol import Connection
from gateway.lab.fake.script import Script
from gateway.lab.fake.server import App

_KEEP_ALIVE = 5  # seconds, as vLLM leaves it


class FakeVLLM:
    """A fake vLLM in this process: `async with FakeVLLM(Options(...)) as fake: ... fake.url`.

    It listens on a port of its own choice, keeps that port when stopped and started again, and is a new server each time
    (nothing running, an empty cache) whose log and faults go on.
    """

    def __init__(self, options: Options | None = None, *, script: Script | None = None) -> None:
        self.options = options or Options()
        self.script = script or (Script.load(self.options.script) if self.options.script else Script())
        self.port = self.options.port
        self._waiters: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []
        self._server: asyncio.Server | None = None
        self._clock: asyncio.TimerHandle | None = None
        self._app: App | None = None
        self._kept: tuple[Log, Faults] | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.stop()

    @property
    def app(self) -> App:
        assert self._app is not None, "not started yet"
        return self._app

    @property
    def root(self) -> str:
        return f"http://{self.options.host}:{self.port}"

    @property
    def url(self) -> str:
        """The base URL that an OpenAI client wants."""
        return self.root + "/v1"

    @property
    def log(self) -> list[Entry]:
        """Everything received, oldest first."""
        return list(self.app.log)

    @property
    def calls(self) -> list[Entry]:
        """What was asked of the model: the log without probes."""
        return [entry for entry in self.app.log if entry.method == "POST" and entry.path.startswith("/v1/")]

    @property
    def faults(self) -> Faults:
        return self.app.faults

    @property
    def engine(self) -> Engine:
        return self.app.engine

    @property
    def metrics(self) -> Metrics:
        return self.app.metrics

    async def start(self) -> None:
        assert self._server is None, "started already"
        app = self._app = App(self.options, self.script, self._changed)
        if self._kept is not None:
            app.log, app.faults = self._kept
        self._kept = (app.log, app.faults)
        config = Config(
            app,
            http=Connection,
            ws="none",
            lifespan="off",
            interface="asgi3",
            timeout_keep_alive=_KEEP_ALIVE,
            proxy_headers=False,
            log_config=None,
            access_log=False,
        )
        config.load()
        sock = _listen(self.options.host, self.port)
        self.port = sock.getsockname()[1]
        self._tick(app.state, config)
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Connection(config, app.state, self._changed), sock=sock, backlog=2048)

    async def stop(self) -> None:
        """At once: the listener closes, every connection is dropped, whatever runs is cancelled."""
        server, self._server = self._server, None
        if server is None:
            return
        server.close()
        if self._clock is not None:
            self._clock.cancel()
        state = self.app.state
        for connection in tuple(state.connections):
            connection.transport.abort()
        tasks = tuple(state.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()
        await asyncio.sleep(0)

    async def until(self, condition: Callable[[], bool], seconds: float = 10.0) -> None:
        """Wait, without polling, until `condition` holds: it is asked when a connection or a request comes, starts or ends."""
        if condition():
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append((condition, waiter))
        try:
            await asyncio.wait_for(waiter, seconds)
        finally:
            self._waiters = [pair for pair in self._waiters if pair[1] is not waiter]

    def _changed(self) -> None:
        if self._waiters:
            for condition, waiter in tuple(self._waiters):
                if not waiter.done() and condition():
                    waiter.set_result(None)

    def _tick(self, state: ServerState, config: Config) -> None:
        date = formatdate(time.time(), usegmt=True).encode()
        state.default_headers = [(b"date", date), *config.encoded_headers]
        self._clock = asyncio.get_running_loop().call_later(1.0, self._tick, state, config)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setblocking(False)
        sock.bind((host, port))
    except OSError:
        sock.close()
        raise
    return sock
