"""`tiergate serve`: run the gateway until a signal ends it."""

from __future__ import annotations

import argparse
import logging
import resource
import signal
import sys
from collections.abc import Callable
from dataclasses import replace

from gateway.config import Config, ConfigError, load
from gateway.config.certificates import TlsError
from gateway.keyfile import KeyFileError
from limits.journal import JournalInUse

MAX_WORKERS = 256
_MANY_DESCRIPTORS = 1_048_576


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", nargs="?", metavar="CONFIG", help="the config file, as --config names it")
    parser.add_argument("--config", default="config.yaml", help="the config file (default: config.yaml)")
    parser.add_argument("--host", help="address to listen on, instead of the config's")
    parser.add_argument("--port", type=int, help="port to listen on, instead of the config's")
    parser.add_argument("--workers", type=int, help="processes that serve, instead of the config's")


def run(args: argparse.Namespace) -> int:
    if args.workers is not None and not 1 <= args.workers <= MAX_WORKERS:
        print(f"tiergate serve: --workers must be from 1 to {MAX_WORKERS}", file=sys.stderr)
        return 2
    if args.port is not None and not 0 <= args.port <= 65535:
        print("tiergate serve: --port must be from 0 to 65535", file=sys.stderr)
        return 2
    try:
        config = load(args.path or args.config)
    except ConfigError as error:
        for problem in error.errors:
            print(problem, file=sys.stderr)
        return 2
    return serve(_asked(config, args), lambda: _asked(load(args.path or args.config), args))


def _asked(config: Config, args: argparse.Namespace) -> Config:
    """The config, with what the command line says instead."""
    server = replace(config.server, host=args.host or config.server.host)
    if args.port is not None:
        server = replace(server, port=args.port)
    if args.workers is not None:
        server = replace(server, workers=args.workers)
    return replace(config, server=server)


def serve(config: Config, reload: Callable[[], Config] | None = None) -> int:
    """Run the gateway. Exit code 0 after a drain, 2 when it could not start. `reload` reads the config anew."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until whoever serves listens to it: a reload may come at any time
    _raise_descriptor_limit()
    level = config.observability.level.upper()
    logging.basicConfig(level=level, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        return _run(config, reload or (lambda: config))
    except TlsError as error:
        print(f"tiergate serve: tls.{error.key}: {error}", file=sys.stderr)
        return 2
    except (KeyFileError, JournalInUse) as error:
        print(f"tiergate serve: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        where = f" on {error.filename}" if error.filename else ""
        print(f"tiergate serve: cannot listen{where}: {error.strerror or error}", file=sys.stderr)
        return 2


def _run(config: Config, reload: Callable[[], Config]) -> int:
    """One process, or several. Only what serves needs what is imported here."""
    if config.server.workers > 1:
        from gateway.node.start import serve as serve_node  # noqa: PLC0415

        return serve_node(config, reload)
    import uvloop  # noqa: PLC0415

    from gateway.app import Gateway  # noqa: PLC0415

    return uvloop.run(Gateway(config).run())


def _raise_descriptor_limit() -> None:
    """As many sockets as the system lets this process have: the default of 1,024 is soon used up by idle clients."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MANY_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _MANY_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
