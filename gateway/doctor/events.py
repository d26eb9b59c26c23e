"""Checks of where an engine is to publish what it caches, and to replay it: is there a ZeroMQ socket of the right kind?

ZMTP 3 (rfc.zeromq.org/spec/23): either side begins with a greeting of 64 bytes; without encryption a READY follows, which names
the kind of socket. The other side's is read; none is sent, so no event comes.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass

from gateway.config import Model
from gateway.config.problems import Path
from gateway.doctor.findings import Finding, fail, shown

_GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)
_SIGNATURE = re.compile(rb"\xff.{8}\x7f\x03", re.DOTALL)
_KIND = re.compile(rb"\x0bSocket-Type\x00\x00\x00([\x01-\x0a])([A-Z]{1,10})")
_KINDS = {"events": ("PUB", "XPUB"), "replay": ("ROUTER",)}
_MEND = "Start the engine with --kv-events-config, or correct the address."


@dataclass(frozen=True, slots=True)
class EventsFacts:
    """`trouble`: why there is no ZeroMQ; else `kind` is what the socket calls itself."""

    kind: str = ""
    trouble: str = ""


async def ask(address: str, seconds: float) -> EventsFacts:
    """Never raises for what is there."""
    try:
        async with asyncio.timeout(seconds):
            reader, writer = await _connect(address)
            try:
                writer.write(_GREETING)
                return await _greeted(reader)
            finally:
                writer.transport.abort()
    except TimeoutError:
        return EventsFacts(trouble=f"no ZeroMQ handshake within {seconds:g} s")
    except (asyncio.IncompleteReadError, ConnectionResetError, BrokenPipeError):
        return EventsFacts(trouble="the connection ended before a ZeroMQ handshake")
    except OSError as error:
        why = getattr(error, "strerror", None) or "the connection ended"
        return EventsFacts(trouble=f"no connection: {shown(str(why).encode())}")


async def _connect(address: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if address.startswith("ipc://"):
        return await asyncio.open_unix_connection(address.removeprefix("ipc://"))
    host, _, port = address.removeprefix("tcp://").rpartition(":")
    return await asyncio.open_connection(host.strip("[]"), int(port))


async def _greeted(reader: asyncio.StreamReader) -> EventsFacts:
    if not _SIGNATURE.match(await reader.readexactly(11)):
        return EventsFacts(trouble="what listens there speaks no ZeroMQ (ZMTP 3)")
    mechanism = (await reader.readexactly(53))[1:21].rstrip(b"\0")
    if mechanism != b"NULL":
        return EventsFacts(trouble=f"it wants the security {shown(mechanism)}, which the gateway has not")
    flags, size = await reader.readexactly(2)
    kind = _KIND.search(await reader.readexactly(size)) if flags == 4 else None
    if kind is None or kind[1][0] != len(kind[2]):
        return EventsFacts(trouble="it does not say what kind of ZeroMQ socket it is")
    return EventsFacts(kind[2].decode())


def judge(where: Path, model: Model, number: int, asked: dict[str, EventsFacts | None]) -> list[Finding]:
    """One replica's `events` and `replay`; None: it was not asked to the end."""
    found = []
    for key, facts in asked.items():
        place = (*where, key)
        trouble = "it was not asked to the end before the time of the whole check was up" if facts is None else facts.trouble
        if trouble:
            what = f"replica {model.replicas[number].name}: {trouble}"
            found.append(fail(place, what, _MEND))
        elif facts is not None and facts.kind not in _KINDS[key]:
            wanted = f"a {_KINDS[key][0]} socket is expected"
            mend = "Exchange `events` and `replay`, or correct the address."
            found.append(fail(place, f"what listens there is a {facts.kind} socket: {wanted}", mend))
    return found
