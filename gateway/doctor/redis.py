"""Asks a Redis who it is, what time it has and how it is set up, in its own protocol: a few commands with bounded answers."""

from __future__ import annotations

import asyncio
import re
import ssl
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from gateway.config.problems import Path
from gateway.doctor.clocks import skew
from gateway.doctor.findings import Finding, fail, ok, shown, warn

_PORT = 6379
_LONGEST = 262_144
_MOST = 16
_FIELD = re.compile(rb"^([a-z_]{1,40}):([\x21-\x7e]{0,80})\r?$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class RedisFacts:
    """`trouble`: why there is no answer, without any part of the password; `refused`: it wants other credentials.

    `told` is what `INFO` says; empty where this user may not ask. `seconds`: one command there and back.
    """

    trouble: str = ""
    refused: bool = False
    told: Mapping[str, str] = field(default_factory=dict)
    time: float | None = None
    asked: float = 0.0
    seconds: float = 0.0


class _RefusalError(Exception):
    """Redis answered with an error."""


async def ask(url: str, seconds: float, wall: Callable[[], float]) -> RedisFacts:
    """Never raises for what a server does."""
    parts = urlsplit(url)
    place = f"{parts.hostname}:{parts.port or _PORT}" if parts.hostname else parts.path
    try:
        async with asyncio.timeout(seconds):
            reader, writer = await _connect(url)
            try:
                return await _talk(reader, writer, _hello(url), wall)
            finally:
                writer.transport.abort()
    except TimeoutError:
        return RedisFacts(f"{place} gave no answer within {seconds:g} s")
    except _RefusalError as refused:
        text = shown(str(refused).encode(), unquote(parts.password or ""))
        return RedisFacts(f"{place} refuses us: {text}", refused=text.startswith(("NOAUTH", "WRONGPASS", "ERR AUTH", "NOPERM")))
    except ssl.SSLError as error:
        return RedisFacts(f"no TLS with {place}: {error.reason or 'the certificate is not trusted'}")
    except (OSError, EOFError) as error:
        why = getattr(error, "strerror", None) or "the connection ended"
        return RedisFacts(f"no connection to {place}: {shown(str(why).encode())}")
    except (ValueError, asyncio.LimitOverrunError):
        return RedisFacts(f"what answers at {place} is no Redis")


async def _connect(url: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    parts = urlsplit(url)
    if parts.scheme == "unix":
        return await asyncio.open_unix_connection(parts.path)
    context = ssl.create_default_context() if parts.scheme == "rediss" else None
    return await asyncio.open_connection(parts.hostname, parts.port or _PORT, ssl=context)


def _hello(url: str) -> list[str]:
    """AUTH with what the URL carries."""
    parts = urlsplit(url)
    if parts.password is None:
        return []
    return ["AUTH", *([unquote(parts.username)] if parts.username else []), unquote(parts.password)]


async def _talk(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, hello: list[str], wall: Callable[[], float]
) -> RedisFacts:
    async def command(*words: str) -> list[bytes]:
        lines = [b"*%d\r\n" % len(words), *(b"$%d\r\n%b\r\n" % (len(w.encode()), w.encode()) for w in words)]
        writer.write(b"".join(lines))
        return await _answer(reader)

    if hello:
        await command(*hello)
    await command("PING")
    asked, began = wall(), time.perf_counter()  # the loop's own clock goes by milliseconds
    second, micros = await command("TIME")
    took = time.perf_counter() - began
    told: dict[str, str] = {}
    with suppress(_RefusalError):  # a user that may do what a cache does need not be one that may ask this
        for section in ("server", "memory", "replication"):
            told |= {name.decode(): value.decode() for name, value in _FIELD.findall((await command("INFO", section))[0])}
    return RedisFacts(
        told=told,
        time=int(second[:20]) + int(micros[:20]) / 1e6,
        asked=asked,
        seconds=took,
    )


async def _answer(reader: asyncio.StreamReader) -> list[bytes]:
    """A simple text, a bulk, or a list of them. ValueError when it is none of these."""
    line = (await reader.readuntil(b"\r\n"))[:-2]
    kind, rest = line[:1], line[1:]
    match kind:
        case b"+":
            return [rest]
        case b"-":
            raise _RefusalError(rest[:200].decode("utf-8", "replace"))
        case b"$":
            size = int(rest)
            if not 0 <= size <= _LONGEST:
                raise ValueError("too long")
            return [(await reader.readexactly(size + 2))[:-2]]
        case b"*":
            count = int(rest)
            if not 0 <= count <= _MOST:
                raise ValueError("too many")
            return [(await _answer(reader))[0] for _ in range(count)]
    raise ValueError("not Redis")


def judge(where: Path, facts: RedisFacts, timeout: float) -> list[Finding]:
    """One Redis, whose calls may take `timeout` seconds."""
    if facts.refused:
        return [fail(where, facts.trouble, "Put user and password into the URL: redis://USER:PASSWORD@HOST:PORT/0.")]
    if facts.trouble:
        return [fail(where, facts.trouble, "Start Redis there, or correct the URL.")]
    found = [
        *skew(where, "redis", facts.time, facts.asked, facts.seconds),
        *_role(where, facts.told),
        *_memory(where, facts.told),
        *_latency((*where[:-1], "timeout"), facts.seconds, timeout),
    ]
    version = facts.told.get("valkey_version") or facts.told.get("redis_version") or "of an unknown version"
    kind = "Valkey" if "valkey_version" in facts.told else "Redis"
    return found or [ok(where, f"{kind} {version} answered in {facts.seconds * 1000:.1f} ms")]


def _role(where: Path, told: Mapping[str, str]) -> list[Finding]:
    if told.get("redis_mode") == "cluster" or told.get("server_mode") == "cluster":
        what = "it is a node of a cluster, which sends most calls elsewhere: one server, or one primary, is supported"
        return [fail(where, what, "Name a Redis that is no cluster.")]
    if told.get("role") != "slave":
        return []
    primary = f"{told.get('master_host', '?')}:{told.get('master_port', '?')}"
    if told.get("slave_read_only") == "0":
        return [warn(where, f"it is a replica of {primary}: what is written here is lost", "Name the primary.")]
    return [fail(where, f"it is a replica of {primary}, which takes no writes", "Name the primary.")]


def _memory(where: Path, told: Mapping[str, str]) -> list[Finding]:
    """Without a bound it grows until the machine has no memory left: each answer has an end, but nothing else holds it."""
    bound, kind = told.get("maxmemory", ""), told.get("maxmemory_policy", "")
    if not bound.isdigit() or kind != "noeviction" or bound == "0":
        return []
    what = f"maxmemory is {int(bound) // 2**20} MiB and maxmemory-policy noeviction: when it is full, nothing more is kept"
    return [warn(where, what, "Set maxmemory-policy to volatile-lru or volatile-lfu: every answer has an expiry.")]


def _latency(where: Path, seconds: float, timeout: float) -> list[Finding]:
    if seconds <= timeout / 2:
        return []
    what = f"a command took {seconds * 1000:.1f} ms, and a call may take {timeout * 1000:.0f} ms: lookups become misses"
    return [warn(where, what, "Have Redis nearer, or give it more time.")]
