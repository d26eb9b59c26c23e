"""Listening sockets, made before there is an event loop, for several processes to inherit.

As asyncio makes them for one process: every address of the host, each with a socket of its own, IPv6 without IPv4 in it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket

_BACKLOG = 1024
_ATTEMPTS = 16  # at a port that is free on all addresses

Address = tuple[socket.AddressFamily, str, int]  # family, host, scope of an IPv6 address


def listen(host: str, port: int) -> list[socket.socket]:
    """Bound, listening, non-blocking. `port` 0 takes one that is free on all of them. OSError tells the address as filename."""
    try:
        addresses = _addresses(host, port)
        for attempt in range(_ATTEMPTS):
            try:
                return _listen_all(addresses, port)
            except OSError as error:
                if port or error.errno != errno.EADDRINUSE or attempt == _ATTEMPTS - 1:
                    raise
        raise AssertionError  # the last attempt returns or raises
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), f"{host}:{port}") from error


def _addresses(host: str, port: int) -> list[Address]:
    found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return list(dict.fromkeys((family, str(name[0]), int(name[3]) if len(name) > 3 else 0) for family, _, _, _, name in found))


def _listen_all(addresses: list[Address], port: int) -> list[socket.socket]:
    with contextlib.ExitStack() as on_failure:
        sockets: list[socket.socket] = []
        for family, host, scope in addresses:
            try:
                sock = on_failure.enter_context(socket.socket(family, socket.SOCK_STREAM))
            except OSError:  # the name has an address of a family that this machine does not speak
                continue
            _bind(sock, host, port, scope)
            port = sock.getsockname()[1]
            sockets.append(sock)
        if not sockets:
            raise OSError(errno.EAFNOSUPPORT, os.strerror(errno.EAFNOSUPPORT))
        on_failure.pop_all()
        return sockets


def _bind(sock: socket.socket, host: str, port: int, scope: int) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if sock.family == socket.AF_INET6:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    sock.setblocking(False)
    name = (host, port, 0, scope) if sock.family == socket.AF_INET6 else (host, port)
    try:
        sock.bind(name)
        sock.listen(_BACKLOG)
    except OSError as error:  # in asyncio's words: one message, however many workers
        reason = f"error while attempting to bind on address {name!r}: {str(error.strerror).lower()}"
        raise OSError(error.errno, reason) from None
