"""uvicorn's own HTTP protocol, opened by one hand's breadth: the application may reach its connection.

vLLM is served by uvicorn, so its bytes (`server`, `date`, chunking, keep-alive, what a departed client looks like) are
uvicorn's. Two things an ASGI application cannot do are needed here: end a connection in the middle of an answer, and be
told that the client left without a task that waits for it. Both go through `scope["extensions"]["connection"]`.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_RESET = struct.pack("ii", 1, 0)  # SO_LINGER on, zero seconds: closing sends RST


class Connection(HttpToolsProtocol):
    """`departed` is called when the connection is lost; it belongs to the request being answered."""

    departed: Callable[[], None] | None = None

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = {"connection": {"protocol": self}}

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self.departed is not None:
            self.departed()

    async def cut(self, *, reset: bool) -> None:
        """End the connection here: what was written goes out, what was promised does not."""
        self.departed = None
        self.cycle.disconnected = True  # uvicorn then takes the unfinished answer for a departed client's
        if reset:
            await asyncio.sleep(0)  # the transport writes at the end of its loop turn
            await asyncio.sleep(0)
            sock = self.transport.get_extra_info("socket")
            if sock is not None and sock.fileno() >= 0:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self.transport.abort()
        else:
            self.transport.close()
