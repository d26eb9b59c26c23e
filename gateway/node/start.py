"""`tiergate serve` with several workers: what is shared is made, then the supervisor runs the rest."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Callable, Coroutine
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import uvloop

from gateway.build.requests import draw_secret
from gateway.config import Config, ConfigError
from gateway.config.certificates import TlsError
from gateway.keyfile import KeyFileError
from gateway.keys import KeyRing
from gateway.node import dispatcher, worker
from gateway.node.child import Child
from gateway.node.inherited import Inherited
from gateway.node.sockets import listen
from gateway.node.supervisor import CANNOT_START, Reread, Supervisor
from gateway.serving import AGAIN, metrics_address
from gateway.tls import Certificate
from limits.journal import JournalInUse

_log = logging.getLogger("tiergate.node")


class Configs:
    """The config in use. `reread` looks at its file again, `prove` says that a dispatcher has started with what it found,
    `revert` goes back to the last one of which that was said.
    """

    def __init__(self, config: Config, load: Callable[[], Config]) -> None:
        self.config = config
        self._proven = config
        self._load = load

    def reread(self) -> Reread:
        """What listens, and how many, stays as it was: that takes a restart."""
        try:
            found = self._load()
            check(found)
        except (ConfigError, KeyFileError, TlsError) as error:
            for problem in error.errors if isinstance(error, ConfigError) else [error]:
                _log.error("the config is not reloaded: %s", problem)
            return Reread.REFUSED
        own, other = self.config.server, found.server
        if (own.host, own.port, own.metrics, own.workers) != (other.host, other.port, other.metrics, other.workers):
            _log.warning("host, port, metrics and workers of the server stay as they are until a restart")
        server = replace(other, host=own.host, port=own.port, metrics=own.metrics, workers=own.workers)
        found = replace(found, server=server)
        if found == self.config:
            return Reread.SAME
        self.config = found
        return Reread.CHANGED

    def prove(self) -> None:
        self._proven = self.config

    def revert(self) -> None:
        self.config = self._proven


def serve(config: Config, load: Callable[[], Config]) -> int:
    """Until signals have ended the node; the exit code. OSError, KeyFileError and TlsError before anything has started.

    `load` reads the config anew.
    """
    configs = Configs(config, load)
    server = config.server
    check(config)
    if config.admin.key:
        import_module("gateway.admin.api")  # once, here: a dispatcher that has to be started again has no half second for it
    sockets = listen(server.host, server.port)
    metrics = listen(*metrics_address(server.metrics)) if server.metrics else []
    inherited = Inherited(server.workers, draw_secret(config), sockets, metrics)
    try:
        supervisor = Supervisor(
            _child(dispatcher.run, configs, inherited),
            _child(worker.run, configs, inherited),
            server.workers,
            server.drain_timeout,
            inherited.pulse.read,
            sockets=[*sockets, *metrics],
            again=AGAIN,
            on_ready=lambda: _say(config, sockets[0].getsockname()[1]),
            reread=configs.reread,
            prove=configs.prove,
            revert=configs.revert,
            on_restart=lambda number: inherited.restarts.count(worker=bool(number)),
        )
        return supervisor.run()
    finally:
        inherited.close()


def check(config: Config) -> None:
    """What no process could start with is told before there is any. Raises KeyFileError and TlsError."""
    if config.server.tls is not None:
        Certificate(config.server.tls)
    KeyRing(config.keys.path, [tenant.name for tenant in config.tenants]).load()


Main = Callable[[Child, Config, Inherited], Coroutine[Any, Any, int]]


def _child(main: Main, configs: Configs, inherited: Inherited) -> Callable[[Child], int]:
    def run(child: Child) -> int:
        _name(child)
        try:
            return uvloop.run(main(child, configs.config, inherited))
        except (KeyFileError, TlsError, JournalInUse) as error:
            _log.error("it cannot start: %s", error)
            return CANNOT_START

    return run


def _name(child: Child) -> None:
    """In the log, and where the system shows what runs."""
    for handler in logging.getLogger().handlers:
        handler.setFormatter(logging.Formatter(f"%(asctime)s %(levelname)s %(name)s: {child.name}: %(message)s"))
    with contextlib.suppress(OSError):  # Linux has it
        Path("/proc/self/comm").write_text(f"tg-{child.name.replace(' ', '-')}")


def _say(config: Config, port: int) -> None:
    scheme, workers = "http" if config.server.tls is None else "https", config.server.workers
    where = f"{scheme}://{config.server.host}:{port}"
    print(f"tiergate: listening on {where} ({workers} workers, supervisor pid {os.getpid()})", file=sys.stderr, flush=True)
