"""Asks a Redis who it is and what time it has, in its own protocol: four commands, each with a bounded answer."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from gateway.config.problems import Path
from gateway.doctor.clocks import skew
from gateway.doctor.findings import Finding, fail, ok, shown

_PORT = 6379
_LONGEST = 262_144
_MOST = 16
_VERSION = re.compile(rb"^(?:redis|valkey)_version:([0-9.]{1,20})", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class RedisFacts:
    """`trouble`: why there is no answer, without any part of the password; `refused`: it wants other credentials."""

    trouble: str = ""
    refused: bool = False
    version: str = ""
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
    loop = asyncio.get_running_loop()
    asked, began = wall(), loop.time()
    second, micros = await command("TIME")
    took = loop.time() - began
    found = _VERSION.search((await command("INFO", "server"))[0])
    return RedisFacts(
        version=found[1].decode() if found else "",
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


def judge(where: Path, facts: RedisFacts) -> list[Finding]:
    """One Redis."""
    if facts.refused:
        return [fail(where, facts.trouble, "Put user and password into the URL: redis://USER:PASSWORD@HOST:PORT/0.")]
    if facts.trouble:
        return [fail(where, facts.trouble, "Start Redis there, or correct the URL.")]
    late = skew(where, "redis", facts.time, facts.asked, facts.seconds)
    return late or [ok(where, f"Redis {facts.version or 'of an unknown version'} answered in {facts.seconds * 1000:.1f} ms")]
