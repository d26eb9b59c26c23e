"""The HTTP/1.1 client of one replica: its address, its idle sockets, and requests over them.

    async with client.request(head, body, deadlines) as answer:      # here once the head of the answer is there
        sink(await answer.first())
        await answer.relay(sink)

Rules:
- The name is looked up by `resolve`, at the start and then now and again, never on the way of a request that could have
  been sent without it.
- The socket used last is used first, so that the others grow old and are closed. An idle socket is closed before the
  server's own keep-alive would do it (vLLM: 5 s), and at once when the peer closes it or speaks out of turn.
- A request that went out on a socket which had been idle and died at once, before a byte came back, is sent once more, on a
  fresh socket: the server had closed the old one. Of a socket that dies later the server had the request, and may have begun.
  Nothing else is ever sent twice here.
- Leaving the `async with` before the answer was complete closes the socket at once, on every way out.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import os
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from urllib.parse import urlsplit

from backends.alarm import Deadlines
from backends.answer import Answer
from backends.connection import Connection
from backends.errors import ConnectFailed, ConnectionBroken, UpstreamError, UpstreamTimeout

_OURS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL})
AT_ONCE = 0.1
"""Seconds in which one hears of a server that had closed a socket: longer than any way to it, shorter than most answers."""
_OTHER_NAME = frozenset({62, 64})  # X509_V_ERR_HOSTNAME_MISMATCH and its twin for addresses

__all__ = ["Answer", "Client", "Deadlines", "Origin", "Request"]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a replica lives. `base_path` is empty, or begins with a slash and does not end with one."""

    scheme: str
    host: str
    port: int
    base_path: str

    @classmethod
    def parse(cls, url: str) -> Origin:
        """`http://10.0.0.11:8000/v1`. A ValueError says what is wrong, without repeating the URL: it may hold a password."""
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"}:
            raise ValueError("the URL must begin with http:// or https://")
        if parts.username is not None or parts.password is not None:
            raise ValueError("the URL must not hold a user or a password")
        if "?" in url or "#" in url:
            raise ValueError("the URL must not hold a query or a fragment")
        if not url.isascii() or not url.isprintable() or " " in url:
            raise ValueError("the URL must be plain ASCII without white space")
        port = parts.port if parts.port is not None else 443 if parts.scheme == "https" else 80
        if not port:
            raise ValueError("the port must be from 1 to 65535")
        return cls(parts.scheme, _hostname(parts.hostname), port, parts.path.rstrip("/"))

    @property
    def authority(self) -> str:
        """The value of a Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.scheme == "https" else 80) else f"{host}:{self.port}"


class Client:
    """Belongs to the event loop that it is first used on."""

    def __init__(
        self,
        origin: Origin,
        *,
        idle_seconds: float = 4.0,
        max_idle: int = 1024,
        ssl_context: ssl.SSLContext | None = None,
        server_name: str | None = None,
    ) -> None:
        self.origin = origin
        self._idle_seconds = idle_seconds
        self._max_idle = max_idle
        self._ssl = (ssl_context or ssl.create_default_context()) if origin.scheme == "https" else None
        self.server_name = (server_name or origin.host) if self._ssl is not None else None  # for SNI and the certificate
        self._literal = _is_address(origin.host)
        self._addresses: tuple[str, ...] = (origin.host,) if self._literal else ()
        self._lookup: asyncio.Task[None] | None = None
        self._idle: dict[Connection, float] = {}  # by the time of the last byte, in the order of their return
        self._sweeper: asyncio.TimerHandle | None = None
        self._closed = False

    @property
    def ssl_context(self) -> ssl.SSLContext | None:
        """What servers are verified with; None for plain HTTP."""
        return self._ssl

    async def resolve(self) -> None:
        """Look the name up. ConnectFailed when that fails; the addresses known before stay in use."""
        if self._literal:
            return
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(self.origin.host, self.origin.port, type=socket.SOCK_STREAM)
        except OSError:
            raise ConnectFailed("the name cannot be resolved") from None
        addresses = tuple(dict.fromkeys(str(entry[4][0]) for entry in found))
        if set(addresses) != set(self._addresses):
            self._drop_idle()  # they may lead to a machine that has left
        self._addresses = addresses

    def request(
        self,
        head: bytes,
        body: bytes,
        deadlines: Deadlines,
        sink: Callable[[bytes], None] | None = None,
        *,
        new: bool = False,
    ) -> Request:
        """`head`: a complete request head with its final empty line. It and `body` go out byte for byte.

        `new`: on a socket of its own from the start, for what was sent before and is not to be sent twice again.
        A `sink` given here is handed the body from its first piece on, inside the read callback: for who must know when
        that piece came. It is to be given to `relay` again.
        """
        return Request(self, head, body, deadlines, sink, new)

    async def close(self) -> None:
        """Close the idle sockets. Those in use are closed by their requests; no new ones are made."""
        self._closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
        self._drop_idle()
        await asyncio.sleep(0)  # the event loop closes the sockets in its next round

    def take(self) -> Connection | None:
        """An idle socket that the peer has surely not closed for its age."""
        while self._idle:
            connection, _ = self._idle.popitem()
            if not connection.closed and connection.idle() < self._idle_seconds:
                return connection
            connection.abort()
        return None

    def give_back(self, connection: Connection) -> None:
        """The request on it is over, one way or another."""
        if not connection.release() or self._closed or len(self._idle) >= self._max_idle:
            connection.abort()
            return
        self._idle[connection] = connection.since
        if self._sweeper is None:
            self._sweeper = asyncio.get_running_loop().call_later(self._idle_seconds, self._sweep)

    async def dial(self, deadlines: Deadlines) -> Connection:
        """A fresh socket."""
        now = asyncio.get_running_loop().time()
        total_first = deadlines.total_at <= now + deadlines.connect
        try:
            async with asyncio.timeout_at(deadlines.total_at if total_first else now + deadlines.connect):
                return await self._connect()
        except TimeoutError:
            raise UpstreamTimeout("total" if total_first else "connect", sent=False) from None

    async def _connect(self) -> Connection:
        if self._closed:
            raise ConnectFailed("the client is closed")
        if not self._addresses:
            await self._first_lookup()
        loop = asyncio.get_running_loop()
        name = self.server_name
        reason: str = "no address"
        number: int | None = None
        for address in self._addresses:
            connection = Connection(loop, self._forget)
            try:
                await loop.create_connection(lambda: connection, address, self.origin.port, ssl=self._ssl, server_hostname=name)  # noqa: B023
            except OSError as error:
                connection.free()
                reason, number = _reason(error), error.errno
            except BaseException:
                connection.free()
                raise
            else:
                return connection
        raise ConnectFailed(f"no connection: {reason}", ours=number in _OURS)

    async def _first_lookup(self) -> None:
        """One lookup for all requests that came before the first was done; a request that leaves does not end it."""
        if self._lookup is None or self._lookup.done():
            self._lookup = asyncio.create_task(self.resolve())
        await asyncio.shield(self._lookup)

    def _drop_idle(self) -> None:
        for connection in self._idle:
            connection.abort()
        self._idle.clear()

    def _forget(self, connection: Connection) -> None:
        self._idle.pop(connection, None)

    def _sweep(self) -> None:
        self._sweeper = None
        loop = asyncio.get_running_loop()
        horizon = loop.time() - self._idle_seconds
        for connection in [connection for connection, since in self._idle.items() if since <= horizon]:
            del self._idle[connection]
            connection.abort()
        if self._idle:
            self._sweeper = loop.call_at(min(self._idle.values()) + self._idle_seconds, self._sweep)


class Request:
    """One request, sent on entering. Use it once."""

    __slots__ = ("_body", "_client", "_connection", "_deadlines", "_head", "_new", "_sink")

    def __init__(
        self, client: Client, head: bytes, body: bytes, deadlines: Deadlines, sink: Callable[[bytes], None] | None, new: bool
    ) -> None:
        self._client = client
        self._head = head
        self._body = body
        self._deadlines = deadlines
        self._sink = sink
        self._new = new
        self._connection: Connection | None = None

    async def __aenter__(self) -> Answer:
        warm = self._connection = None if self._new else self._client.take()
        if warm is not None:
            try:
                return await warm.send(self._head, self._body, self._deadlines, self._sink)
            except BaseException as error:
                _drop(warm)
                if warm.heard or not isinstance(error, ConnectionBroken) or warm.waited() > AT_ONCE:
                    raise
        return await self._fresh(again=warm is not None)

    async def _fresh(self, *, again: bool) -> Answer:
        """On a fresh socket. `again`: the warm one broke; where there is no other this request may have ended the server."""
        try:
            fresh = self._connection = await self._client.dial(self._deadlines)
        except UpstreamError as error:
            error.sent = error.sent or again
            raise
        try:
            return await fresh.send(self._head, self._body, self._deadlines, self._sink)
        except BaseException:
            _drop(fresh)
            raise

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._connection is not None:
            self._client.give_back(self._connection)


def _drop(connection: Connection) -> None:
    """Its request has failed."""
    connection.abort()
    connection.release()  # it and its answer would hold each other


def _hostname(host: str | None) -> str:
    if not host:
        raise ValueError("the URL must name a host")
    try:
        host.encode("idna")
    except UnicodeError:
        raise ValueError("the host is not a name that can be looked up") from None
    return host


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _reason(error: OSError) -> str:
    """What went wrong, without the address."""
    if isinstance(error, ssl.SSLCertVerificationError):
        named = error.verify_code in _OTHER_NAME  # whose message would tell the name
        return f"its certificate is not trusted ({'it is for another name' if named else error.verify_message})"
    if isinstance(error, ssl.SSLError):
        return error.reason or "TLS"
    return os.strerror(error.errno) if error.errno else type(error).__name__
