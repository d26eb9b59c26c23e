"""Ports for the trial.

The gateway's is the user's choice, and a taken one is said before anything starts. The backends' are ours: taken from a
range that systems do not hand out to outgoing connections, so that nothing slips in between choosing and listening.
"""

from __future__ import annotations

import random
import socket

BACKEND_PORTS = range(20_000, 30_000)


class PortError(Exception):
    """Nobody can listen there; the message says where and why."""


def check(host: str, port: int) -> None:
    """Raises PortError unless this process could listen there now."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            probe.listen()
    except OSError as error:
        raise PortError(f"cannot listen on {host} port {port}: {error.strerror or error}") from error


def free(count: int, rng: random.Random) -> list[int]:
    """That many different ports of 127.0.0.1 that nobody listens on."""
    found: list[int] = []
    for port in rng.sample(BACKEND_PORTS, len(BACKEND_PORTS)):
        if len(found) == count:
            break
        try:
            check("127.0.0.1", port)
        except PortError:
            continue
        found.append(port)
    return found
