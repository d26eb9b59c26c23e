"""A and AAAA records through the system's resolver (`/etc/hosts`, `search` domains and all)."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

from gateway.discovery.single import Single
from gateway.discovery.types import Addresses, Found, LookFailed, plain_address

_SECONDS = 5.0


class SystemLookup:
    """Kind dns without `servers`. The loop looks names up in a thread of its own."""

    patience = 2  # large answers are cut and turned: one that misses a replica once proves little

    def __init__(self, name: str, port: int, addresses: Addresses, *, seconds: float = _SECONDS) -> None:
        self.label = f"dns {name}:{port}"
        self._name = name
        self._port = port
        self._addresses = addresses
        self._lookup = Single(self._ask, seconds)

    async def look(self) -> Found:
        try:
            entries = await self._lookup()
        except OSError as error:
            raise LookFailed(error.strerror or "the name cannot be resolved") from None
        hosts = [plain_address(str(entry[4][0])) for entry in entries]
        return Found(self._addresses.replicas((host, self._port) for host in hosts if host is not None))

    async def _ask(self) -> list[Any]:
        loop = asyncio.get_running_loop()
        return await loop.getaddrinfo(self._name.strip("[]"), self._port, type=socket.SOCK_STREAM)
