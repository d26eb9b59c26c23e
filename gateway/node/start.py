"""`tiergate serve` with several workers: what is shared is made, then the supervisor runs the rest."""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine
from importlib import import_module
from typing import Any

import uvloop

from gateway.build.requests import draw_secret
from gateway.config import Config
from gateway.keys import KeyRing
from gateway.node import dispatcher, worker
from gateway.node.child import Child
from gateway.node.inherited import Inherited
from gateway.node.sockets import listen
from gateway.node.supervisor import Supervisor
from gateway.serving import metrics_address
from gateway.tls import Certificate


def serve(config: Config) -> int:
    """Until signals have ended the node; the exit code. OSError, KeyFileError and TlsError before anything has started."""
    server = config.server
    if server.tls is not None:
        Certificate(server.tls)
    KeyRing(config.keys.path, [tenant.name for tenant in config.tenants]).load()
    if config.admin.key:
        import_module("gateway.admin.api")  # once, here: a dispatcher that has to be started again has no half second for it
    sockets = listen(server.host, server.port)
    metrics = listen(*metrics_address(server.metrics)) if server.metrics else []
    inherited = Inherited(server.workers, draw_secret(config), sockets, metrics)
    try:
        supervisor = Supervisor(
            _child(dispatcher.run, config, inherited),
            _child(worker.run, config, inherited),
            server.workers,
            server.drain_timeout,
            sockets=[*sockets, *metrics],
            on_ready=lambda: _say(config, sockets[0].getsockname()[1]),
            on_restart=lambda number: inherited.restarts.count(worker=bool(number)),
        )
        return supervisor.run()
    finally:
        inherited.close()


Main = Callable[[Child, Config, Inherited], Coroutine[Any, Any, int]]


def _child(main: Main, config: Config, inherited: Inherited) -> Callable[[Child], int]:
    def run(child: Child) -> int:
        return uvloop.run(main(child, config, inherited))

    return run


def _say(config: Config, port: int) -> None:
    scheme, workers = "http" if config.server.tls is None else "https", config.server.workers
    where = f"{scheme}://{config.server.host}:{port}"
    print(f"tiergate: listening on {where} ({workers} workers)", file=sys.stderr, flush=True)
