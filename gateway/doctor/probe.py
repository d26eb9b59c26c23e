"""Asks one replica, over the client that requests go through and with the key that they carry.

First the name, then (https) the certificate, then `/health`; if that makes a connection, the rest at once.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass

from backends.client import Client, Deadlines
from backends.errors import BadResponse, ConnectFailed, UpstreamError, UpstreamTimeout
from backends.replica import Replica
from gateway.doctor import certificates
from gateway.doctor.facts import Question, ReplicaFacts, Reply, Silence
from gateway.doctor.names import look_up

_MAX_BODY = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Deep:
    """A request to a model: the path below the base, and the body."""

    path: bytes
    body: bytes


async def probe(
    facts: ReplicaFacts,
    replica: Replica,
    *,
    context: ssl.SSLContext | None,
    timeout: float,  # noqa: ASYNC109 - of each question, not of the whole
    wall: Callable[[], float],
    deep: Deep | None = None,
) -> None:
    """Fill in `facts`. `context` is what the client verifies with; None for plain http. Closes the replica's client."""
    try:
        await _look_up(facts, replica, timeout)
        if context is not None and facts.stopped is None:
            await _look_at_certificate(facts, replica, context, timeout)
        if facts.stopped is None:
            await _ask(facts, replica, timeout, wall, deep)
        facts.finished = True
    finally:
        await replica.client.close()


async def _look_up(facts: ReplicaFacts, replica: Replica, seconds: float) -> None:
    origin = client_of(replica).origin
    try:
        found = await look_up(origin.host, origin.port, seconds)
    except TimeoutError:
        facts.stopped = Silence("dns", f"the name {origin.host} could not be looked up within {seconds:g} s")
    except OSError:
        facts.stopped = Silence("dns", f"the name {origin.host} cannot be resolved")
    else:
        facts.addresses = tuple(dict.fromkeys(str(address[0]) for _, _, _, address in found))


async def _look_at_certificate(facts: ReplicaFacts, replica: Replica, context: ssl.SSLContext, seconds: float) -> None:
    client = client_of(replica)
    try:
        async with asyncio.timeout(seconds):
            facts.certificate = await _first_look(facts.addresses, client.origin.port, client.server_name or "", context)
    except TimeoutError:
        facts.stopped = Silence("certificate", f"no TLS handshake with {_place(replica)} within {seconds:g} s")
    except ssl.SSLError as error:
        facts.stopped = Silence("certificate", f"{_place(replica)} does not speak TLS ({error.reason or 'no handshake'})")
    except OSError as error:
        facts.stopped = Silence("connect", f"no connection to {_place(replica)}: {error.strerror or type(error).__name__}")
    else:
        if facts.certificate.code:
            facts.stopped = Silence("certificate", facts.certificate.why)


async def _first_look(addresses: tuple[str, ...], port: int, name: str, context: ssl.SSLContext) -> certificates.Certificate:
    """At the first address that takes a connection, as the client does it."""
    *others, last = addresses
    for address in others:
        try:
            return await certificates.look(address, port, name, context)
        except ssl.SSLError:
            raise
        except OSError:
            continue
    return await certificates.look(last, port, name, context)


async def _ask(facts: ReplicaFacts, replica: Replica, seconds: float, wall: Callable[[], float], deep: Deep | None) -> None:
    root, base = client_of(replica).origin.base_path.removesuffix("/v1").encode(), client_of(replica).origin.base_path.encode()

    async def ask(question: Question, path: bytes, body: bytes = b"") -> None:
        try:
            facts.replies[question] = await request(replica, path, body, seconds, wall)
        except (UpstreamError, TimeoutError) as error:
            facts.silences[question] = silence(error, replica, seconds)

    await ask("health", root + b"/health")
    refused = facts.silences.get("health")
    if refused is not None and refused.trouble == "connect":
        facts.stopped = refused
        return
    async with asyncio.TaskGroup() as group:
        group.create_task(ask("models", base + b"/models"))
        group.create_task(ask("version", root + b"/version"))
        group.create_task(ask("metrics", root + b"/metrics"))
        if deep is not None:
            group.create_task(ask("deep", base + deep.path, deep.body))


async def request(replica: Replica, path: bytes, body: bytes, seconds: float, wall: Callable[[], float]) -> Reply:
    """`path` is the whole one. Raises UpstreamError and TimeoutError."""
    head = (b"POST " if body else b"GET ") + path + replica.head_lines + b"accept: */*\r\naccept-encoding: identity\r\n"
    if body:
        head += b"content-type: application/json\r\ncontent-length: %d\r\n" % len(body)
    loop = asyncio.get_running_loop()
    asked, began = wall(), time.perf_counter()  # the loop's own clock goes by milliseconds
    deadlines = Deadlines(seconds, seconds, seconds, loop.time() + seconds)
    async with asyncio.timeout(seconds), replica.client.request(head + b"\r\n", body, deadlines) as answer:
        data = await answer.read(_MAX_BODY)
        return Reply(answer.status, tuple(answer.headers), data, asked, time.perf_counter() - began)


def silence(error: UpstreamError | TimeoutError, replica: Replica, seconds: float) -> Silence:
    place = _place(replica)
    if isinstance(error, ConnectFailed) or (isinstance(error, UpstreamTimeout) and error.phase == "connect"):
        return Silence("connect", f"no connection to {place}: {str(error).removeprefix('no connection: ')}")
    if isinstance(error, TimeoutError | UpstreamTimeout):
        return Silence("timeout", f"{place} accepted the connection and gave no answer within {seconds:g} s")
    if isinstance(error, BadResponse):
        return Silence("not_http", f"what answers at {place} is not HTTP, or answers without end")
    return Silence("broken", f"{place} broke the connection off")


def _place(replica: Replica) -> str:
    return f"{client_of(replica).origin.host}:{client_of(replica).origin.port}"


def client_of(replica: Replica) -> Client:
    """The client of a replica that is asked: an engine's, reached over HTTP."""
    client = replica.client
    assert isinstance(client, Client), "a provider is not asked"
    return client
