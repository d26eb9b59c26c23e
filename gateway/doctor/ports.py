"""May we listen there? And if somebody does already, is that a running tiergate?"""

from __future__ import annotations

import asyncio
import errno
import socket
from dataclasses import dataclass

from backends.client import Client, Deadlines, Origin
from backends.errors import UpstreamError
from gateway.config.problems import Path
from gateway.doctor.findings import Finding, fail, ok
from gateway.doctor.names import look_up

_MAX_BODY = 4 * 1024 * 1024
_ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104 - where to reach it, not where to bind


@dataclass(frozen=True, slots=True)
class PortFacts:
    """`number`: errno of the attempt to bind, 0 when it went well, -1 when the host is no name. `ours`: a tiergate listens."""

    number: int
    why: str = ""
    ours: bool = False


async def try_port(host: str, port: int, timeout: float) -> PortFacts:  # noqa: ASYNC109 - of each question
    """Bind, as the server would, and let go at once."""
    try:
        found = await look_up(host, port, timeout, passive=True)
    except (OSError, TimeoutError):
        return PortFacts(-1, f"{host} is no address of this machine")
    for family, kind, protocol, address in found:
        try:
            _bind(family, kind, protocol, address)
        except OSError as error:
            ours = error.errno == errno.EADDRINUSE and await _is_tiergate(host, port, timeout)
            return PortFacts(error.errno or -1, error.strerror or "", ours)
    return PortFacts(0)


def _bind(family: int, kind: int, protocol: int, address: tuple[str | int | bytes, ...]) -> None:
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        probe.bind(address)


async def _is_tiergate(host: str, port: int, seconds: float) -> bool:
    """A tiergate's `/ready` counts ready replicas; a listener for metrics alone has metrics of ours."""
    for path, sign in ((b"/ready", b'"ready_replicas"'), (b"/metrics", b"tiergate_requests_total")):
        if sign in await _get(_ANYWHERE.get(host, host), port, path, seconds):
            return True
    return False


async def _get(host: str, port: int, path: bytes, seconds: float) -> bytes:
    origin = Origin("http", host, port, "")
    client = Client(origin)
    head = b"GET %b HTTP/1.1\r\nhost: %b\r\naccept-encoding: identity\r\n\r\n" % (path, origin.authority.encode("idna"))
    deadlines = Deadlines(seconds, seconds, seconds, asyncio.get_running_loop().time() + seconds)
    try:
        async with asyncio.timeout(seconds), client.request(head, b"", deadlines) as answer:
            return await answer.read(_MAX_BODY)
    except (UpstreamError, TimeoutError):
        return b""
    finally:
        await client.close()


def judge(where: Path, host: str, port: int, facts: PortFacts) -> list[Finding]:
    """One listener."""
    place = f"{host}:{port}"
    if facts.ours:
        return [ok(where, f"a tiergate is running at {place}")]
    match facts.number:
        case 0:
            return []
        case errno.EADDRINUSE:
            return [fail(where, f"{place} is taken by another program", "End that program, or choose another port.")]
        case errno.EACCES:
            return [fail(where, f"this user may not listen at {place}", "Choose a port above 1023, or grant the capability.")]
        case errno.EADDRNOTAVAIL | -1:
            return [fail(where, f"{host} is no address of this machine", "Write one that is, or 0.0.0.0 for all.")]
        case _:
            return [fail(where, f"cannot listen at {place}: {facts.why}", "Choose another address.")]


def same_port(where: Path, port: int, metrics_port: int, hosts: tuple[str, str]) -> list[Finding]:
    """Two listeners of ours that want one port."""
    if not port or port != metrics_port or not (hosts[0] == hosts[1] or set(hosts) & {"0.0.0.0", "::"}):  # noqa: S104 - told apart
        return []
    return [fail(where, f"the metrics' listener wants the server's own port, {port}", "Give it another one, or leave it out.")]
